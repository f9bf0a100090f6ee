package imagesvc

import (
	"archive/tar"
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"moss/engine/fault"
)

// archivePlan is an archive that is to be written: all of it but the layers' content.
type archivePlan struct {
	entries      []archiveEntry               // of manifest.json
	repositories map[string]map[string]string // repository -> tag -> id of the top layer
	configs      []plannedFile
	folders      []plannedFolder
}

type plannedFile struct {
	name string
	raw  []byte
	time time.Time
}

// plannedFolder is a layer's folder.
type plannedFolder struct {
	id      string
	record  []byte
	time    time.Time
	link    string // of an earlier folder with the same content: the layer's archive is there
	imageID string // where the content is, with index
	index   int
	size    int64
}

// planArchive finds out what an archive of images holds, so that what can go wrong does before its first byte.
func (s *Archives) planArchive(ctx context.Context, images []*savedImage) (*archivePlan, error) {
	p := &archivePlan{repositories: map[string]map[string]string{}}
	written := map[string]bool{}          // folders
	content := map[digest.Digest]string{} // diff id -> folder that has it
	for _, saved := range images {
		config, _, err := s.store.Documents(ctx, saved.img.ID)
		if err != nil {
			return nil, err
		}
		layers, err := s.store.Layers(ctx, saved.img.ID)
		if err != nil {
			return nil, err
		}
		ids, records, err := v1Layers(config, layers)
		if err != nil {
			return nil, fmt.Errorf("save image %s: %w", saved.img.ID, err)
		}
		created := archiveTime(saved.img.Created)
		entry := archiveEntry{Config: strings.TrimPrefix(saved.img.ID, "sha256:") + ".json", Layers: make([]string, 0, len(layers))}
		for i, layer := range layers {
			at, there := content[layer.DiffID]
			if !there {
				at, content[layer.DiffID] = ids[i], ids[i]
			}
			entry.Layers = append(entry.Layers, at+"/"+nameLayer)
			if written[ids[i]] {
				continue
			}
			written[ids[i]] = true
			folder := plannedFolder{id: ids[i], record: records[i], time: created, imageID: saved.img.ID, index: i, size: layer.Size}
			if there {
				folder.link = at
			} else if folder.size < 0 {
				if folder.size, err = layerSize(ctx, s.store, saved.img.ID, i); err != nil {
					return nil, err
				}
			}
			p.folders = append(p.folders, folder)
		}
		for _, tag := range saved.tags {
			entry.RepoTags = append(entry.RepoTags, tag.Familiar())
			if len(ids) > 0 {
				p.addTag(tag.FamiliarRepo(), tag.Tag(), ids[len(ids)-1])
			}
		}
		p.entries = append(p.entries, entry)
		p.configs = append(p.configs, plannedFile{entry.Config, config, created})
	}
	return p, nil
}

func (p *archivePlan) addTag(repo, tag, topID string) {
	if p.repositories[repo] == nil {
		p.repositories[repo] = map[string]string{}
	}
	p.repositories[repo][tag] = topID
}

// archiveTime is an image's time as an archive's headers can carry it in any form: whole seconds, not before 1970.
func archiveTime(t time.Time) time.Time {
	if t.Before(time.Unix(0, 0)) {
		return time.Unix(0, 0)
	}
	return t.Truncate(time.Second)
}

// layerSize counts the bytes of a layer's archive.
func layerSize(ctx context.Context, from contents, imageID string, index int) (int64, error) {
	layer, err := from.OpenLayer(ctx, imageID, index)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(io.Discard, layer)
	if err := errors.Join(err, layer.Close()); err != nil {
		return 0, fmt.Errorf("measure layer %d of image %s: %w", index, imageID, err)
	}
	return n, nil
}

// writeArchive writes the archive. The documents come first: who reads it knows then what the layers are.
func (p *archivePlan) writeArchive(ctx context.Context, from contents, w io.Writer) error {
	ahead := newAhead(ctx, from, p.folders)
	defer ahead.close()
	out := bufio.NewWriterSize(w, 64<<10)
	a := &archiveWriter{tar: tar.NewWriter(out)}
	if err := a.writeDocuments(p); err != nil {
		return err
	}
	for _, folder := range p.folders {
		if err := a.writeFolder(ctx, folder, ahead); err != nil {
			return fmt.Errorf("save layer %s: %w", folder.id, err)
		}
	}
	if err := a.tar.Close(); err != nil {
		return fmt.Errorf("end the archive: %w", err)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("end the archive: %w", err)
	}
	return nil
}

// archiveWriter writes entries that belong to nobody in particular.
type archiveWriter struct {
	tar *tar.Writer
}

func (a *archiveWriter) writeDocuments(p *archivePlan) error {
	times := time.Unix(0, 0)
	for _, c := range p.configs {
		if c.time.After(times) {
			times = c.time
		}
	}
	manifest, err := json.Marshal(p.entries)
	if err != nil {
		return fmt.Errorf("encode %s: %w", nameManifest, err)
	}
	files := []plannedFile{{nameManifest, append(manifest, '\n'), times}}
	if len(p.repositories) > 0 {
		repositories, err := json.Marshal(p.repositories)
		if err != nil {
			return fmt.Errorf("encode %s: %w", nameRepositories, err)
		}
		files = append(files, plannedFile{nameRepositories, append(repositories, '\n'), times})
	}
	for _, f := range append(files, p.configs...) {
		if err := a.writeFile(f); err != nil {
			return err
		}
	}
	return nil
}

func (a *archiveWriter) writeFile(f plannedFile) error {
	err := a.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: 0o644, Size: int64(len(f.raw)), ModTime: f.time})
	if err == nil {
		_, err = a.tar.Write(f.raw)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", f.name, err)
	}
	return nil
}

// writeFolder writes a layer's folder.
func (a *archiveWriter) writeFolder(ctx context.Context, f plannedFolder, ahead *ahead) error {
	err := a.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: f.id + "/", Mode: 0o755, ModTime: f.time})
	if err != nil {
		return err
	}
	for _, file := range []plannedFile{
		{f.id + "/" + nameVersion, []byte(layerVersion), f.time},
		{f.id + "/" + nameRecord, f.record, f.time},
	} {
		if err := a.writeFile(file); err != nil {
			return err
		}
	}
	h := tar.Header{Typeflag: tar.TypeReg, Name: f.id + "/" + nameLayer, Mode: 0o644, Size: f.size, ModTime: f.time}
	if f.link != "" {
		h.Typeflag, h.Linkname, h.Size, h.Mode = tar.TypeSymlink, "../"+f.link+"/"+nameLayer, 0, 0o777
	}
	if err := a.tar.WriteHeader(&h); err != nil || f.link != "" {
		return err
	}
	n, err := ahead.copyLayer(ctx, a.tar)
	if err == nil && n != f.size {
		return fault.Internal("the layer has %d bytes, not %d", n, f.size)
	}
	return err
}
