package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"sync"
	"time"

	"moss/engine/fault"
	"moss/engine/image"
	"moss/engine/record"
)

// keyFormat begins what keys are made of: another number makes all older ones unknown.
const keyFormat = "moss build step 1"

// cache knows the images of steps by what they depend on. The images themselves are the cache: this is an index of them.
type cache struct {
	file string // that remembers the uses

	mu    sync.Mutex // guards the fields below
	byKey map[string]string
	steps map[string]image.Built // by id
	used  map[string]use         // by id
}

// use is when the image of a step was last taken from the cache, and how often.
type use struct {
	Last  time.Time
	Count int
}

// openCache takes up the steps that earlier engines made.
func openCache(ctx context.Context, dir string, images steps, account damaged) (*cache, error) {
	c := &cache{
		file: filepath.Join(dir, "used.json"), byKey: map[string]string{}, steps: map[string]image.Built{}, used: map[string]use{},
	}
	known, err := images.Steps(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the steps of builds: %w", err)
	}
	for _, step := range known {
		c.addStep(step)
	}
	var used map[string]use
	err = record.Get(c.file, &used)
	if err != nil && !fault.Is(err, fault.NotFound) { // the oldest go first then
		used = nil
		if err := account.SetAside(c.file, err); err != nil {
			return nil, err
		}
	}
	for id, u := range used {
		if _, ok := c.steps[id]; ok {
			c.used[id] = u
		}
	}
	return c, nil
}

// addStep makes a step known. The latest of those with one key counts.
func (c *cache) addStep(step image.Built) {
	if step.Key == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.steps[step.ID] = step
	if old, ok := c.steps[c.byKey[step.Key]]; !ok || !step.Created.Before(old.Created) {
		c.byKey[step.Key] = step.ID
	}
}

// findStep returns the id of a step's image, or nothing.
func (c *cache) findStep(key string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := c.byKey[key]
	if _, there := c.steps[id]; !there { // it is gone; several keys may have led to it
		delete(c.byKey, key)
		return ""
	}
	return id
}

// forgetImage leaves out an image that is gone.
func (c *cache) forgetImage(imageID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	step := c.steps[imageID]
	delete(c.steps, imageID)
	delete(c.used, imageID)
	if c.byKey[step.Key] == imageID {
		delete(c.byKey, step.Key)
	}
}

// recordUse records that a build has used the images.
func (c *cache) recordUse(ids []string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		if _, ok := c.steps[id]; ok {
			c.used[id] = use{Last: now, Count: c.used[id].Count + 1}
		}
	}
}

// copyUses returns a copy of all uses.
func (c *cache) copyUses() map[string]use {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.used)
}

// saveUses writes the uses down.
func (c *cache) saveUses() error { return record.PutVolatile(c.file, c.copyUses()) }

// addAncestors adds an image and those it was made on, as far as they are steps, to a set.
func (c *cache) addAncestors(img *image.Image, into map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	into[img.ID] = true
	for id := img.Parent; id != "" && !into[id]; id = c.steps[id].Parent {
		into[id] = true
	}
}

// keyOf is what a step depends on: the image below it, the platform, the instruction as the history has it, what it reads,
// and the config that comes out.
func keyOf(spec image.Step, content string) (string, error) {
	config, err := json.Marshal(spec.Config)
	if err != nil {
		return "", fmt.Errorf("write the config of a step: %w", err)
	}
	h := sha256.New()
	for _, part := range []string{
		keyFormat, spec.Parent, spec.OS, spec.Architecture, spec.Variant, spec.Author, spec.CreatedBy, content, string(config),
	} {
		_, _ = fmt.Fprintf(h, "%d:%s\n", len(part), part) // a hash takes everything
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// holdIfStored returns the image of a step that was made before and holds it for this build; nil if there is none.
func (b *build) holdIfStored(ctx context.Context, imageID string) (*image.Image, error) {
	if imageID == "" {
		return nil, nil
	}
	img, err := b.holdImage(ctx, imageID)
	if fault.Is(err, fault.NotFound) {
		b.s.cache.forgetImage(imageID)
		return nil, nil
	}
	return img, err
}
