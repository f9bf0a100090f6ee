package config

import (
	"fmt"
	"slices"
	"strings"
)

// setPairs takes pairs KEY=VALUE as they are given. A value may be empty.
func setPairs(to *[]string, values []string) error {
	keys := make([]string, 0, len(values))
	for _, v := range values {
		key, _, ok := strings.Cut(v, "=")
		if !ok || strings.TrimSpace(key) == "" {
			return errNotAllowed
		}
		if slices.Contains(keys, key) {
			return fmt.Errorf("the key %q is there twice", key)
		}
		keys = append(keys, key)
	}
	*to = slices.Clone(values)
	return nil
}
