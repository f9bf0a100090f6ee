package registry_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"moss/engine/fault"
	"moss/engine/image"
	"moss/imagesvc/registry"
	"moss/storage"
)

// rangeStart reads the offset that a request asks for.
func rangeStart(r *http.Request) int {
	text, _, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Range"), "bytes="), "-")
	n, _ := strconv.Atoi(text)
	return n
}

// cutAt makes a server break the connection of the nth request for a blob after it sent offsets[n] bytes of the whole.
func (s *server) cutAt(content []byte, offsets []int) {
	var asked atomic.Int64
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		n := int(asked.Load())
		if !strings.Contains(r.URL.Path, "/blobs/") || n >= len(offsets) {
			return false
		}
		asked.Add(1)
		start := 0
		if !s.noRange {
			start = rangeStart(r)
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(content)-start))
		if start > 0 {
			w.Header().Set("Content-Range", "bytes "+strconv.Itoa(start)+"-"+strconv.Itoa(len(content)-1)+"/"+strconv.Itoa(len(content)))
			w.WriteHeader(http.StatusPartialContent)
		}
		_, _ = w.Write(content[start:max(start, offsets[n])])
		if err := http.NewResponseController(w).Flush(); err != nil {
			panic(err)
		}
		panic(http.ErrAbortHandler)
	}
}

func TestBlobGoesOn(t *testing.T) {
	layer := noise(1 << 20)
	for _, tc := range []struct {
		name    string
		offsets []int
		noRange bool
	}{
		{"before the first byte", []int{0}, false},
		{"after the first byte", []int{1}, false},
		{"before the last byte", []int{len(layer) - 1}, false},
		{"several times", []int{100_000, 100_000, 300_000, 300_001, 900_000}, false},
		{"without ranges", []int{100_000, 200_000, 200_000}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.noRange = tc.noRange
			_, blob := s.put("a/b", "v", layer)
			s.cutAt(layer, tc.offsets)
			got, err := readBlob(t, open(t, newClient(t, registry.Config{}), s.host+"/a/b:v", image.RegistryAuth{}), blob)
			if err != nil || !bytes.Equal(got, layer) {
				t.Errorf("%d bytes, %v, want the %d of the layer", len(got), err, len(layer))
			}
			if asked := len(s.seen("/blobs/")); asked <= len(tc.offsets) {
				t.Errorf("%d requests: it did not break %d times", asked, len(tc.offsets))
			}
		})
	}
}

func TestBlobGivesUp(t *testing.T) {
	layer := noise(1 << 20)
	offsets := make([]int, 100)
	for i := range offsets {
		offsets[i] = 5000
	}
	s := newServer(t)
	_, blob := s.put("a/b", "v", layer)
	s.cutAt(layer, offsets)
	got, err := readBlob(t, open(t, newClient(t, registry.Config{}), s.host+"/a/b:v", image.RegistryAuth{}), blob)
	if err == nil || !strings.Contains(err.Error(), blob.Digest.String()) || !strings.Contains(err.Error(), "at byte 5000") {
		t.Errorf("got %v, want an error that names the blob and where it broke", err)
	}
	if !bytes.Equal(got, layer[:5000]) {
		t.Errorf("%d bytes, want the 5000 that came", len(got))
	}
	if asked := len(s.seen("/blobs/")); asked > 12 {
		t.Errorf("%d requests without progress, want a few", asked)
	}
}

// TestBlobTellsItsSize knows nothing beforehand, and something wrong.
func TestBlobTellsItsSize(t *testing.T) {
	s := newServer(t)
	layer := noise(1000)
	_, blob := s.put("a/b", "v", layer)
	src := open(t, newClient(t, registry.Config{}), s.host+"/a/b:v", image.RegistryAuth{})
	r, size, err := src.Blob(t.Context(), storage.Blob{Digest: blob.Digest, Size: -1})
	if err != nil || size != 1000 {
		t.Fatalf("size %d, %v, want 1000", size, err)
	}
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, layer) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := errors.Join(r.Close(), r.Close()); err != nil {
		t.Errorf("closing twice: %v", err)
	}
	if _, err := r.Read(make([]byte, 1)); err == nil {
		t.Error("read after Close: no error")
	}
	before := len(s.seen("/blobs/"))
	_, err = readBlob(t, src, storage.Blob{Digest: blob.Digest, Size: 1001})
	if err == nil || !strings.Contains(err.Error(), "1000 bytes where the manifest says 1001") {
		t.Errorf("another size than in the manifest: %v", err)
	}
	if n := len(s.seen("/blobs/")) - before; n != 1 {
		t.Errorf("%d requests for a blob of the wrong size, want 1", n)
	}
	if _, _, err := src.Blob(t.Context(), storage.Blob{Digest: "sha256:../../x", Size: 1}); !fault.Is(err, fault.Invalid) {
		t.Errorf("a digest that is a path: %v, want an Invalid", err)
	}
	if _, err := readBlob(t, src, storage.Blob{Digest: "sha256:" + blob.Digest[7:70] + "1", Size: 1}); !fault.Is(err, fault.NotFound) {
		t.Errorf("a blob that is not there: %v, want a NotFound", err)
	}
}

