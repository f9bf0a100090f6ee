package apierr_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"moss/api/apierr"
	"moss/api/apiver"
	"moss/engine/fault"
)

func TestStatus(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want int
	}{
		{errors.New("x"), 500},
		{fault.Internal("x"), 500},
		{fault.NotModified("x"), 304},
		{fault.Invalid("x"), 400},
		{fault.Unauthorized("x"), 401},
		{fault.Forbidden("x"), 403},
		{fault.NotFound("x"), 404},
		{fault.NotAcceptable("x"), 406},
		{fault.Conflict("x"), 409},
		{fault.Unsupported("x"), 501},
		{fault.Unavailable("x"), 503},
		{fmt.Errorf("wait: %w", context.Canceled), 503},
		{fmt.Errorf("start web: %w", fault.NotFound("x")), 404},
		{fmt.Errorf("read: %w", &http.MaxBytesError{Limit: 1}), 413},
	} {
		if got := apierr.Status(tc.err); got != tc.want {
			t.Errorf("Status(%v) = %d, want %d", tc.err, got, tc.want)
		}
	}
}

func TestWrite(t *testing.T) {
	err := fault.Conflict("the name %q is taken", `a<b`)
	for _, tc := range []struct {
		version    apiver.Version
		mediaType  string
		wantStatus int
	}{
		{apiver.Min, "text/plain; charset=utf-8", 409},
		{apiver.New(1, 23), "text/plain; charset=utf-8", 409},
		{apiver.Max, "application/json", 409},
		{apiver.New(1, 40), "application/json", 409},
	} {
		w := httptest.NewRecorder()
		apierr.Write(w, tc.version, err)
		if got := w.Header().Get("Content-Type"); got != tc.mediaType || w.Code != tc.wantStatus {
			t.Errorf("%v: %d %q, want %d %q", tc.version, w.Code, got, tc.wantStatus, tc.mediaType)
		}
		message := w.Body.String()
		if tc.mediaType == "application/json" {
			var body struct{ Message string }
			if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
				t.Errorf("%v: body %q: %v", tc.version, w.Body, err)
			}
			message = body.Message + "\n"
		}
		if want := err.Error() + "\n"; message != want {
			t.Errorf("%v: message %q, want %q", tc.version, message, want)
		}
	}
	w := httptest.NewRecorder()
	apierr.Write(w, apiver.Max, fault.NotModified("already started"))
	if w.Code != http.StatusNotModified || w.Body.Len() != 0 {
		t.Errorf("not modified: %d with %d bytes, want 304 without a body", w.Code, w.Body.Len())
	}
}

type exitError struct{}

func (exitError) Error() string   { return "returned a non-zero code: 3" }
func (exitError) StreamCode() int { return 3 }

func TestStreamMessage(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want string
	}{
		{errors.New("no space"), `{"errorDetail":{"message":"no space"},"error":"no space"}` + "\n"},
		{
			fmt.Errorf("step: %w", exitError{}),
			`{"errorDetail":{"code":3,"message":"step: returned a non-zero code: 3"},"error":"step: returned a non-zero code: 3"}` + "\n",
		},
	} {
		if got := string(apierr.StreamMessage(tc.err)); got != tc.want {
			t.Errorf("StreamMessage(%v) = %s, want %s", tc.err, got, tc.want)
		}
	}
}

func TestHungUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if apierr.HungUp(ctx, context.Canceled) {
		t.Error("HungUp before the client hung up")
	}
	cancel()
	if !apierr.HungUp(ctx, fmt.Errorf("wait: %w", ctx.Err())) || apierr.HungUp(ctx, errors.New("x")) {
		t.Error("HungUp must be true for the cancellation and false for another error")
	}
}

func TestIsTrouble(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tc := range []struct {
		err  error
		want bool // while the client is there
		left bool // once it has gone
	}{
		{errors.New("disk"), true, true},
		{fmt.Errorf("build: %w", exitError{}), false, false},
		{fault.Conflict("x"), false, false},
		{fmt.Errorf("pull: %w", context.Canceled), false, false},
	} {
		if here, left := apierr.IsTrouble(t.Context(), tc.err), apierr.IsTrouble(gone, tc.err); here != tc.want || left != tc.left {
			t.Errorf("IsTrouble(%v) = %t, and %t without the client, want %t and %t", tc.err, here, left, tc.want, tc.left)
		}
	}
}
