package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
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

// base loads the image that containers are made of, and waits until it is not in danger any more.
func (m *model) base(ctx context.Context, c *client.Client) error {
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
	files := map[string]string{"bin/busybox": string(raw), "bin/sh": string(raw), "bin/sleep": string(raw), "bin/true": string(raw)}
	if err := c.ImageLoad(ctx, bytes.NewReader(archive(baseName, layer(files))), 0, true, func(client.Progress) error { return nil }); err != nil {
		return err
	}
	acked := time.Now()
	wait(ctx, 2*imageGrace) // it is the promise itself that is waited for
	m.ack(func() { m.images = append(m.images, &img{name: baseName, acked: acked, grace: imageGrace}) })
	return nil
}

// image notes an image that has just been acknowledged.
func (w *worker) image(name string, grace time.Duration) {
	w.model.ack(func() {
		i := &img{name: name, acked: time.Now(), grace: grace}
		w.tags = append(w.tags, i)
		w.model.images = append(w.model.images, i)
	})
}

func (w *worker) load(ctx context.Context, c *client.Client) error {
	name := w.fresh("l") + ":1"
	image := archive(name, layer(w.files(40)), layer(w.files(100)))
	if err := c.ImageLoad(ctx, bytes.NewReader(image), 0, true, func(client.Progress) error { return nil }); err != nil {
		return err
	}
	w.image(name, imageGrace)
	return nil
}

func (w *worker) tag(ctx context.Context, c *client.Client) error {
	name := w.fresh("t")
	if err := c.ImageTag(ctx, baseName, name, "1"); err != nil {
		return err
	}
	w.image(name+":1", imageGrace)
	return nil
}

func (w *worker) untag(ctx context.Context, c *client.Client) error {
	if len(w.tags) < 3 {
		return nil
	}
	n := w.rand.IntN(len(w.tags))
	i := w.tags[n]
	w.tags = append(w.tags[:n:n], w.tags[n+1:]...)
	w.model.ask(func() { i.gone = true })
	_, err := c.ImageRemove(ctx, i.name, false, false)
	return err
}

func (w *worker) build(ctx context.Context, c *client.Client) error {
	name := w.fresh("b") + ":1"
	files := w.files(30)
	files["Dockerfile"] = "FROM " + baseName + "\nCOPY . /src\nRUN echo " + name + " >/made\nENV A=" + name + "\n"
	err := c.ImageBuild(ctx, client.BuildOptions{Context: bytes.NewReader(layer(files)), Tags: []string{name}}, func(client.Progress) error { return nil })
	if err != nil {
		return err
	}
	w.image(name, buildGrace)
	return nil
}

func (w *worker) commit(ctx context.Context, c *client.Client) error {
	ctr := w.pick()
	if ctr == nil {
		return nil
	}
	name := w.fresh("k")
	if _, err := c.ContainerCommit(ctx, ctr.id, client.Commit{Repo: name, Tag: "1"}); err != nil {
		return err
	}
	w.image(name+":1", imageGrace)
	return nil
}

// files are small ones of drawn content.
func (w *worker) files(n int) map[string]string { return drawn(w.rand, n) }

func drawn(draw *rand.Rand, n int) map[string]string {
	files := map[string]string{}
	for i := range n {
		content := make([]byte, 1+draw.IntN(20_000))
		for j := range content {
			content[j] = byte(draw.Uint32())
		}
		files[fmt.Sprintf("d%d/f%d", i%7, i)] = string(content)
	}
	return files
}

// layer is a plain archive of files.
func layer(files map[string]string) []byte {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, name := range sorted(files) {
		must(w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(files[name]))}))
		_, err := w.Write([]byte(files[name]))
		must(err)
	}
	must(w.Close())
	return buf.Bytes()
}

// archive is an image as save writes it.
func archive(name string, layers ...[]byte) []byte {
	type entry struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	e := entry{Config: "config.json", RepoTags: []string{name}}
	files := map[string]string{}
	diffIDs := make([]string, 0, len(layers))
	for i, l := range layers {
		sum := sha256.Sum256(l)
		diffIDs = append(diffIDs, "sha256:"+hex.EncodeToString(sum[:]))
		e.Layers = append(e.Layers, fmt.Sprintf("%d.tar", i))
		files[e.Layers[i]] = string(l)
	}
	config, err := json.Marshal(map[string]any{
		"architecture": "amd64", "os": "linux", "created": "2026-01-02T03:04:05Z",
		"config": map[string]any{"Env": []string{"PATH=/bin"}}, "rootfs": map[string]any{"type": "layers", "diff_ids": diffIDs},
	})
	must(err)
	files["config.json"] = string(config)
	manifest, err := json.Marshal([]entry{e})
	must(err)
	files["manifest.json"] = string(manifest)
	return layer(files)
}

// must ends the test for what cannot fail in memory.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
