package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"strings"

	"moss/api/client"
	"moss/hack/registry"
)

const (
	poolRepo = "pool"
	poolSize = 8
	poolSeed = 1 // the same images for all rounds
	whiteout = ".wh."
)

// pool are images of several layers in a registry. Each round fetches them into a store of its own.
type pool struct {
	registry *registry.Registry
	images   []pooled
}

// pooled is an image of the pool. It has a tag for each worker.
type pooled struct {
	id     string
	digest string // of the manifest
	files  map[string]string
}

// newPool starts the registry and fills it.
func newPool(ctx context.Context, dir string) (_ *pool, err error) {
	p := &pool{}
	if p.registry, err = registry.Start(ctx, dir); err != nil {
		return nil, err
	}
	draw := rand.New(rand.NewPCG(poolSeed, 0))
	var below []map[string]string
	for n := range poolSize {
		if n%2 == 0 { // two images each share their lower layers
			below = []map[string]string{randomFiles(draw, 100), {}, randomFiles(draw, 20)}
			for i := range 10 {
				below[1][fmt.Sprintf("files/d%d/%sf%d", i%7, whiteout, i)] = ""
			}
			below[1]["files/large"] = strings.Repeat(randomFiles(draw, 1)["files/d0/f0"], 200)
		}
		layers := slices.Concat(below, []map[string]string{randomFiles(draw, 60), {"files/number": strconv.Itoa(n)}})
		if err := p.putImage(ctx, n, layers); err != nil {
			return nil, fmt.Errorf("fill the registry: %w", errors.Join(err, p.registry.Stop()))
		}
	}
	return p, nil
}

func (p *pool) putImage(ctx context.Context, n int, layers []map[string]string) error {
	archives, blobs := make([][]byte, len(layers)), make([]registry.Blob, len(layers))
	for i, files := range layers {
		archives[i] = layerArchive(files)
		var buf bytes.Buffer
		w, err := gzip.NewWriterLevel(&buf, gzip.BestSpeed)
		must(err)
		_, err = w.Write(archives[i])
		must(err)
		must(w.Close())
		if blobs[i], err = p.registry.PutLayer(ctx, poolRepo, "gzip", buf.Bytes()); err != nil {
			return err
		}
	}
	tags := make([]string, workers)
	for i := range tags {
		tags[i] = poolTag(n, i)
	}
	settings := imageConfig(archives...)
	manifest, err := p.registry.PutImage(ctx, poolRepo, settings, blobs, tags...)
	p.images = append(p.images, pooled{id: digestOf(settings), digest: manifest, files: mergeLayers(layers...)})
	return err
}

func poolTag(n, worker int) string { return fmt.Sprintf("%d-%d", n, worker) }

// imageFor returns the nth one, by the tag of a worker.
func (p *pool) imageFor(n, worker int) *img {
	repo := p.registry.Addr() + "/" + poolRepo
	name := repo + ":" + poolTag(n, worker)
	return &img{
		name: name, id: p.images[n].id, digest: repo + "@" + p.images[n].digest,
		root: "/files", files: p.images[n].files, grace: imageGrace,
		from: func(ctx context.Context, c *client.Client) error {
			return c.ImagePull(ctx, client.PullOptions{Name: name}, ignoreProgress)
		},
	}
}

// mergeLayers returns what a container sees of layers: the upper one of two files, and none that a whiteout hides.
func mergeLayers(layers ...map[string]string) map[string]string {
	seen := map[string]string{}
	for _, files := range layers {
		for name := range files {
			if dir, base := path.Split(name); strings.HasPrefix(base, whiteout) {
				delete(seen, dir+strings.TrimPrefix(base, whiteout))
			}
		}
		maps.Copy(seen, files)
	}
	maps.DeleteFunc(seen, func(name, _ string) bool { return strings.HasPrefix(path.Base(name), whiteout) })
	return seen
}
