package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"time"

	"moss/api/client"
)

const (
	baseName   = "base:1"
	imageGrace = time.Second // what docs/reliability.md says of images
	buildGrace = 10 * time.Second
)

// loadBase loads the image that containers are made of, and waits until it is not in danger any more.
func (m *model) loadBase(ctx context.Context, c *client.Client) error {
	busybox, err := exec.LookPath("busybox.static")
	if err != nil {
		if busybox, err = exec.LookPath("busybox"); err != nil {
			return err
		}
	}
	raw, err := os.ReadFile(busybox)
	if err != nil {
		return err
	}
	files := map[string]string{"bin/busybox": string(raw), "bin/sh": string(raw)}
	if err := c.ImageLoad(ctx, bytes.NewReader(imageArchive(baseName, layerArchive(files))), 0, true, ignoreProgress); err != nil {
		return err
	}
	acked := time.Now()
	waitFor(ctx, 2*imageGrace) // it is the promise itself that is waited for
	m.noteAcked(func() { m.images = append(m.images, &img{name: baseName, acked: acked, grace: imageGrace}) })
	return nil
}

// makeImage makes an image and notes that it was asked for, and then that it was acknowledged.
func (w *worker) makeImage(ctx context.Context, c *client.Client, i *img) error {
	w.model.noteAsked(func() { w.model.images = append(w.model.images, i) })
	if err := i.from(ctx, c); err != nil {
		return err
	}
	w.model.noteAcked(func() {
		i.acked = time.Now()
		w.tags = append(w.tags, i)
	})
	return nil
}

func ignoreProgress(client.Progress) error { return nil }

func (w *worker) loadImage(ctx context.Context, c *client.Client) error {
	name := w.freshName("l") + ":1"
	layers := []map[string]string{w.randomFiles(40), w.randomFiles(100)}
	image := imageArchive(name, layerArchive(layers[0]), layerArchive(layers[1]))
	return w.makeImage(ctx, c, &img{
		name: name, id: digestOf(imageConfig(layerArchive(layers[0]), layerArchive(layers[1]))), root: "/files", files: mergeLayers(layers...), grace: imageGrace,
		from: func(ctx context.Context, c *client.Client) error {
			return c.ImageLoad(ctx, bytes.NewReader(image), 0, true, ignoreProgress)
		},
	})
}

// pullImage fetches the next image of the pool, by a tag of this worker alone. All take them in the same order: what
// one fetches, another one fetches at the same time, has already or removes.
func (w *worker) pullImage(ctx context.Context, c *client.Client) error {
	if w.drawn == len(w.model.pool.images) {
		return nil
	}
	i := w.model.pool.imageFor(w.drawn, w.n)
	w.drawn++
	return w.makeImage(ctx, c, i)
}

func (w *worker) tagImage(ctx context.Context, c *client.Client) error {
	name := w.freshName("t")
	return w.makeImage(ctx, c, &img{
		name: name + ":1", grace: imageGrace,
		from: func(ctx context.Context, c *client.Client) error { return c.ImageTag(ctx, baseName, name, "1") },
	})
}

func (w *worker) untagImage(ctx context.Context, c *client.Client) error {
	if len(w.tags) < 3 {
		return nil
	}
	n := w.rand.IntN(len(w.tags))
	i := w.tags[n]
	w.tags = append(w.tags[:n:n], w.tags[n+1:]...)
	w.model.noteAsked(func() { i.gone = true })
	_, err := c.ImageRemove(ctx, i.name, false, false)
	return err
}

func (w *worker) buildImage(ctx context.Context, c *client.Client) error {
	name := w.freshName("b") + ":1"
	files := w.randomFiles(30)
	sent := maps.Clone(files)
	sent["Dockerfile"] = "FROM " + baseName + "\nCOPY files /src\nRUN cp -r /src /copy\nENV A=" + name + "\n"
	folder := layerArchive(sent)
	return w.makeImage(ctx, c, &img{
		name: name, root: "/copy", files: files, grace: buildGrace,
		from: func(ctx context.Context, c *client.Client) error {
			return c.ImageBuild(ctx, client.BuildOptions{Context: bytes.NewReader(folder), Tags: []string{name}}, ignoreProgress)
		},
	})
}

func (w *worker) commitContainer(ctx context.Context, c *client.Client) error {
	ctr := w.pickContainer()
	if ctr == nil {
		return nil
	}
	name := w.freshName("k")
	return w.makeImage(ctx, c, &img{
		name: name + ":1", grace: imageGrace,
		from: func(ctx context.Context, c *client.Client) error {
			_, err := c.ContainerCommit(ctx, ctr.id, client.Commit{Repo: name, Tag: "1"})
			return err
		},
	})
}

// randomFiles returns small ones of drawn content.
func (w *worker) randomFiles(n int) map[string]string { return randomFiles(w.rand, n) }

func randomFiles(draw *rand.Rand, n int) map[string]string {
	files := map[string]string{}
	for i := range n {
		content := make([]byte, 1+draw.IntN(20_000))
		for j := range content {
			content[j] = byte(draw.Uint32())
		}
		files[fmt.Sprintf("files/d%d/f%d", i%7, i)] = string(content)
	}
	return files
}

// layerArchive returns a plain archive of files.
func layerArchive(files map[string]string) []byte {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, name := range sortedKeys(files) {
		must(w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(files[name]))}))
		_, err := w.Write([]byte(files[name]))
		must(err)
	}
	must(w.Close())
	return buf.Bytes()
}

// imageArchive returns an image as save writes it.
func imageArchive(name string, layers ...[]byte) []byte {
	type entry struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	e := entry{Config: "config.json", RepoTags: []string{name}}
	files := map[string]string{e.Config: string(imageConfig(layers...))}
	for i, l := range layers {
		e.Layers = append(e.Layers, fmt.Sprintf("%d.tar", i))
		files[e.Layers[i]] = string(l)
	}
	manifest, err := json.Marshal([]entry{e})
	must(err)
	files["manifest.json"] = string(manifest)
	return layerArchive(files)
}

// imageConfig returns that of an image of those layers.
func imageConfig(layers ...[]byte) []byte {
	diffIDs := make([]string, 0, len(layers))
	for _, l := range layers {
		diffIDs = append(diffIDs, digestOf(l))
	}
	raw, err := json.Marshal(map[string]any{
		"architecture": "amd64", "os": "linux", "created": "2026-01-02T03:04:05Z",
		"config": map[string]any{"Env": []string{"PATH=/bin"}}, "rootfs": map[string]any{"type": "layers", "diff_ids": diffIDs},
	})
	must(err)
	return raw
}

func digestOf(raw []byte) string {
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// must ends the test for what cannot fail in memory.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