func TestBlobEndless(t *testing.T) {
	s := newServer(t)
	_, blob := s.put("a/b", "v", noise(100))
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/blobs/") {
			return false
		}
		for {
			if _, err := w.Write(make([]byte, 4096)); err != nil {
				return true
			}
		}
	}
	got, err := readBlob(t, open(t, newClient(t, registry.Config{}), s.host+"/a/b:v", image.RegistryAuth{}), blob)
	if err != nil || len(got) != 100 {
		t.Errorf("%d bytes, %v, want 100", len(got), err)
	}
}

// TestBlobShort ends a body whose length was not announced.
func TestBlobShort(t *testing.T) {
	s := newServer(t)
	layer := noise(1000)
	_, blob := s.put("a/b", "v", layer)
	var asked atomic.Int64
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/blobs/") || asked.Add(1) > 1 {
			return false
		}
		_, _ = w.Write(layer[:10])
		_ = http.NewResponseController(w).Flush()
		_, _ = w.Write(layer[10:400])
		return true
	}
	got, err := readBlob(t, open(t, newClient(t, registry.Config{}), s.host+"/a/b:v", image.RegistryAuth{}), blob)
	if err != nil || !bytes.Equal(got, layer) {
		t.Errorf("%d bytes, %v, want all 1000", len(got), err)
	}
	if got := s.seen("/blobs/"); len(got) != 2 || got[1].Header.Get("Range") != "bytes=400-" {
		t.Errorf("%d requests, want a second one from byte 400 on", len(got))
	}
}

func TestBlobStalls(t *testing.T) {
	for _, tc := range []struct {
		name string
		sent int // before it stalls; -1: not even the header
	}{{"in the body", 10}, {"before the answer", -1}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			s := newServer(t)
			layer := noise(1000)
			_, blob := s.put("a/b", "v", layer)
			var asked atomic.Int64
			s.before = func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.Contains(r.URL.Path, "/blobs/") || asked.Add(1) > 1 {
					return false
				}
				if tc.sent >= 0 {
					w.Header().Set("Content-Length", "1000")
					_, _ = w.Write(layer[:tc.sent])
					_ = http.NewResponseController(w).Flush()
				}
				<-r.Context().Done()
				return true
			}
			c := newClient(t, registry.Config{Stall: busyStall})
			got, err := readBlob(t, open(t, c, s.host+"/a/b:v", image.RegistryAuth{}), blob)
			if err != nil || !bytes.Equal(got, layer) {
				t.Errorf("%d bytes, %v, want all 1000", len(got), err)
			}
		})
	}
}

// busyStall is longer than a server on a busy machine takes to answer.
const busyStall = 3 * time.Second

// TestBlobSlowReader takes longer than a server may: that is not the server's fault.
func TestBlobSlowReader(t *testing.T) {
	t.Parallel() // it mostly sleeps
	// Longer than the server itself stalls on a busy machine, after which the client asks again.
	const stall = 8 * time.Second
	s := newServer(t)
	layer := noise(8 << 20) // more than the sockets hold
	_, blob := s.put("a/b", "v", layer)
	c := newClient(t, registry.Config{Stall: stall})
	r, _, err := open(t, c, s.host+"/a/b:v", image.RegistryAuth{}).Blob(t.Context(), blob)
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	for _, n := range []int64{10, 1 << 20} {
		if _, err := io.CopyN(&got, r, n); err != nil {
			t.Fatal(err)
		}
		time.Sleep(stall + 100*time.Millisecond) // a server that took so long would be given up
	}
	if _, err := io.Copy(&got, r); err != nil || !bytes.Equal(got.Bytes(), layer) {
		t.Errorf("%d bytes, %v", got.Len(), err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if asked := len(s.seen("/blobs/")); asked != 1 {
		t.Errorf("%d requests, want 1", asked)
	}
}

func TestBlobEndsWithItsContext(t *testing.T) {
	s := newServer(t)
	_, blob := s.put("a/b", "v", noise(1000))
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/blobs/") {
			return false
		}
		_, _ = w.Write(noise(10))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return true
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, _, err := open(t, newClient(t, registry.Config{}), s.host+"/a/b:v", image.RegistryAuth{}).Blob(ctx, blob)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(r, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := io.ReadAll(r); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func TestRanges(t *testing.T) {
	layer := noise(1 << 20)
	parts := []storage.Range{{Offset: 0, Length: 10}, {Offset: 5000, Length: 1}, {Offset: 1<<20 - 7, Length: 7}}
	many := make([]storage.Range, 250) // of which one request takes a hundred
	for i := range many {
		many[i] = storage.Range{Offset: uint64(4000 * i), Length: 1000}
	}
	for _, tc := range []struct {
		name    string
		noRange bool
		parts   []storage.Range
	}{
		{"several", false, parts},
		{"one", false, parts[1:2]},
		{"up to the end", false, []storage.Range{{Offset: 1<<20 - 7, Length: math.MaxUint64}}},
		{"many", false, many},
		{"server without ranges", true, parts},
		{"many and a server without ranges", true, many},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newServer(t)
			s.noRange = tc.noRange
			_, blob := s.put("a/b", "v", layer)
			src := open(t, newClient(t, registry.Config{}), s.host+"/a/b:v", image.RegistryAuth{})
			streams, errs, err := src.Ranges(t.Context(), blob).GetBlobAt(tc.parts)
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for part := range streams {
				got, err := io.ReadAll(part)
				want := layer[tc.parts[n].Offset:]
				if tc.parts[n].Length != math.MaxUint64 {
					want = want[:tc.parts[n].Length]
				}
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("part %d: %d bytes, %v, want %d", n, len(got), err, len(want))
				}
				if err := part.Close(); err != nil {
					t.Error(err)
				}
				n++
			}
			if err := <-errs; err != nil || n != len(tc.parts) {
				t.Errorf("%d parts, %v, want %d", n, err, len(tc.parts))
			}
			if got := s.seen("/blobs/")[0].Header.Get("Range"); !strings.HasPrefix(got, "bytes=") {
				t.Errorf("asked for %q, want ranges", got)
			}
		})
	}
}

