package config

import (
	"math"
	"strconv"
	"strings"
)

// buildSettings are about builds.
func buildSettings() []setting {
	return []setting{
		{
			"build-cache-size", "MOSS_BUILD_CACHE_SIZE", "size limit of the build cache; the oldest unused steps are removed first",
			"0 (the engine's own) or bytes with K, M, G or T", false,
			func(c *Config, v []string, _ func(string) string) error { return setBytes(&c.BuildCacheSize, v[0]) },
		},
	}
}

// setBytes reads a number of bytes with a unit, each 1024 of the one before: 500M, 20G.
func setBytes(to *int64, value string) error {
	text := strings.ToUpper(value)
	text = strings.TrimSuffix(strings.TrimSuffix(text, "B"), "I")
	shift := 0
	if text != "" {
		if at := strings.IndexByte("KMGT", text[len(text)-1]); at >= 0 {
			text, shift = text[:len(text)-1], 10*(at+1)
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64>>shift {
		return errNotAllowed
	}
	*to = n << shift
	return nil
}
