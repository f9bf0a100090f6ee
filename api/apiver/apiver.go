// Package apiver holds versions of the engine's API, and ranges of them as field tags, routes and settings state them. It knows
// nothing about HTTP; adding a version to moss means adding tags and routes elsewhere, and raising Max here once all of it is
// there (API document 3, section 9).
package apiver

import (
	"errors"
	"fmt"
	"math"
	"reflect"
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
	Max = Version(1<<minorBits | 51)
)

// New returns the version major.minor. Each part fits 16 bits.
func New(major, minor uint16) Version { return Version(major)<<minorBits | Version(minor) }

// ErrMalformed is what Parse wraps for anything that is not two decimal numbers with a dot between them.
var ErrMalformed = errors.New("an API version has the form 1.24")

// Parse reads a version such as "1.24". Signs, spaces, leading zeros and further parts make it malformed.
func Parse(s string) (Version, error) {
	major, minor, ok := strings.Cut(s, ".")
	a, okA := parseNumber(major)
	b, okB := parseNumber(minor)
	if !ok || !okA || !okB {
		return 0, fmt.Errorf("%q: %w", s, ErrMalformed)
	}
	return New(a, b), nil
}

func parseNumber(s string) (uint16, bool) {
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

// ParseAlways reads the tag always of a field: the versions whose answers have the field without a value too. Without the tag
// no version is in the range.
func ParseAlways(tag reflect.StructTag) (Range, error) {
	text, ok := tag.Lookup("always")
	if !ok {
		return Range{Since: math.MaxUint32}, nil
	}
	return ParseRange(text)
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

// Within returns the range with its open ends closed.
func (r Range) Within(low, high Version) Range {
	if r.Since == 0 {
		r.Since = low
	}
	if r.Until == 0 {
		r.Until = high
	}
	return r
}

// Served reads the first and the last version that an engine is told to serve; an empty one is Min or Max. What moss does
// not have, and a first that is above the last, is refused in words.
func Served(first, last string) (Range, error) {
	r := Range{Since: Min, Until: Max}
	for _, end := range []struct {
		text string
		to   *Version
	}{{first, &r.Since}, {last, &r.Until}} {
		if end.text == "" {
			continue
		}
		v, err := Parse(end.text)
		if err != nil {
			return Range{}, err
		}
		if v < Min || v > Max {
			return Range{}, fmt.Errorf("API version %v is not there: moss has %v to %v", v, Min, Max)
		}
		*end.to = v
	}
	if r.Since > r.Until {
		return Range{}, fmt.Errorf("the first API version %v is above the last, %v", r.Since, r.Until)
	}
	return r, nil
}
