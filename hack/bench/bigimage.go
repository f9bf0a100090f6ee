package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
)

const (
	mebibyte   = 1 << 20
	largest    = 40 * mebibyte // of the files that are taken
	hugeLayers = 4
	hugeLayer  = 512 * mebibyte
)

// layerSizes are the bytes of the layers of the large image: 470 MiB together.
func layerSizes() []int64 {
	return []int64{15 * mebibyte, 170 * mebibyte, 65 * mebibyte, 50 * mebibyte, 100 * mebibyte, 70 * mebibyte}
}

// layerFile is one layer on the disk.
type layerFile struct {
	path   string // of its plain archive
	digest string
	size   int64
}

// treeLayers makes the layers of the large image from the files of this machine's /usr, each from where the last one
// ended: real programs and texts, since they decide how fast they are unpacked.
func treeLayers(ctx context.Context, dir string, sizes []int64) ([]layerFile, error) {
	w := &layerWriter{dir: dir, sizes: sizes}
	err := filepath.WalkDir("/usr", func(path string, entry fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return fs.SkipDir // a folder that is not for everyone
		}
		return w.addFile(path, entry)
	})
	if err != nil && !errors.Is(err, fs.SkipAll) {
		return nil, err
	}
	if err := w.endLayer(); err != nil {
		return nil, err
	}
	if len(w.done) < len(sizes) {
		return nil, fmt.Errorf("/usr fills %d of %d layers", len(w.done), len(sizes))
	}
	return w.done, nil
}

// layerWriter fills one layer after the other.
type layerWriter struct {
	dir   string
	sizes []int64
	done  []layerFile
	file  *os.File
	tar   *tar.Writer
	n     int64 // bytes of files in the present layer
}

func (w *layerWriter) addFile(path string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil || info.Size() > largest || !info.Mode().IsRegular() && !info.IsDir() {
		return nil //nolint:nilerr // it went meanwhile: the next file will do
	}
	if w.file == nil {
		if w.file, err = os.Create(filepath.Join(w.dir, fmt.Sprintf("layer%d.tar", len(w.done)))); err != nil {
			return err
		}
		w.tar, w.n = tar.NewWriter(w.file), 0
	}
	header := &tar.Header{Name: strings.TrimPrefix(path, "/"), Mode: int64(info.Mode().Perm()), ModTime: info.ModTime().Truncate(time.Second)}
	if info.IsDir() {
		header.Typeflag, header.Name = tar.TypeDir, header.Name+"/"
		return w.tar.WriteHeader(header)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil //nolint:nilerr // not for everyone: the next file will do
	}
	header.Typeflag, header.Size = tar.TypeReg, int64(len(content))
	if err := w.tar.WriteHeader(header); err != nil {
		return err
	}
	if _, err := w.tar.Write(content); err != nil {
		return err
	}
	if w.n += header.Size; w.n < w.sizes[len(w.done)] {
		return nil
	}
	return w.endLayer()
}

// endLayer ends the present layer. After the last one it ends the walk.
func (w *layerWriter) endLayer() error {
	if w.file == nil {
		return nil
	}
	if err := errors.Join(w.tar.Close(), w.file.Close()); err != nil {
		return err
	}
	layer, err := hashLayer(w.file.Name())
	if err != nil {
		return err
	}
	w.done, w.file = append(w.done, layer), nil
	if len(w.done) == len(w.sizes) {
		return fs.SkipAll
	}
	return nil
}

func hashLayer(path string) (layerFile, error) {
	file, err := os.Open(path)
	if err != nil {
		return layerFile{}, err
	}
	hash := sha256.New()
	size, err := io.Copy(hash, file)
	return layerFile{path: path, digest: digestOf(hash.Sum(nil)), size: size}, errors.Join(err, file.Close())
}

func digestOf(sum []byte) string { return "sha256:" + hex.EncodeToString(sum) }

// randomLayer makes a layer of size bytes that do not compress.
func randomLayer(path string, seed byte, size int64) (layerFile, error) {
	file, err := os.Create(path)
	if err != nil {
		return layerFile{}, err
	}
	w := tar.NewWriter(file)
	err = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("random%d", seed), Mode: 0o644, Size: size})
	if err == nil {
		_, err = io.Copy(w, io.LimitReader(rand.NewChaCha8([32]byte{seed}), size))
	}
	if err := errors.Join(err, w.Close(), file.Close()); err != nil {
		return layerFile{}, err
	}
	return hashLayer(path)
}

// imageConfig returns the config of an image of those layers.
func imageConfig(layers []layerFile) ([]byte, error) {
	diffIDs := make([]string, 0, len(layers))
	history := make([]map[string]string, 0, len(layers))
	for _, layer := range layers {
		diffIDs = append(diffIDs, layer.digest)
		history = append(history, map[string]string{"created": "2024-01-01T00:00:00Z", "created_by": "bench"})
	}
	return json.Marshal(map[string]any{
		"architecture": "amd64", "os": "linux", "created": "2024-01-01T00:00:00Z", "config": map[string]any{"Cmd": []string{"sh"}},
		"history": history, "rootfs": map[string]any{"type": "layers", "diff_ids": diffIDs},
	})
}

// saveArchive writes an image as other engines save it.
func saveArchive(path, name string, layers []layerFile) error {
	config, err := imageConfig(layers)
	if err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	w := tar.NewWriter(file)
	add := func(name string, content []byte) {
		err = errors.Join(err, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content))}))
		_, writeErr := w.Write(content)
		err = errors.Join(err, writeErr)
	}
	sum := sha256.Sum256(config)
	configName := hex.EncodeToString(sum[:]) + ".json"
	add(configName, config)
	names := make([]string, 0, len(layers))
	for _, layer := range layers {
		folder := strings.TrimPrefix(layer.digest, "sha256:")
		add(folder+"/VERSION", []byte("1.0"))
		names = append(names, folder+"/layer.tar")
		err = errors.Join(err, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: folder + "/layer.tar", Mode: 0o644, Size: layer.size}))
		err = errors.Join(err, copyInto(w, layer.path))
	}
	manifest, encodeErr := json.Marshal([]map[string]any{{"Config": configName, "RepoTags": []string{name}, "Layers": names}})
	add("manifest.json", manifest)
	return errors.Join(err, encodeErr, w.Close(), file.Close())
}

func copyInto(w io.Writer, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, file)
	return errors.Join(err, file.Close())
}

// compressLayer compresses a layer and returns the bytes: what a registry keeps.
func compressLayer(layer layerFile, kind string) ([]byte, error) {
	var out bytes.Buffer
	var w io.WriteCloser = gzip.NewWriter(&out)
	if kind == kindZstd {
		encoder, err := zstd.NewWriter(&out)
		if err != nil {
			return nil, err
		}
		w = encoder
	}
	if err := errors.Join(copyInto(w, layer.path), w.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
