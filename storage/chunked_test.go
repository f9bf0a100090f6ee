package storage

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"go.podman.io/storage/pkg/chunked/compressor"

	"moss/engine/fault"
)

// partSource serves a blob in parts and counts what was fetched.
type partSource struct {
	blob    []byte
	fetched int
	calls   int
	most    int // parts of one request; 0: any number
	fail    error
	breaks  error // in the midst of a part
}

func (r *partSource) GetBlobAt(parts []Range) (chan io.ReadCloser, chan error, error) {
	r.calls++
	if r.fail != nil {
		return nil, nil, r.fail
	}
	if r.most > 0 && len(parts) > r.most {
		return nil, nil, ErrTooManyRanges
	}
	streams, errs := make(chan io.ReadCloser), make(chan error)
	go func() {
		defer close(streams)
		defer close(errs)
		for _, p := range parts {
			if p.Offset+p.Length > uint64(len(r.blob)) {
				errs <- fmt.Errorf("no such part: %v", p)
				return
			}
			r.fetched += int(p.Length)
			body := r.blob[p.Offset : p.Offset+p.Length]
			var src io.Reader = bytes.NewReader(body)
			if r.breaks != nil && r.calls > 1 {
				src = &broken{data: body[:len(body)/2], err: r.breaks}
			}
			streams <- io.NopCloser(src)
		}
	}()
	return streams, errs, nil
}

// inChunks compresses an archive as zstd:chunked.
func inChunks(t *testing.T, plain []byte) (Blob, []byte) {
	t.Helper()
	var buf bytes.Buffer
	notes := map[string]string{}
	w, err := compressor.ZstdCompressor(&buf, notes, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = w.Write(plain); err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	raw := buf.Bytes()
	return Blob{Digest: digest.FromBytes(raw), Size: int64(len(raw)), Annotations: notes, MediaType: "application/vnd.oci.image.layer.v1.tar+zstd"}, raw
}

// noise is content that does not compress.
func noise(seed, n int) string {
	b := make([]byte, 0, n)
	for i := 0; len(b) < n; i++ {
		b = append(b, digest.FromString(fmt.Sprint(seed, i))[7:]...)
	}
	return string(b[:n])
}

func TestStageChunked(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *Store) {
		if s.choice.driver == driverVFS {
			return // says ErrNotChunked, see below
		}
		version := func(changed int) []byte {
			list := []*tar.Header{folder("bin/")}
			for i := range 40 {
				seed := i
				if i == changed {
					seed = 1000 + i
				}
				list = append(list, file(fmt.Sprintf("bin/f%d", i), noise(seed, 5_000)))
			}
			return entries(t, append(list, link(tar.TypeSymlink, "sh", "bin/f1"), link(tar.TypeLink, "same", "bin/f2"), file("bin/.wh.gone", ""))...)
		}
		first, second := version(-1), version(7)
		blob, raw := inChunks(t, first)
		src := &partSource{blob: raw, most: 10}
		staged, err := s.StageChunked(t.Context(), blob, src)
		if err != nil {
			t.Fatal(err)
		}
		if staged.DiffID() != digest.FromBytes(first) || staged.Size() != 40*5_000 {
			t.Errorf("StageChunked = %s, %d bytes; want %s, %d", staged.DiffID(), staged.Size(), digest.FromBytes(first), 40*5_000)
		}
		p := pulled(t, "first", []string{"first"}, first)
		p.Layers[0] = staged
		img, err := s.PutPulled(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		checkLayer(t, s, img.ID, 0, first)

		blob, raw = inChunks(t, second)
		src = &partSource{blob: raw}
		if staged, err = s.StageChunked(t.Context(), blob, src); err != nil {
			t.Fatal(err)
		}
		if src.fetched > len(raw)/10 {
			t.Errorf("%d of %d bytes were fetched for one file of forty", src.fetched, len(raw))
		}
		p = pulled(t, "second", []string{"second"}, second)
		p.Layers[0] = staged
		if img, err = s.PutPulled(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		checkLayer(t, s, img.ID, 0, second)
	})
}

func TestStageChunkedErrors(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *Store) {
		plain := entries(t, file("a", noise(1, 300_000)), file("b", noise(2, 300_000)))
		blob, raw := inChunks(t, plain)
		boom := errors.New("boom")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		piped, pipedRaw := inChunks(t, entries(t, &tar.Header{Name: "p", Typeflag: tar.TypeFifo}))
		twisted := bytes.Clone(raw)
		for i := range 100_000 {
			twisted[1000+i] ^= 1
		}
		for name, tc := range map[string]struct {
			ctx  context.Context //nolint:containedctx // a row of the table
			blob Blob
			src  *partSource
			want error
		}{
			"no table of contents": {t.Context(), Blob{Digest: blob.Digest, Size: blob.Size}, &partSource{blob: raw}, ErrNotChunked},
			"no ranges":            {t.Context(), blob, &partSource{fail: ErrNotChunked}, ErrNotChunked},
			"the registry fails":   {t.Context(), blob, &partSource{fail: boom}, boom},
			"it breaks off":        {t.Context(), blob, &partSource{blob: raw, breaks: boom}, boom},
			"other bytes":          {t.Context(), blob, &partSource{blob: twisted}, ErrNotChunked},
			"too short":            {t.Context(), blob, &partSource{blob: raw[:1000]}, nil},
			"cancelled":            {ctx, blob, &partSource{blob: raw}, context.Canceled},
			"a named pipe":         {t.Context(), piped, &partSource{blob: pipedRaw}, ErrNotChunked},
		} {
			t.Run(name, func(t *testing.T) {
				want := tc.want
				if s.choice.driver == driverVFS {
					want = ErrNotChunked
				}
				_, err := s.StageChunked(tc.ctx, tc.blob, tc.src)
				if err == nil || (want != nil && !errors.Is(err, want)) {
					t.Errorf("StageChunked: %v, want %v", err, want)
				}
				nothingLeft(t, s)
			})
		}
		if _, err := s.StageChunked(t.Context(), Blob{Digest: "no"}, nil); !fault.Is(err, fault.Invalid) {
			t.Errorf("StageChunked of a bad digest: %v", err)
		}
	})
}

