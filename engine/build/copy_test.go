package build

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"moss/engine/build/worker"
	"moss/engine/fault"
)

func TestAdd(t *testing.T) {
	var asked atomic.Int32
	content := atomic.Pointer[string]{}
	text := "one"
	content.Store(&text)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.URL.Path == "/none" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(*content.Load()))
	}))
	defer server.Close()
	r := newRig(t)
	tarball := string(archiveOf(map[string]string{"inside": "1"}))
	got := r.must(request("FROM base\nADD a.tar "+server.URL+"/file /x/\n", map[string]string{"a.tar": tarball}))
	for _, want := range []string{"x/inside", "x/file"} {
		if !slices.Contains(r.images.layers[got.id], want) {
			t.Errorf("the layer holds %q, want %s", r.images.layers[got.id], want)
		}
	}
	for i, tc := range []struct {
		content string
		cached  bool
	}{{"one", true}, {"two", false}, {"two", true}} {
		content.Store(&tc.content)
		got := r.must(request("FROM base\nADD a.tar "+server.URL+"/file /x/\n", map[string]string{"a.tar": tarball}))
		if cached := strings.Contains(got.text, "Using cache"); cached != tc.cached {
			t.Errorf("build %d: from the cache %t, want %t", i, cached, tc.cached)
		}
	}

	sum := sha256.Sum256([]byte("two"))
	checked := "FROM base\nADD --checksum=sha256:" + hex.EncodeToString(sum[:]) + " " + server.URL + "/file /x\n"
	r.must(request(checked, nil))
	before := asked.Load()
	if got := r.must(request(checked, nil)); !strings.Contains(got.text, "Using cache") || asked.Load() != before {
		t.Errorf("what has a checksum was fetched again: %d times", asked.Load()-before)
	}
	for _, tc := range []struct{ line, want string }{
		{"ADD --checksum=sha256:" + strings.Repeat("0", 64) + " " + server.URL + "/file /y", "ADD failed"},
		{"ADD --checksum=md5:1 " + server.URL + "/file /y", "checksum"},
		{"ADD --checksum=sha256:" + strings.Repeat("0", 64) + " f /y", "--checksum is for"},
		{"ADD " + server.URL + "/none /y", "404"},
		{"ADD " + server.URL + "/ /y/", "cannot determine filename"},
	} {
		if got := r.build(t.Context(), request("FROM base\n"+tc.line+"\n", map[string]string{"f": "1"})); got.err == nil || !strings.Contains(got.err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.line, got.err, tc.want)
		}
	}
	r.idle()
}

func TestDocumentsInTheDockerfile(t *testing.T) {
	r := newRig(t)
	dockerfile := "FROM base\nENV V=1\nCOPY <<A <<B /x/\n$V\nA\nB\nRUN <<EOF\necho $V\nEOF\n"
	r.must(request(dockerfile, nil))
	got := r.must(request(dockerfile, nil))
	if n := strings.Count(got.text, "Using cache"); n != 3 {
		t.Errorf("%d steps of the cache, want 3:\n%s", n, got.text)
	}
	got = r.must(request(strings.Replace(dockerfile, "$V\nA", "$V.\nA", 1), nil))
	if n := strings.Count(got.text, "Using cache"); n != 1 {
		t.Errorf("another document: %d steps of the cache, want 1:\n%s", n, got.text)
	}
	if past := r.images.past[got.id]; !strings.Contains(past[2].CreatedBy, "COPY multi:") {
		t.Errorf("history %+v", past)
	}
}

func TestMountsArePartOfTheKey(t *testing.T) {
	const dockerfile = "FROM base AS a\nRUN first\nFROM base\n" +
		"RUN --mount=type=bind,source=in,target=/in --mount=type=cache,target=/c --mount=type=cache,from=a,target=/d " +
		"--mount=type=bind,from=a,target=/a --mount=type=tmpfs,target=/t second\n"
	r := newRig(t)
	files := map[string]string{"in/f": "1", "other": "1"}
	r.must(request(dockerfile, files))
	mounts := r.runner.ran[1].Mounts
	if len(mounts) != 5 || mounts[0].Files == nil || mounts[2].Image == "" || mounts[3].Image != mounts[2].Image || mounts[4].Type != worker.MountTmpfs {
		t.Errorf("mounts %+v", mounts)
	}
	for _, tc := range []struct {
		dockerfile string
		files      map[string]string
		want       int
	}{
		{dockerfile, map[string]string{"in/f": "1", "other": "2"}, 2},
		{dockerfile, map[string]string{"in/f": "2", "other": "1"}, 3},
		{strings.Replace(dockerfile, "first", "another", 1), files, 5},
	} {
		if r.must(request(tc.dockerfile, tc.files)); r.runner.count != tc.want {
			t.Errorf("%d commands in all after %v, want %d", r.runner.count, tc.files, tc.want)
		}
	}
	got := r.build(t.Context(), request("FROM base\nRUN --mount=type=bind,source=none,target=/x y\n", nil))
	if !fault.Is(got.err, fault.NotFound) && !fault.Is(got.err, fault.Invalid) {
		t.Errorf("a mount of nothing: %v", got.err)
	}
	r.idle()
}

func TestRunOnScratch(t *testing.T) {
	r := newRig(t)
	got := r.must(request("FROM scratch\nRUN --mount=type=bind,from=base,target=/m [\"/m/x\"]\n", nil))
	if parent := r.runner.ran[0].Parent; parent == "" || r.images.byID[parent] == nil || len(r.images.byID[parent].Layers) != 0 {
		t.Errorf("it ran on %q, want an image without layers", parent)
	}
	if img := r.images.byID[got.id]; len(img.Layers) != 1 {
		t.Errorf("image %+v, want one layer", img)
	}
	r.idle()
}

func TestRemoteDockerfile(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write([]byte("FROM base\nCOPY Dockerfile /of/\nRUN remote\n"))
	}))
	defer server.Close()
	r := newRig(t)
	r.must(Request{Remote: server.URL + "/Dockerfile", Remove: true}) // the file itself is its context
	if got := r.runner.commands(); !slices.Equal(got, []string{"remote"}) {
		t.Errorf("ran %q", got)
	}
	if got := r.build(t.Context(), Request{Remote: "ftp://host/x"}); !fault.Is(got.err, fault.Invalid) {
		t.Errorf("ftp: %v, want an invalid fault", got.err)
	}
	r.idle()
}

func TestNamed(t *testing.T) {
	for _, tc := range []struct {
		asked []string
		want  bool
	}{{nil, true}, {[]string{"abc"}, true}, {[]string{"sha256:ab"}, true}, {[]string{"x", "abcd"}, true}, {[]string{"b"}, false}, {[]string{""}, false}} {
		if got := matchesID("sha256:abcdef", tc.asked); got != tc.want {
			t.Errorf("named(sha256:abcdef, %q) = %t", tc.asked, got)
		}
	}
}
