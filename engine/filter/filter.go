// Package filter reads the values of filters by which clients pick from lists. It does not know what is listed.
package filter

import (
	"regexp"
	"slices"
	"strings"

	"moss/engine/fault"
)

// maxPattern bounds a regular expression, in bytes.
const maxPattern = 4 << 10

// Unknown is the answer to a filter that a list does not have. It is fault.Invalid.
func Unknown(key string) error { return fault.Invalid("Invalid filter '%s'", key) }

// HasLabels reports whether labels have every one of the values: a key, or key=value.
func HasLabels(labels map[string]string, values []string) bool {
	return !slices.ContainsFunc(values, func(want string) bool { return !HasLabel(labels, want) })
}

// HasLabel reports whether labels have a key, or key=value.
func HasLabel(labels map[string]string, want string) bool {
	key, value, exact := strings.Cut(want, "=")
	have, ok := labels[key]
	return ok && (!exact || have == value)
}

// Bool reads a filter that is true or false, 1 or 0; nil for one that is not given. Other values, and both at once, are
// fault.Invalid.
func Bool(key string, values []string) (*bool, error) {
	var answer *bool
	for _, value := range values {
		var b bool
		switch strings.ToLower(value) {
		case "1", "true":
			b = true
		case "0", "false":
		default:
			return nil, fault.Invalid("Invalid filter '%s=%s': want true or false", key, value)
		}
		if answer != nil && *answer != b {
			return nil, fault.Invalid("Invalid filter '%s=%s': true and false at once", key, strings.Join(values, ","))
		}
		answer = &b
	}
	return answer, nil
}

// Patterns reads regular expressions, as clients rely on: a part of a text is one, ^ and $ tie it to an end. The function reports
// whether a text matches any of them. One that is too long or malformed is fault.Invalid.
func Patterns(key string, values []string) (match func(text string) bool, err error) {
	patterns := make([]*regexp.Regexp, 0, len(values))
	for _, v := range values {
		if len(v) > maxPattern {
			return nil, fault.Invalid("Invalid filter value for %s: it has %d bytes, more than %d", key, len(v), maxPattern)
		}
		p, err := regexp.Compile(v)
		if err != nil {
			return nil, fault.Invalid("Invalid filter value for %s: %w", key, err)
		}
		patterns = append(patterns, p)
	}
	return func(text string) bool {
		return slices.ContainsFunc(patterns, func(p *regexp.Regexp) bool { return p.MatchString(text) })
	}, nil
}