// TestStageChunkedBombs fetches layers whose table of contents costs more than it weighs: they are to be fetched whole, and
// whoever does so checks their archive.
func TestStageChunkedBombs(t *testing.T) {
	pack := func(headers ...*tar.Header) []byte {
		var out bytes.Buffer
		w := tar.NewWriter(&out)
		for _, h := range headers {
			if err := w.WriteHeader(h); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	folders, links := make([]*tar.Header, 0, 300), make([]*tar.Header, 0, 50)
	for i := range 300 {
		folders = append(folders, &tar.Header{Name: fmt.Sprintf("%d/%sf", i, strings.Repeat("a/", 490)), Typeflag: tar.TypeReg, Mode: 0o644})
	}
	for i := range 45 {
		links = append(links, &tar.Header{Name: fmt.Sprint("l", i), Typeflag: tar.TypeSymlink, Linkname: fmt.Sprint("l", i+1)})
	}
	links = append(links, &tar.Header{Name: "l0/f", Typeflag: tar.TypeReg, Mode: 0o644})
	for name, tc := range map[string]struct {
		headers []*tar.Header
		text    string
	}{"implied folders": {folders, "folders that it does not list"}, "links": {links, "symbolic links"}} {
		t.Run(name, func(t *testing.T) {
			eachDriver(t, func(t *testing.T, s *Store) {
				if s.choice.driver == driverVFS {
					return
				}
				blob, raw := inChunks(t, pack(tc.headers...))
				_, err := s.StageChunked(t.Context(), blob, &partSource{blob: raw})
				if !errors.Is(err, ErrNotChunked) || !strings.Contains(err.Error(), tc.text) {
					t.Errorf("StageChunked = %v, want that it is not chunked for %q", err, tc.text)
				}
			})
		})
	}
}
