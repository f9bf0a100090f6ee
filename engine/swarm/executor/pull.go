package executor

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/moby/swarmkit/v2/agent/exec"

	"moss/api/client"
	"moss/api/types"
)

// pull is one attempt to fetch the task's image. It outlives the call that began it: SwarmKit cancels calls whenever something of
// a task has changed.
type pull struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error // set before done is closed
}

// awaitPull fetches the image, unless it is named by its digest or id and there already. pulled is why that has not worked: a
// task can do with an image that is there, so it is the create call that tells whether it matters. err is ctx's.
func (c *controller) awaitPull(ctx context.Context) (pulled, err error) {
	c.mu.Lock()
	if c.pull == nil {
		c.pull = c.startPull() //nolint:contextcheck // it outlives the call
	}
	p := c.pull
	c.mu.Unlock()
	select {
	case <-p.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if p.err != nil {
		c.log.Warn().Err(p.err).Msg("pull of a task's image failed")
	}
	return p.err, nil
}

func (c *controller) startPull() *pull {
	ctx, cancel := context.WithCancel(c.life)
	p := &pull{cancel: cancel, done: make(chan struct{})}
	c.executor.work.Go(func() {
		defer cancel()
		defer close(p.done)
		p.err = c.pullImage(ctx)
	})
	return p
}

// cancelPull ends a pull under way.
func (c *controller) cancelPull() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pull != nil {
		c.pull.cancel()
	}
}

// retryPull lets SwarmKit prepare the task once more: the image came and was gone when the container was created.
func (c *controller) retryPull(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pull = nil
	return exec.MakeTemporary(err)
}

func (c *controller) pullImage(ctx context.Context) error {
	spec := c.task.Spec.GetContainer()
	if strings.Contains(spec.Image, "@") || strings.HasPrefix(spec.Image, "sha256:") {
		if c.hasImage(ctx) {
			return nil
		}
	}
	opts := client.PullOptions{Name: spec.Image, Tag: tagOf(spec.Image)}
	if o := spec.PullOptions; o != nil && o.RegistryAuth != "" {
		auth, err := decodeAuth(o.RegistryAuth)
		if err != nil {
			return err
		}
		opts.Auth = auth
	}
	begun := time.Now()
	err := c.engine.awaitEngine(ctx, func(ctx context.Context) error {
		return c.engine.client.ImagePull(ctx, opts, func(client.Progress) error { return nil })
	})
	if err != nil {
		return fmt.Errorf("pull image %s: %w", spec.Image, err)
	}
	c.log.Debug().Str("image", spec.Image).Dur("took", time.Since(begun)).Msg("pulled a task's image")
	return nil
}

// hasImage tells whether the engine has the task's image.
func (c *controller) hasImage(ctx context.Context) bool {
	return c.engine.awaitEngine(ctx, func(ctx context.Context) error {
		_, err := c.engine.client.ImageInspect(ctx, c.task.Spec.GetContainer().Image)
		return err
	}) == nil
}

// tagOf is the tag to pull of a name that has none: without one, all of them would be.
func tagOf(image string) string {
	last := image[strings.LastIndexByte(image, '/')+1:]
	if strings.ContainsAny(last, ":@") {
		return ""
	}
	return "latest"
}

// decodeAuth reads credentials as clients send them in X-Registry-Auth. The error shows nothing of them.
func decodeAuth(header string) (types.AuthConfig, error) {
	var auth types.AuthConfig
	raw, err := base64.URLEncoding.DecodeString(header)
	if err != nil {
		if raw, err = base64.RawURLEncoding.DecodeString(header); err != nil {
			return auth, errors.New("the service's credentials are not in base64")
		}
	}
	if json.Unmarshal(raw, &auth) != nil {
		return auth, errors.New("the service's credentials are no JSON object")
	}
	return auth, nil
}
