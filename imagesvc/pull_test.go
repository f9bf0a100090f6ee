package imagesvc

import (
	"archive/tar"
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"go.podman.io/storage/pkg/chunked/compressor"

	"moss/engine/event"
	"moss/engine/fault"
	"moss/engine/id"
	"moss/engine/image"
	"moss/storage"
)

// lines collects progress in the words of clients.
type lines []string

func (l *lines) add(p image.Progress) {
	text := p.Status
	if p.ID != "" {
		text = p.ID + ": " + text
	}
	*l = append(*l, text)
}

// once returns the lines without repetitions.
func (l lines) once() string {
	var kept []string
	for _, line := range l {
		if !slices.Contains(kept, line) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

// fileOf returns a file of an image.
func fileOf(t *testing.T, st *storage.Store, imageID, name string) []byte {
	t.Helper()
	container := strings.Repeat("a", 64)
	if err := st.Create(t.Context(), container, imageID); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := st.Remove(t.Context(), container); err != nil {
			t.Error(err)
		}
	}()
	dir, err := st.Mount(t.Context(), container)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Error(err)
	}
	return raw
}

func TestPull(t *testing.T) {
	reg := newStock(t)
	s, st, _ := puller(t, nil)
	var heard []event.Event
	s.events = listener(func(ev event.Event) { heard = append(heard, ev) })
	g := reg.pack(oneFile(t, "one", 300_000), oneFile(t, "two", 1000))
	manifest, config := reg.put(g, "v1")
	first, second := blobID(g, 0), blobID(g, 1)

	var shown lines
	if err := s.Pull(t.Context(), image.PullOptions{Repo: reg.repo(), Tag: "v1"}, shown.add); err != nil {
		t.Fatalf("Pull: %v", err)
	}
	want := []string{
		"v1: Pulling from " + stockRepo, first + ": Pulling fs layer", second + ": Pulling fs layer",
		first + ": Downloading", first + ": Verifying Checksum", first + ": Download complete", first + ": Extracting",
		first + ": Pull complete", second + ": Pull complete",
		"Digest: " + manifest.String(), "Status: Downloaded newer image for " + reg.repo() + ":v1",
	}
	at := 0
	for _, line := range shown {
		if at < len(want) && line == want[at] {
			at++
		}
	}
	if at < len(want) {
		t.Errorf("progress lacks %q in its place:\n%s", want[at], strings.Join(shown, "\n"))
	}
	img, err := s.Get(t.Context(), reg.repo()+":v1")
	if err != nil {
		t.Fatal(err)
	}
	if img.ID != config.String() || !slices.Equal(img.RepoTags, []string{reg.repo() + ":v1"}) ||
		!slices.Equal(img.RepoDigests, []string{reg.repo() + "@" + manifest.String()}) {
		t.Errorf("the image is %s with the names %v and %v", img.ID, img.RepoTags, img.RepoDigests)
	}
	if got := fileOf(t, st, img.ID, "one"); !bytes.HasPrefix(got, []byte("one")) || len(got) != 300_000 {
		t.Errorf("the file has %d bytes and begins with %.5q", len(got), got)
	}
	ev := heard[len(heard)-1]
	if len(heard) != 1 || ev.Action != "pull" || ev.ID != reg.repo()+":v1" || ev.Attributes["name"] != reg.repo() || ev.Attributes["maker"] != "test" {
		t.Errorf("events = %+v, want one pull of the name", heard)
	}

	before := reg.count("*")
	shown = nil
	if err := s.Pull(t.Context(), image.PullOptions{Repo: reg.repo() + ":v1"}, shown.add); err != nil {
		t.Fatalf("the second Pull: %v", err)
	}
	if got, want := shown.once(), "v1: Pulling from "+stockRepo+"\nDigest: "+manifest.String()+"\nStatus: Image is up to date for "+reg.repo()+":v1"; got != want {
		t.Errorf("progress of the second pull:\n%s\nwant\n%s", got, want)
	}
	if n := reg.count("*") - before; n > 1 {
		t.Errorf("the second pull asked %d times, want once for the manifest", n)
	}

	// By digest: another name for the same image, without any blob.
	blobs := reg.count("blobs/*")
	shown = nil
	if err := s.Pull(t.Context(), image.PullOptions{Repo: reg.repo(), Tag: manifest.String()}, shown.add); err != nil {
		t.Fatalf("Pull by digest: %v", err)
	}
	if !strings.Contains(shown.once(), "up to date for "+reg.repo()+"@"+manifest.String()) || reg.count("blobs/*") != blobs {
		t.Errorf("pull by digest: %d blobs asked for, progress:\n%s", reg.count("blobs/*")-blobs, shown.once())
	}
}

// blobID is how progress names a layer.
func blobID(g *goods, at int) string {
	return id.Short(g.layers[at]["digest"].(digest.Digest).Encoded())
}

