package registry

import (
	"context"
	"errors"
	"time"

	"github.com/distribution/reference"

	"moss/engine/image"
)

// maxTags bounds the list of one repository.
const maxTags = 100_000

// Tags returns the tags of a repository, in the registry's order; of a mirror if one has the repository. Whatever could
// not be a tag is left out. The kinds of errors are those of Source.
func (c *Client) Tags(ctx context.Context, repo image.Ref, auth image.RegistryAuth) ([]string, error) {
	began := time.Now()
	endpoints, err := c.endpointsFor(ctx, repo)
	if err != nil {
		return nil, err
	}
	for i, e := range endpoints {
		tags, err := e.listTags(ctx, repo, auth)
		if err == nil {
			return tags, nil
		}
		if i == len(endpoints)-1 || ctx.Err() != nil {
			if troubleOf(err).status == 404 {
				err = &answerError{trouble{status: 404, code: "name unknown", text: "repository name not known to registry"}}
			}
			return nil, e.pullError(repo, err, began)
		}
	}
	return nil, errors.New("no registry to ask")
}

func (e *endpoint) listTags(ctx context.Context, repo image.Ref, auth image.RegistryAuth) ([]string, error) {
	client, err := e.newClient()
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	named, err := reference.WithName(repo.Repo())
	if err != nil {
		return nil, err
	}
	want := e.pullAccess(auth)
	var tags []string
	next := "/v2/" + e.path + "/tags/list"
	for range maxPages {
		var page struct{ Tags []string }
		if next, err = e.getJSON(ctx, client, request{url: next, access: want}, &page); err != nil {
			return nil, err
		}
		for _, tag := range page.Tags {
			if _, err := reference.WithTag(named, tag); err == nil {
				tags = append(tags, tag)
			}
		}
		if len(tags) > maxTags {
			return nil, newTold("registry %s: more than %d tags in %s", e.host, maxTags, repo.FamiliarRepo())
		}
		if next == "" {
			return tags, nil
		}
	}
	return nil, newTold("registry %s: the list of tags of %s has no end", e.host, repo.FamiliarRepo())
}