// TestRangesBreak gives half of an answer: an error has to come, and nothing may hang or end the process.
func TestRangesBreak(t *testing.T) {
	layer := noise(4 << 20)
	parts := []storage.Range{{Offset: 0, Length: 1 << 20}, {Offset: 2 << 20, Length: 2 << 20}}
	for _, noRange := range []bool{false, true} {
		s := newServer(t)
		_, blob := s.put("a/b", "v", layer)
		s.before = func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/blobs/") {
				return false
			}
			if noRange {
				r.Header.Del("Range")
			}
			s.serveBlob(&shortWriter{ResponseWriter: w, left: 5 << 19}, r, blob.Digest)
			panic(http.ErrAbortHandler)
		}
		src := open(t, newClient(t, registry.Config{}), s.host+"/a/b:v", image.RegistryAuth{})
		streams, errs, err := src.Ranges(t.Context(), blob).GetBlobAt(parts)
		if err != nil {
			t.Fatal(err)
		}
		failures := 0
		for part := range streams {
			if _, err := io.ReadAll(part); err != nil {
				failures++
			}
			if err := errors.Join(part.Close(), part.Close()); err != nil {
				t.Error(err)
			}
		}
		if err := <-errs; err == nil || failures != 1 {
			t.Errorf("%v and %d parts that failed, want an error and one", err, failures)
		}
	}
}

// shortWriter writes so many bytes and no more.
type shortWriter struct {
	http.ResponseWriter
	left int
}

func (w *shortWriter) Write(p []byte) (int, error) {
	if len(p) > w.left {
		_, _ = w.ResponseWriter.Write(p[:w.left])
		_ = http.NewResponseController(w.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	w.left -= len(p)
	return w.ResponseWriter.Write(p)
}

// TestRangesOtherPart sends something else than it was asked for.
func TestRangesOtherPart(t *testing.T) {
	s := newServer(t)
	layer := noise(1000)
	_, blob := s.put("a/b", "v", layer)
	s.before = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Range") != "" {
			r.Header.Set("Range", "bytes=7-16")
		}
		return false
	}
	src := open(t, newClient(t, registry.Config{}), s.host+"/a/b:v", image.RegistryAuth{})
	streams, errs, err := src.Ranges(t.Context(), blob).GetBlobAt([]storage.Range{{Offset: 8, Length: 10}})
	if err != nil {
		t.Fatal(err)
	}
	for range streams {
		t.Error("a part was handed out")
	}
	if err := <-errs; err == nil || !strings.Contains(err.Error(), "bytes 7-16/1000") {
		t.Errorf("got %v, want an error that tells what came", err)
	}
}

func TestRangesRefused(t *testing.T) {
	s := newServer(t)
	_, blob := s.put("a/b", "v", noise(100))
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Range") == "" {
			return false
		}
		w.WriteHeader(http.StatusBadRequest)
		return true
	}
	src := open(t, newClient(t, registry.Config{}), s.host+"/a/b:v", image.RegistryAuth{})
	for _, tc := range []struct {
		name  string
		parts []storage.Range
		want  error
	}{
		{"two", []storage.Range{{Length: 1}, {Offset: 3, Length: 1}}, storage.ErrTooManyRanges},
		{"one", []storage.Range{{Length: 1}}, storage.ErrNotChunked},
	} {
		if _, _, err := src.Ranges(t.Context(), blob).GetBlobAt(tc.parts); !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.name, err, tc.want)
		}
	}
	for _, parts := range [][]storage.Range{nil, {{}}, {{Offset: 5, Length: 5}, {Offset: 9, Length: 1}}, {{Offset: 5, Length: math.MaxUint64 - 2}}} {
		if _, _, err := src.Ranges(t.Context(), blob).GetBlobAt(parts); !fault.Is(err, fault.Invalid) {
			t.Errorf("%v: %v, want an Invalid", parts, err)
		}
	}
}
