package arg

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Time reads a point in time and writes it as the API takes it, Unix seconds with a fraction: Unix seconds, a duration
// before now such as 10m, or a date (RFC 3339, its parts from the day on, local time without a zone).
func Time(text string, now time.Time) (string, error) {
	if text == "" {
		return "", nil
	}
	if isUnixTime(text) {
		return text, nil
	}
	if ago, err := time.ParseDuration(text); err == nil {
		return Seconds(now.Add(-ago)), nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02T15:04", "2006-01-02"} {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return Seconds(at), nil
		}
	}
	return "", fmt.Errorf("time %q: want Unix seconds, a duration such as 10m, or a date such as 2026-01-31T12:00:00", text)
}

func isUnixTime(text string) bool {
	whole, fraction, dotted := strings.Cut(text, ".")
	if _, err := strconv.ParseInt(whole, 10, 64); err != nil {
		return false
	}
	_, err := strconv.ParseUint(fraction, 10, 64)
	return !dotted || (err == nil && len(fraction) <= 9)
}

// Seconds writes a time as the engine reads it: Unix seconds, with all nine digits of the fraction.
func Seconds(at time.Time) string {
	return fmt.Sprintf("%d.%09d", at.Unix(), at.Nanosecond())
}

// Count reads a number from 0 on.
func Count(flag, text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s %q: want a number from 0 on", flag, text)
	}
	return n, nil
}
