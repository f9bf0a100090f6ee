package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	archiveSize  = 1000 << 20 // bytes of the one large file
	archiveFiles = 5000       // small ones
)

// measureArchives measures archives into a container and out of it: one large file, and many small ones.
func (b *bench) measureArchives(ctx context.Context, i *instance) error {
	small, err := smallTar()
	if err != nil {
		return err
	}
	return withBox(ctx, i, func(box string) error {
		if err := resetPeak(i.cmd.Process.Pid); err != nil {
			return err
		}
		s := samples{}
		for _, part := range []struct {
			name, path string
			body       io.Reader
			size       int64
		}{
			{"1000 MiB file", "/data/big", bigTar(archiveSize), archiveSize},
			{"5000 files", "/data/tree", bytes.NewReader(small), int64(len(small)) * 6 / 10},
		} {
			began := time.Now()
			if err := i.api.putArchive(ctx, box, "/data", part.body); err != nil {
				return err
			}
			s[part.name+" in"] = time.Since(began).Seconds()
			began = time.Now()
			got, err := i.api.drainAnswer(ctx, http.MethodGet, "/v1.24/containers/"+box+"/archive?path="+url.QueryEscape(part.path), nil, "")
			if err != nil {
				return err
			}
			s[part.name+" out"] = time.Since(began).Seconds()
			if got < part.size {
				return fmt.Errorf("archive of %s has %d bytes, want %d", part.path, got, part.size)
			}
		}
		var err error
		if s["peak of the engine"], err = peakOf(i.cmd.Process.Pid); err != nil {
			return err
		}
		b.report.add(i.name, "archive", s)
		return nil
	})
}

// bigTar returns an archive of one file, big, whose content is one random mebibyte again and again.
func bigTar(size int64) io.Reader {
	block := make([]byte, 1<<20)
	source := rand.NewChaCha8([32]byte{1})
	source.Read(block) //nolint:errcheck // it has no error
	var head bytes.Buffer
	tar.NewWriter(&head).WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "big", Mode: 0o644, Size: size}) //nolint:errcheck // into memory
	const end = 1024                                                                                           // bytes of zeros; size is a multiple of 512
	return io.MultiReader(&head, io.LimitReader(&again{block: block}, size), bytes.NewReader(make([]byte, end)))
}

// again reads a block without end.
type again struct {
	block []byte
	at    int
}

// Read fills p.
func (a *again) Read(p []byte) (int, error) {
	n := copy(p, a.block[a.at:])
	a.at = (a.at + n) % len(a.block)
	return n, nil
}

// smallTar returns an archive of files of 100 to 8000 bytes.
func smallTar() ([]byte, error) {
	source := rand.NewChaCha8([32]byte{2})
	random := rand.New(source)
	return treeTar(archiveFiles, func() []byte {
		content := make([]byte, 100+random.IntN(7900))
		source.Read(content) //nolint:errcheck // it has no error
		return content
	})
}

// treeTar returns an archive of n files below tree, 100 in each folder.
func treeTar(n int, next func() []byte) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for k := range n {
		content := next()
		dir := "tree/d" + strconv.Itoa(k/100)
		var err error
		if k == 0 {
			err = w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "tree/", Mode: 0o755})
		}
		if k%100 == 0 {
			err = errors.Join(err, w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}))
		}
		err = errors.Join(err, w.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: dir + "/f" + strconv.Itoa(k), Mode: 0o644, Size: int64(len(content)),
		}))
		if _, writeErr := w.Write(content); errors.Join(err, writeErr) != nil {
			return nil, errors.Join(err, writeErr)
		}
	}
	err := w.Close()
	return buf.Bytes(), err
}

// engineNames are the programs that answer the API.
func engineNames() []string { return []string{"mossd", "podman"} }

// resetPeak forgets how much memory the engine's processes have had so far.
func resetPeak(root int) error {
	return eachEngine(root, func(pid int) error { return os.WriteFile(procFile(pid, "clear_refs"), []byte("5"), 0) })
}

// peakOf returns the most memory that one of the engine's processes has had since resetPeak, in MB.
func peakOf(root int) (most float64, err error) {
	err = eachEngine(root, func(pid int) error {
		raw, err := os.ReadFile(procFile(pid, "status"))
		if err != nil {
			return err
		}
		peak, err := parsePeak(string(raw))
		most = max(most, peak)
		return err
	})
	return most, err
}

func eachEngine(root int, do func(pid int) error) error {
	all, err := listProcesses()
	if err != nil {
		return err
	}
	own, err := os.Readlink("/proc/self/ns/user")
	if err != nil {
		return err
	}
	for _, p := range engineProcesses(all, root, own) {
		for _, name := range engineNames() {
			if p.name == name {
				err = errors.Join(err, do(p.pid))
			}
		}
	}
	return err
}

// parsePeak returns the line VmHWM of a status file in MB.
func parsePeak(status string) (float64, error) {
	for line := range strings.Lines(status) {
		if value, found := strings.CutPrefix(line, "VmHWM:"); found {
			kb, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")))
			if err != nil {
				return 0, fmt.Errorf("malformed line %q", line)
			}
			return float64(kb) * 1024 / 1e6, nil
		}
	}
	return 0, nil
}
