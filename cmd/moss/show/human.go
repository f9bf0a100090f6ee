package show

import (
	"fmt"
	"strconv"
	"strings"
	"time"
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
func Binary(bytes uint64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	value, unit := float64(bytes), 0
	for value >= 1024 && unit < len(units)-1 {
		value /= 1024
		unit++
	}
	return strconv.FormatFloat(value, 'g', 4, 64) + units[unit]
}

// Ago writes how long something lasts, in its largest unit: 3 minutes.
func Ago(d time.Duration) string {
	hours := int(d.Hours())
	switch {
	case d < time.Second:
		return "less than a second"
	case d < 2*time.Second:
		return "1 second"
	case d < time.Minute:
		return fmt.Sprintf("%d seconds", int(d.Seconds()))
	case d < 2*time.Minute:
		return "about a minute"
	case d < time.Hour:
		return fmt.Sprintf("%d minutes", int(d.Minutes()))
	case hours < 2:
		return "about an hour"
	case hours < 48:
		return fmt.Sprintf("%d hours", hours)
	case hours < 24*14:
		return fmt.Sprintf("%d days", hours/24)
	case hours < 24*30*2:
		return fmt.Sprintf("%d weeks", hours/24/7)
	case hours < 24*365*2:
		return fmt.Sprintf("%d months", hours/24/30)
	default:
		return fmt.Sprintf("%d years", hours/24/365)
	}
}

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
