package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"moss/api/client"
	"moss/api/types"
)

// checkImages checks that none is lost but the newest, that each that is there is whole, and that what is not there can
// be made again of whatever the cut has left. How long a sync took is the disk's doing: one may have been under way at
// the acknowledgement, and the next one at the cut.
func (k *checker) checkImages(want []*img, cut time.Time, syncs syncs, pace *pace) {
	there := k.listImages()
	for _, i := range want {
		if _, ok := there[i.name]; ok {
			continue
		}
		age := cut.Sub(i.acked).Round(time.Millisecond)
		switch {
		case i.acked.IsZero() || i.gone:
		case syncs.haveReached(i.acked, cut):
			k.addFault("image %s is lost, acknowledged %s before the cut and synced since", i.name, age)
		case age > i.grace+pace.waitedBetween(i.acked, cut)+2*syncs.longestBefore(cut):
			k.addFault("image %s is lost, acknowledged %s before the cut and not synced, where a sync takes %s", i.name, age, syncs.longestBefore(cut))
		}
		if i.files != nil {
			if err := i.from(k.ctx, k.c); err != nil {
				k.addFault("image %s cannot be made again: %v", i.name, err)
			}
		}
	}
	there = k.listImages()
	seen := map[string]bool{}
	for _, i := range want {
		found, ok := there[i.name]
		if !ok || i.files == nil {
			continue
		}
		if i.id != "" && found.ID != i.id {
			k.addFault("%s is image %s, want %s", i.name, found.ID, i.id)
		}
		if i.digest != "" && !slices.Contains(found.RepoDigests, i.digest) {
			k.addFault("image %s has the digests %q, want %s", i.name, found.RepoDigests, i.digest)
		}
		if seen[found.ID] {
			continue
		}
		seen[found.ID] = true
		if err := k.checkContent(i); err != nil {
			k.addFault("files of image %s: %v", i.name, err)
		}
	}
}

// listImages returns the images by their names, and checks those that it has not seen yet.
func (k *checker) listImages() map[string]types.ImageSummary {
	list, err := k.c.Images(k.ctx, client.ImagesOptions{})
	if err != nil {
		k.addFault("images: %v", err)
	}
	there := map[string]types.ImageSummary{}
	for _, i := range list {
		tags := slices.DeleteFunc(slices.Clone(i.RepoTags), func(t string) bool { return t == "<none>:<none>" })
		for _, t := range tags {
			there[t] = i
		}
		if len(tags) == 0 {
			k.addFault("image %s has no name", i.ID)
		}
		if k.saved[i.ID] {
			continue
		}
		k.saved[i.ID] = true
		if err := k.checkLayers(i.ID); err != nil {
			k.addFault("image %s %v is not whole: %v", i.ID, tags, err)
		}
	}
	return there
}

// checkLayers saves an image and compares its layers with what its config says of them.
func (k *checker) checkLayers(id string) error {
	var buf bytes.Buffer
	if err := k.c.ImageSave(k.ctx, []string{id}, &buf); err != nil {
		return err
	}
	files, err := readArchive(&buf)
	if err != nil {
		return err
	}
	var manifest []struct {
		Config string
		Layers []string
	}
	if err := json.Unmarshal([]byte(files["manifest.json"]), &manifest); err != nil || len(manifest) != 1 {
		return fmt.Errorf("manifest: %w, %d entries", err, len(manifest))
	}
	var config struct {
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
	if err := json.Unmarshal([]byte(files[manifest[0].Config]), &config); err != nil {
		return fmt.Errorf("config: %w", err)
	}
	if len(config.RootFS.DiffIDs) != len(manifest[0].Layers) {
		return fmt.Errorf("%d layers, want %d", len(manifest[0].Layers), len(config.RootFS.DiffIDs))
	}
	for n, want := range config.RootFS.DiffIDs {
		if got := digestOf([]byte(files[manifest[0].Layers[n]])); got != want {
			return fmt.Errorf("layer %d is %s, want %s", n, got, want)
		}
	}
	return nil
}

// readArchive returns the files of an archive.
func readArchive(from io.Reader) (map[string]string, error) {
	files := map[string]string{}
	for r := tar.NewReader(from); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		raw, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		if h.Typeflag == tar.TypeReg {
			files[h.Name] = string(raw)
		}
	}
}

// checkContent compares what a container of an image sees with what the image was made of.
func (k *checker) checkContent(i *img) (err error) {
	made, err := k.c.ContainerCreate(k.ctx, client.CreateOptions{}, types.ContainerCreate{
		Config: types.Config{Image: i.name, Cmd: types.Strings{"true"}},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.c.ContainerRemove(k.ctx, made.ID, client.RemoveOptions{})) }()
	stream, _, err := k.c.ContainerCopyFrom(k.ctx, made.ID, i.root)
	if err != nil {
		return err
	}
	files, err := readArchive(stream)
	if err := errors.Join(err, stream.Close()); err != nil {
		return err
	}
	got := map[string]string{}
	for name, content := range files {
		got[withoutTop(name)] = content
	}
	for name, content := range i.files {
		name = withoutTop(name)
		if found, ok := got[name]; !ok || found != content {
			return fmt.Errorf("%s has %d bytes (there: %t), want the %d that were written", name, len(found), ok, len(content))
		}
		delete(got, name)
	}
	if len(got) > 0 {
		return fmt.Errorf("%q were not written", sortedKeys(got))
	}
	return nil
}

// withoutTop is a name in the folder that an archive holds.
func withoutTop(name string) string {
	_, name, _ = strings.Cut(strings.TrimPrefix(name, "/"), "/")
	return name
}
