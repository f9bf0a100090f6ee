// Package prune reads the filters that say which unused things may go: label, label! and until. It knows neither the things
// nor when one is unused.
package prune

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"moss/engine/fault"
	"moss/engine/filter"
)

// The filters there are.
const (
	Label    = "label"
	NotLabel = "label!"
	Until    = "until"
)

// Filter picks things by their labels and their age. The zero value picks all.
type Filter struct {
	labels    []string // key or key=value; all of them are needed
	notLabels []string // none of them may be there
	until     time.Time
}

// New reads the filters that are given. allowed names those that the things have; another one is fault.Invalid, and so is
// a malformed value. now is what durations count back from.
func New(filters map[string][]string, now time.Time, allowed ...string) (*Filter, error) {
	f := &Filter{}
	for key, values := range filters {
		if !slices.Contains(allowed, key) {
			return nil, filter.Unknown(key)
		}
		switch key {
		case Label:
			f.labels = values
		case NotLabel:
			f.notLabels = values
		case Until:
			if len(values) != 1 {
				return nil, fault.Invalid("Invalid filter 'until': want one value, got %d", len(values))
			}
			at, err := ParseTime(values[0], now)
			if err != nil {
				return nil, fault.Invalid("Invalid filter 'until=%s': %v", values[0], err)
			}
			f.until = at
		}
	}
	return f, nil
}

// Takes reports whether a thing with these labels that was made at that time may go.
func (f *Filter) Takes(labels map[string]string, made time.Time) bool {
	if !f.until.IsZero() && !made.Before(f.until) {
		return false
	}
	return filter.HasLabels(labels, f.labels) &&
		!slices.ContainsFunc(f.notLabels, func(not string) bool { return filter.HasLabel(labels, not) })
}

// ParseTime reads a time as clients write it in filters: Unix seconds with a fraction, a duration before now, or a date with
// as much of a time and a zone as they care for; without a zone it is that of the engine. Another text is fault.Invalid.
func ParseTime(text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil && text != "0" {
		return now.Add(-d), nil
	}
	if at, ok := unixTime(text); ok {
		return at, nil
	}
	for _, layout := range []string{
		time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02T15:04Z07:00", "2006-01-02T15:04",
		"2006-01-02T15Z07:00", "2006-01-02T15", "2006-01-02Z07:00", time.DateOnly,
	} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fault.Invalid("want a time, a duration or Unix seconds, got %q", text)
}

// unixTime reads seconds with up to nine digits of a fraction.
func unixTime(text string) (time.Time, bool) {
	whole, fraction, _ := strings.Cut(text, ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	const far = int64(1) << 40 // thousands of years: beyond it nanoseconds would wrap
	if err != nil || seconds > far || seconds < -far || len(fraction) > 9 || strings.Trim(fraction, "0123456789") != "" {
		return time.Time{}, false
	}
	nanos, err := strconv.Atoi((fraction + "000000000")[:9])
	if err != nil {
		return time.Time{}, false
	}
	return time.Unix(seconds, int64(nanos)), true
}
