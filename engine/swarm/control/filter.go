package control

import (
	"slices"

	"moss/api/route"
	"moss/engine/fault"
	"moss/engine/filter"
)

// readFilters reads the filters of a list. One that it does not have is fault.Invalid.
func readFilters(c *route.Call, known ...string) (map[string][]string, error) {
	filters, err := c.Filters()
	if err != nil {
		return nil, err
	}
	for key := range filters {
		if !slices.Contains(known, key) {
			return nil, filter.Unknown(key)
		}
	}
	return filters, nil
}

// readOptions reads the values of a filter that takes a few words.
func readOptions[T any](key string, values []string, read func(field, text string) (T, error)) ([]T, error) {
	options := make([]T, 0, len(values))
	for _, value := range values {
		option, err := read(key, value)
		if err != nil || value == "" {
			return nil, fault.Invalid("Invalid %s filter: '%s'", key, value)
		}
		options = append(options, option)
	}
	return options, nil
}

// keepLabelled returns the objects that have all labels: each a key, or key=value.
func keepLabelled[T any](all []T, labels []string, labelsOf func(T) map[string]string) []T {
	if len(labels) == 0 {
		return all
	}
	return slices.DeleteFunc(all, func(one T) bool { return !filter.HasLabels(labelsOf(one), labels) })
}
