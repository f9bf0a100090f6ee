// Package id makes and recognises the identifiers of the engine's objects: 64 lower-case hexadecimal digits, of which
// clients usually show and send the first twelve.
package id

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
)

const (
	// Len is the number of hexadecimal digits of an id.
	Len = 64
	// ShortLen is the number of digits clients show.
	ShortLen = 12
)

// New returns a fresh random id. It never looks like a decimal number in its short form, since a host name made of
// digits only is taken for an address by some resolvers.
func New() string {
	var raw [Len / 2]byte
	for {
		rand.Read(raw[:])
		s := hex.EncodeToString(raw[:])
		if strings.Trim(s[:ShortLen], "0123456789") != "" {
			return s
		}
	}
}

// Short returns the first twelve digits of an id; a shorter string comes back as it is.
func Short(s string) string {
	s = strings.TrimPrefix(s, "sha256:")
	if len(s) > ShortLen {
		return s[:ShortLen]
	}
	return s
}

// Is reports whether s is a whole id.
func Is(s string) bool { return len(s) == Len && IsPrefix(s) }

// IsPrefix reports whether s could begin an id: one to 64 hexadecimal digits.
func IsPrefix(s string) bool {
	return s != "" && len(s) <= Len && strings.Trim(s, "0123456789abcdef") == ""
}