// listener makes a function an events.
type listener func(event.Event)

func (l listener) Publish(ev event.Event) { l(ev) }

func TestPullSharesLayers(t *testing.T) {
	reg := newStock(t)
	s, st, _ := puller(t, nil)
	base, top, other := oneFile(t, "base", 5000), oneFile(t, "top", 5000), oneFile(t, "other", 100)
	first := reg.pack(base, top)
	reg.put(first, "one")
	if err := s.Pull(t.Context(), image.PullOptions{Repo: reg.repo(), Tag: "one"}, nil); err != nil {
		t.Fatal(err)
	}
	g := reg.pack(base, other, top)
	reg.put(g, "two")
	var shown lines
	if err := s.Pull(t.Context(), image.PullOptions{Repo: reg.repo(), Tag: "two"}, shown.add); err != nil {
		t.Fatal(err)
	}
	text := shown.once()
	for _, want := range []string{blobID(g, 0) + ": Already exists", blobID(g, 1) + ": Pull complete", blobID(g, 2) + ": Pull complete"} {
		if !strings.Contains(text, want) {
			t.Errorf("progress lacks %q:\n%s", want, text)
		}
	}
	for at, want := range []int{1, 1, 1} { // the top layer is copied from where it is
		if n := reg.count("blobs/" + g.layers[at]["digest"].(digest.Digest).String()); n != want {
			t.Errorf("layer %d was fetched %d times, want %d", at, n, want)
		}
	}
	img, err := s.Get(t.Context(), reg.repo()+":two")
	if err != nil {
		t.Fatal(err)
	}
	if got := fileOf(t, st, img.ID, "top"); len(got) != 5000 {
		t.Errorf("the file of the layer over another parent has %d bytes", len(got))
	}
}

