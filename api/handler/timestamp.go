package handler

import (
	"strconv"
	"strings"
	"time"

	"moss/engine/fault"
)

// timestampForm is how log lines show their time: nanoseconds with all their digits, so that lines stay aligned.
const timestampForm = "2006-01-02T15:04:05.000000000Z07:00"

// parseTimestamp reads a time as clients give it: Unix seconds with an optional fraction (1448064000.123), a date of RFC 3339
// of which parts at its end may be missing, or a duration before now (10m; a negative one is after now). A date without a
// zone is one of the engine's. Empty and zero are no time at all; anything else is fault.Invalid.
func parseTimestamp(name, text string, now time.Time) (time.Time, error) {
	if text == "" || text == "0" {
		return time.Time{}, nil
	}
	if at, ok := unixTime(text); ok {
		return at, nil
	}
	if back, err := time.ParseDuration(text); err == nil {
		return now.Add(-back), nil
	}
	// The parser takes fractions of seconds wherever a form has seconds.
	for _, form := range []string{
		"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02T15", "2006-01-02",
		"2006-01-02T15:04:05Z07:00", "2006-01-02T15:04Z07:00", "2006-01-02T15Z07:00", "2006-01-02Z07:00",
	} {
		if at, err := time.ParseInLocation(form, text, now.Location()); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fault.Invalid("invalid value for %s: got %q, want Unix seconds, a date such as 2006-01-02T15:04:05Z or a duration such as 10m",
		name, text)
}

// unixTime reads seconds since 1970.
func unixTime(text string) (time.Time, bool) {
	whole, fraction, _ := strings.Cut(text, ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	const far = int64(1) << 40 // thousands of years
	if err != nil || seconds > far || seconds < -far || len(fraction) > 9 || strings.Trim(fraction, "0123456789") != "" {
		return time.Time{}, false
	}
	nanos := 0
	if fraction != "" {
		if nanos, err = strconv.Atoi((fraction + "000000000")[:9]); err != nil {
			return time.Time{}, false
		}
	}
	return time.Unix(seconds, int64(nanos)), true
}
