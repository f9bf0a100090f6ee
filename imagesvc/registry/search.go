package registry

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"moss/engine/fault"
	"moss/engine/image"
	"moss/imagesvc/token"
)

const defaultFound, mostFound = 25, 100

// Search asks a registry's index for repositories whose name or description holds a word (API document 2, 4.2): the host
// that the term begins with, docker.io's index otherwise. A registry without an index is asked for its catalog of names.
// Without a host in front, "library/" means nothing to the index and is left out. Filters are the caller's to apply.
//
// Errors are fault.Invalid (a limit, an empty term), fault.NotFound (the registry offers neither, or refuses),
// fault.Unavailable (too many requests) or internal.
func (c *Client) Search(ctx context.Context, opts image.SearchOptions) ([]image.SearchResult, error) {
	limit := opts.Limit
	if limit == 0 {
		limit = defaultFound
	}
	if limit < 1 || limit > mostFound {
		return nil, fault.Invalid("Limit %d is outside the range of [1, %d]", limit, mostFound)
	}
	host, term := splitTerm(opts.Term)
	if term == "" {
		return nil, fault.Invalid("search term %q is empty", opts.Term)
	}
	if !isHost(host) {
		return nil, fault.Invalid("search term %q: %q is not a registry's host", opts.Term, host)
	}
	e, err := c.endpointNamed(ctx, host, host)
	if err != nil {
		return nil, err
	}
	if host == dockerHub {
		e.server, term = dockerHubIndex, strings.TrimPrefix(term, "library/")
	}
	client, err := e.newClient()
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	began := time.Now()
	found, err := e.searchIndex(ctx, client, term, limit, opts.Auth)
	if t := troubleOf(err); t.isPermanent() && !t.isThrottling() && host != dockerHub {
		found, err = e.searchCatalog(ctx, client, term, limit, opts.Auth)
	}
	if err != nil {
		return nil, e.searchError(opts.Term, err, began)
	}
	return found[:min(len(found), limit)], nil
}

func (e *endpoint) searchError(term string, err error, began time.Time) error {
	if known := e.untranslatedError(err); known != nil {
		return known
	}
	t := troubleOf(err)
	switch {
	case t.isThrottling():
		return throttledError(e.host, t, began)
	case t.status != 0 && t.isPermanent():
		return fault.NotFound("search for %q: registry %s: %s", term, e.host, t.describeTrouble())
	case t.status != 0:
		return newTold("search for %q: registry %s: %s", term, e.host, t.describeTrouble())
	}
	return e.unreachableError(err)
}

// splitTerm separates a registry's host from what is looked for.
func splitTerm(text string) (host, term string) {
	first, rest, ok := strings.Cut(strings.TrimSpace(text), "/")
	if !ok || (!strings.ContainsAny(first, ".:") && first != "localhost") {
		return dockerHub, strings.TrimSpace(text)
	}
	return plainHost(first), rest
}

// searchIndex asks the old index that docker.io and a few others have.
func (e *endpoint) searchIndex(
	ctx context.Context, client *http.Client, term string, limit int, auth image.RegistryAuth,
) ([]image.SearchResult, error) {
	query := url.Values{"q": {term}, "n": {strconv.Itoa(limit)}}
	var page struct {
		Results []struct {
			Name, Description string
			StarCount         int  `json:"star_count"`
			IsOfficial        bool `json:"is_official"`
			IsAutomated       bool `json:"is_automated"`
		}
	}
	var err error
	for _, base := range e.baseURLs() {
		r := request{url: base + "/v1/search?" + query.Encode(), access: access{auth: auth, basic: true}}
		if _, err = e.getJSON(ctx, client, r, &page); err == nil || troubleOf(err).status != 0 {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	found := make([]image.SearchResult, 0, len(page.Results))
	for _, r := range page.Results {
		found = append(found, image.SearchResult{
			Name: printableText(r.Name), Description: printableText(r.Description),
			Official: r.IsOfficial, Automated: r.IsAutomated, Stars: r.StarCount,
		})
	}
	return found, nil
}

// searchCatalog looks through a registry's names. The one that is the term comes first.
func (e *endpoint) searchCatalog(
	ctx context.Context, client *http.Client, term string, limit int, auth image.RegistryAuth,
) (found []image.SearchResult, err error) {
	want := access{auth: auth, scopes: token.Scopes{{Type: "registry", Name: "catalog", Actions: []string{"*"}}}}
	next := "/v2/_catalog?n=1000"
	for range maxPages {
		var page struct{ Repositories []string }
		if next, err = e.getJSON(ctx, client, request{url: next, access: want}, &page); err != nil {
			return nil, err
		}
		for _, name := range page.Repositories {
			result := image.SearchResult{Name: printableText(name)}
			switch {
			case name == term:
				found = append([]image.SearchResult{result}, found...)
			case strings.Contains(name, term) && len(found) < limit:
				found = append(found, result)
			}
		}
		if next == "" || len(found) >= limit {
			return found, nil
		}
	}
	return nil, newTold("registry %s: its catalog has no end", e.host)
}
