package image

import (
	"slices"
	"strings"
)

// EnvFirst returns an environment with the variables of the given names before all others, in the order in which the
// names first stand. Names that are not there are left out.
func EnvFirst(env, names []string) []string {
	if len(names) == 0 {
		return env
	}
	place := make(map[string]int, len(names))
	for _, name := range names {
		if _, ok := place[name]; !ok {
			place[name] = len(place)
		}
	}
	placeOf := func(entry string) int {
		name, _, _ := strings.Cut(entry, "=")
		if at, ok := place[name]; ok {
			return at
		}
		return len(place)
	}
	env = slices.Clone(env)
	slices.SortStableFunc(env, func(a, b string) int { return placeOf(a) - placeOf(b) })
	return env
}
