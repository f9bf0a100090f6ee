package imagesvc

import (
	"context"
	"strconv"
	"strings"

	"moss/engine/fault"
	"moss/engine/filter"
	"moss/engine/image"
)

const (
	defaultResults = 25  // of a search that names no limit
	maxResults     = 100 // that an index gives at once
)

// Search looks for repositories in a registry's index, those that the filters leave (API document 2, 4.2: images/search).
//
// Errors are fault.Invalid (no term, a limit, a filter) or the registry's.
func (s *Transfers) Search(ctx context.Context, opts image.SearchOptions) ([]image.SearchResult, error) {
	if strings.TrimSpace(opts.Term) == "" {
		return nil, fault.Invalid("a term to search for is needed")
	}
	if opts.Limit == 0 {
		opts.Limit = defaultResults
	}
	if opts.Limit < 1 || opts.Limit > maxResults {
		return nil, fault.Invalid("limit %d is outside the range of [1, %d]", opts.Limit, maxResults)
	}
	keep, err := searchFilter(opts.Filters)
	if err != nil {
		return nil, err
	}
	opts.Filters = nil // the index knows none
	if s.registry == nil {
		return nil, errNoRegistry()
	}
	found, err := s.registry.Search(ctx, opts)
	if err != nil {
		return nil, err
	}
	results := make([]image.SearchResult, 0, len(found))
	for _, r := range found {
		if len(results) < opts.Limit && keep(r) {
			results = append(results, r)
		}
	}
	return results, nil
}

// searchFilter reads filters. A result has to fit one value of each of them; of stars, the highest number counts.
func searchFilter(filters map[string][]string) (keep func(image.SearchResult) bool, err error) {
	var official, automated *bool
	stars := 0
	for key, values := range filters {
		switch key {
		case "is-official":
			official, err = filter.Bool(key, values)
		case "is-automated":
			automated, err = filter.Bool(key, values)
		case "stars":
			for _, value := range values {
				n, err := strconv.ParseUint(value, 10, 31)
				if err != nil {
					return nil, fault.Invalid("Invalid filter '%s=%s'", key, value)
				}
				stars = max(stars, int(n))
			}
		default:
			return nil, filter.Unknown(key)
		}
		if err != nil {
			return nil, err
		}
	}
	return func(r image.SearchResult) bool {
		return r.Stars >= stars && (official == nil || r.Official == *official) && (automated == nil || r.Automated == *automated)
	}, nil
}