// chunkedLayer is a layer of twenty files, in parts that can be fetched alone. Those with the same seed are the same.
func chunkedLayer(t *testing.T, seeds ...string) (plain, raw []byte, notes map[string]string) {
	t.Helper()
	var tarball, blob bytes.Buffer
	w := tar.NewWriter(&tarball)
	for i := range 20 {
		body := oneFile(t, seeds[i%len(seeds)]+strings.Repeat("x", i), 60_000)
		if err := w.WriteHeader(&tar.Header{Name: fmt.Sprintf("f%02d", i), Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(body))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	notes = map[string]string{}
	z, err := compressor.ZstdCompressor(&blob, notes, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = z.Write(tarball.Bytes()); err == nil {
		err = z.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return tarball.Bytes(), blob.Bytes(), notes
}

// TestPullChunked: of the second image's layer only the files come that are not here; a table of contents that lies is left
// alone.
func TestPullChunked(t *testing.T) {
	reg := newStock(t)
	s, st, _ := puller(t, nil)
	var full, sent atomic.Int64
	reg.spoil = func(w http.ResponseWriter, r *http.Request, what string) bool {
		blob, ok := reg.blobs[strings.TrimPrefix(what, "blobs/")]
		if !ok || r.Method != http.MethodGet || len(blob) < 100_000 {
			return false
		}
		if r.Header.Get("Range") == "" {
			full.Add(1)
		}
		count := &counting{ResponseWriter: w, n: &sent}
		http.ServeContent(count, r, "", time.Time{}, bytes.NewReader(blob))
		return true
	}
	put := func(tag string, plain, raw []byte, notes map[string]string) {
		g := reg.pack(plain)
		g.kind, g.manifest["mediaType"] = typeOCIManifest, typeOCIManifest
		g.layers[0] = map[string]any{"mediaType": typeOCILayer + "+zstd", "size": len(raw), "digest": reg.blob(raw), "annotations": notes}
		reg.put(g, tag)
	}
	plain, raw, notes := chunkedLayer(t, "one")
	put("one", plain, raw, notes)
	plain, raw, notes = chunkedLayer(t, "one", "two", "one", "one")
	put("two", plain, raw, notes)
	for _, tc := range []struct {
		tag     string
		atMost  int64 // parts of the whole, in percent
		inWhole int64
	}{{"one", 110, 0}, {"two", 40, 0}} {
		full.Store(0)
		sent.Store(0)
		if err := s.Pull(t.Context(), image.PullOptions{Repo: reg.repo(), Tag: tc.tag}, nil); err != nil {
			t.Fatal(err)
		}
		if n := sent.Load() * 100 / int64(len(raw)); n > tc.atMost || full.Load() != tc.inWhole {
			t.Errorf("%s: %d percent of the layer came, and %d times the whole; want at most %d and %d", tc.tag, n, full.Load(), tc.atMost, tc.inWhole)
		}
	}
	img, err := s.Get(t.Context(), reg.repo()+":two")
	if err != nil {
		t.Fatal(err)
	}
	if got := fileOf(t, st, img.ID, "f01"); !bytes.Contains(got, []byte("twox")) {
		t.Errorf("a file of the second image begins with %.600q", got)
	}
	_, _, lies := chunkedLayer(t, "three")
	plain, raw, _ = chunkedLayer(t, "four")
	put("liar", plain, raw, lies)
	if err := s.Pull(t.Context(), image.PullOptions{Repo: reg.repo(), Tag: "liar"}, nil); err != nil || full.Load() != 1 {
		t.Errorf("Pull with another layer's table of contents = %v, and the whole came %d times, want once", err, full.Load())
	}
}

// counting counts the bytes of a body.
type counting struct {
	http.ResponseWriter

	n *atomic.Int64
}

func (c *counting) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return c.ResponseWriter.Write(p)
}

func TestPullRepeatedLayer(t *testing.T) {
	reg := newStock(t)
	s, _, _ := puller(t, nil)
	empty := archive(t)
	g := reg.pack(empty, oneFile(t, "a", 100), empty, empty)
	reg.put(g, "v1")
	if err := s.Pull(t.Context(), image.PullOptions{Repo: reg.repo(), Tag: "v1"}, nil); err != nil {
		t.Fatal(err)
	}
	img, err := s.Get(t.Context(), reg.repo()+":v1")
	if err != nil || len(img.Layers) != 4 {
		t.Errorf("Get = %+v, %v, want four layers", img, err)
	}
}

func TestPullAllTags(t *testing.T) {
	reg := newStock(t)
	s, _, events := puller(t, nil)
	base := oneFile(t, "base", 1000)
	for _, tag := range []string{"a", "b"} {
		reg.put(reg.pack(base, oneFile(t, tag, 10)), tag)
	}
	var shown lines
	if err := s.Pull(t.Context(), image.PullOptions{Repo: reg.repo()}, shown.add); err != nil {
		t.Fatal(err)
	}
	text := shown.once()
	for _, want := range []string{"a: Pulling from " + stockRepo, "b: Pulling from " + stockRepo, "Already exists", "Status: Downloaded newer image for " + reg.repo()} {
		if !strings.Contains(text, want) {
			t.Errorf("progress lacks %q:\n%s", want, text)
		}
	}
	if strings.Count(text, "Status: ") != 1 || events.take() != "pull,pull" {
		t.Errorf("want one status and two events; progress:\n%s", text)
	}
	for _, tag := range []string{"a", "b"} {
		if _, err := s.Get(t.Context(), reg.repo()+":"+tag); err != nil {
			t.Error(err)
		}
	}
	// A tag in the name is meant.
	reg.put(reg.pack(base), "c")
	if err := s.Pull(t.Context(), image.PullOptions{Repo: reg.repo() + ":c"}, nil); err != nil {
		t.Fatal(err)
	}
	if events.take() != "pull" {
		t.Error("a name with a tag pulled more than that tag")
	}
}

func TestPullMoved(t *testing.T) {
	reg := newStock(t)
	s, _, _ := puller(t, nil)
	reg.put(reg.pack(oneFile(t, "old", 10)), "v")
	if err := s.Pull(t.Context(), image.PullOptions{Repo: reg.repo(), Tag: "v"}, nil); err != nil {
		t.Fatal(err)
	}
	_, config := reg.put(reg.pack(oneFile(t, "new", 10)), "v")
	var shown lines
	if err := s.Pull(t.Context(), image.PullOptions{Repo: reg.repo(), Tag: "v"}, shown.add); err != nil {
		t.Fatal(err)
	}
	img, err := s.Get(t.Context(), reg.repo()+":v")
	if err != nil || img.ID != config.String() || !strings.Contains(shown.once(), "Downloaded newer image") {
		t.Errorf("the tag means %v, %v; progress:\n%s", img, err, shown.once())
	}
	list, err := s.List(t.Context(), image.ListOptions{})
	if err != nil || len(list) != 2 {
		t.Errorf("List = %d images, %v, want the old one without its tag too", len(list), err)
	}
}

func TestPullRefuses(t *testing.T) {
	s, _, _ := puller(t, nil)
	for _, tc := range []struct {
		opts image.PullOptions
		want string
	}{
		{image.PullOptions{Repo: "Bad"}, "invalid reference format"},
		{image.PullOptions{Repo: "a", Tag: "b c"}, "invalid tag format"},
		{image.PullOptions{Repo: "sha256:abc"}, "refusing to create an ambiguous tag"},
		{image.PullOptions{Repo: "a", Platform: "linux//"}, `"linux//" is no platform`},
		{image.PullOptions{Repo: "a", Platform: "windows/amd64"}, `image operating system "windows" cannot be used`},
	} {
		called := false
		err := s.Pull(t.Context(), tc.opts, func(image.Progress) { called = true })
		if !fault.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), tc.want) || called {
			t.Errorf("Pull(%+v) = %v, want an invalid fault %q before any message", tc.opts, err, tc.want)
		}
	}
}
