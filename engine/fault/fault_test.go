package fault_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"moss/engine/fault"
)

func TestKinds(t *testing.T) {
	kinds := []struct {
		name string
		make fault.Constructor
		kind fault.Kind
	}{
		{"Internal", fault.Internal, fault.KindInternal},
		{"NotModified", fault.NotModified, fault.KindNotModified},
		{"Invalid", fault.Invalid, fault.KindInvalid},
		{"Unauthorized", fault.Unauthorized, fault.KindUnauthorized},
		{"Forbidden", fault.Forbidden, fault.KindForbidden},
		{"NotFound", fault.NotFound, fault.KindNotFound},
		{"NotAcceptable", fault.NotAcceptable, fault.KindNotAcceptable},
		{"Conflict", fault.Conflict, fault.KindConflict},
		{"Unsupported", fault.Unsupported, fault.KindUnsupported},
		{"Unavailable", fault.Unavailable, fault.KindUnavailable},
	}
	if last := kinds[len(kinds)-1].kind; int(last) != len(kinds)-1 {
		t.Errorf("the last kind is %d of %d: one is not in this test", last, len(kinds))
	}
	for _, tc := range kinds {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.make("no such thing: %s", "web")
			if got := err.Error(); got != "no such thing: web" {
				t.Errorf("text %q", got)
			}
			for _, err := range []error{err, fmt.Errorf("start web: %w", err), errors.Join(io.EOF, err)} {
				if got := fault.KindOf(err); got != tc.kind {
					t.Errorf("KindOf(%v) = %d, want %d", err, got, tc.kind)
				}
				for _, other := range kinds {
					if got, want := fault.Is(err, other.make), other.kind == tc.kind; got != want {
						t.Errorf("Is(%v, %s) = %t, want %t", err, other.name, got, want)
					}
				}
			}
		})
	}
}

func TestWrapping(t *testing.T) {
	inner := fault.NotFound("no image: %w", io.ErrUnexpectedEOF)
	if !errors.Is(inner, io.ErrUnexpectedEOF) {
		t.Error("the cause is not in the chain")
	}
	outer := fault.Conflict("create web: %w", inner)
	if got := fault.KindOf(outer); got != fault.KindConflict {
		t.Errorf("KindOf = %d, want the outermost kind", got)
	}
	if got, want := outer.Error(), "create web: no image: unexpected EOF"; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
	if hidden := fault.Internal("broken: %w", inner); fault.Is(hidden, fault.NotFound) || !fault.Is(hidden, fault.Internal) {
		t.Error("Internal does not hide the inner kind")
	}
}

func TestErrorsWithoutKind(t *testing.T) {
	if got := fault.KindOf(io.EOF); got != fault.KindInternal {
		t.Errorf("KindOf(EOF) = %d, want internal", got)
	}
	if !fault.Is(io.EOF, fault.Internal) || fault.Is(io.EOF, fault.NotFound) {
		t.Error("an error without a kind must count as internal only")
	}
	for _, make := range []fault.Constructor{fault.Internal, fault.NotFound} {
		if fault.Is(nil, make) {
			t.Error("nil has a kind")
		}
	}
}
