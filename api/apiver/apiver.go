// Package apiver holds versions of the engine's API, ranges of them as field tags and routes state them, and the version
// that a request asked for. It knows nothing about HTTP; adding a version to moss means raising Max here and adding
// tags and routes elsewhere (API document 3, section 9).
package apiver

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Version is one API version, ordered: a later version is a larger number. The zero value is no version.
type Version uint32

// minorBits is how many low bits of a Version hold the minor number.
const minorBits = 16

// The versions that moss serves, both ends included.
const (
	Min = Version(1<<minorBits | 18)
	Max = Version(1<<minorBits | 24)
)

// New returns the version major.minor. Each part fits 16 bits.
func New(major, minor uint16) Version { return Version(major)<<minorBits | Version(minor) }

// ErrMalformed is what Parse wraps for anything that is not two decimal numbers with a dot between them.
var ErrMalformed = errors.New("an API version has the form 1.24")

// Parse reads a version such as "1.24". Signs, spaces, leading zeros and further parts make it malformed.
func Parse(s string) (Version, error) {
	major, minor, ok := strings.Cut(s, ".")
	a, okA := number(major)
	b, okB := number(minor)
	if !ok || !okA || !okB {
		return 0, fmt.Errorf("%q: %w", s, ErrMalformed)
	}
	return New(a, b), nil
}

func number(s string) (uint16, bool) {
	if s == "" || len(s) > 1 && s[0] == '0' || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 16)
	return uint16(n), err == nil
}

// String returns the version as clients write it.
func (v Version) String() string {
	return strconv.Itoa(int(v>>minorBits)) + "." + strconv.Itoa(int(v&(1<<minorBits-1)))
}

// Range is a range of versions, both ends included. A zero end is open, so the zero Range holds every version.
type Range struct {
	Since, Until Version
}

// ParseRange reads a range as the API documents write it: "1.21-", "-1.20", "1.20-1.23", or one version alone. The empty
// text is every version.
func ParseRange(s string) (Range, error) {
	if s == "" {
		return Range{}, nil
	}
	low, high, ok := strings.Cut(s, "-")
	if !ok {
		high = low
	}
	var r Range
	var err error
	if low != "" {
		if r.Since, err = Parse(low); err != nil {
			return Range{}, err
		}
	}
	if high != "" {
		if r.Until, err = Parse(high); err != nil {
			return Range{}, err
		}
	}
	if low == "" && high == "" || r.Until != 0 && r.Since > r.Until {
		return Range{}, fmt.Errorf("%q is no range of API versions", s)
	}
	return r, nil
}

// Has reports whether v lies in the range.
func (r Range) Has(v Version) bool {
	return v >= r.Since && (r.Until == 0 || v <= r.Until)
}

// String returns the range in the form that ParseRange reads.
func (r Range) String() string {
	switch {
	case r == Range{}:
		return ""
	case r.Since == r.Until:
		return r.Since.String()
	case r.Since == 0:
		return "-" + r.Until.String()
	case r.Until == 0:
		return r.Since.String() + "-"
	default:
		return r.Since.String() + "-" + r.Until.String()
	}
}

type contextKey struct{}

// NewContext returns a context that carries the version a request asked for.
func NewContext(ctx context.Context, v Version) context.Context {
	return context.WithValue(ctx, contextKey{}, v)
}

// FromContext returns the version of a request, Max when it named none.
func FromContext(ctx context.Context) Version {
	if v, ok := ctx.Value(contextKey{}).(Version); ok {
		return v
	}
	return Max
}
