package oci

import (
	"strconv"
	"strings"
)

// advisory is a set of holes in a runtime, with the first versions of each line that are free of them. A line that is
// older than all of those never got the fix.
type advisory struct {
	runtime string
	names   string
	fixed   [][3]int // sorted; the last one holds for every later line too
}

// advisories are the holes that a rootless engine must know of.
var advisories = []advisory{ //nolint:gochecknoglobals // a constant table
	{"runc", "CVE-2025-31133, CVE-2025-52565, CVE-2025-52881", [][3]int{{1, 2, 8}, {1, 3, 3}}},
	{"runc", "CVE-2026-41579", [][3]int{{1, 3, 6}}},
}

// Advisories names the published holes of this version. A distribution may have mended them without changing the number.
// A number that cannot be read has none.
func (v Version) Advisories() []string {
	number, ok := parseNumber(v.Number)
	if !ok {
		return nil
	}
	var names []string
	for _, a := range advisories {
		if a.runtime == v.Name && !a.isFixedIn(number) {
			names = append(names, a.names)
		}
	}
	return names
}

func (a advisory) isFixedIn(number [3]int) bool {
	for _, fix := range a.fixed {
		if number[0] == fix[0] && number[1] == fix[1] {
			return number[2] >= fix[2]
		}
	}
	last := a.fixed[len(a.fixed)-1]
	return number[0] > last[0] || number[0] == last[0] && number[1] > last[1]
}

// parseNumber reads major.minor.patch, whatever follows it.
func parseNumber(s string) (number [3]int, ok bool) {
	parts := strings.SplitN(s, ".", 3)
	for i, part := range parts {
		if end := strings.IndexFunc(part, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
			part = part[:end]
		}
		n, err := strconv.Atoi(part)
		if err != nil {
			return number, false
		}
		number[i] = n
	}
	return number, len(parts) > 1
}
