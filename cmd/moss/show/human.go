package show

import (
	"strconv"
	"strings"
	"time"

	"github.com/docker/go-units"
)

// Size writes a number of bytes in powers of 1000 with at most four signs: 1.23MB.
func Size(bytes int64) string {
	units := []string{"B", "kB", "MB", "GB", "TB", "PB", "EB"}
	value, unit := float64(bytes), 0
	for value >= 999.5 && unit < len(units)-1 {
		value /= 1000
		unit++
	}
	return strconv.FormatFloat(value, 'g', 3, 64) + units[unit]
}

// Binary writes a number of bytes in powers of 1024 with four digits: 1.234MiB.
func Binary(bytes uint64) string { return units.BytesSize(float64(bytes)) }

// Since writes how long ago a moment is, in its largest unit: 3 minutes ago.
func Since(then, now time.Time) string { return units.HumanDuration(now.Sub(then)) + " ago" }

// Shorten cuts text to at most length runes and marks the cut.
func Shorten(text string, length int) string {
	runes := []rune(text)
	if len(runes) <= length || length < 1 {
		return text
	}
	return string(runes[:length-1]) + "…"
}

// shortID is the number of hex digits that a shortened id keeps.
const shortID = 12

// ID shortens an id to twelve digits, without the name of its digest.
func ID(id string) string {
	id = strings.TrimPrefix(id, "sha256:")
	if len(id) > shortID {
		return id[:shortID]
	}
	return id
}

// Plain replaces control characters, which could drive the reader's terminal, by question marks.
func Plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r >= 0x7f && r < 0xa0 {
			return '?'
		}
		return r
	}, text)
}
