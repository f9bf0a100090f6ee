package build

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"moss/engine/build/worker"
	"moss/engine/fault"
	"moss/engine/image"
)

// differ builds two requests, the second on the cache of the first, and checks that they share no result.
func (r *rig) differ(first, second Request) {
	r.t.Helper()
	a, b := r.must(first), r.must(second)
	if a.id == b.id {
		r.t.Errorf("two builds that differ made one image:\n%s", b.text)
	}
	r.idle()
}

func TestWordsOfACommandAreNotMistaken(t *testing.T) {
	for name, pair := range map[string][2]string{
		"words":         {`RUN ["touch", "a b"]`, `RUN ["touch", "a", "b"]`},
		"shell":         {`RUN touch a`, `RUN ["/bin/sh", "-c", "touch", "a"]`},
		"empty word":    {`RUN ["touch", "a", ""]`, `RUN ["touch", "a "]`},
		"argument":      {"ARG A=\"1 /bin/sh -c x\"\nRUN y", "ARG A=1\nRUN x /bin/sh -c y"},
		"two arguments": {"ARG A=\"1 B=2\"\nARG B=3\nRUN y", "ARG A=1\nARG B=\"2 B=3\"\nRUN y"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.differ(request("FROM base\n"+pair[0]+"\n", nil), request("FROM base\n"+pair[1]+"\n", nil))
			if r.runner.count != 2 {
				t.Errorf("%d commands ran, want 2", r.runner.count)
			}
		})
	}
}

func TestWhatAHistoryDoesNotTellIsNotTakenFromIt(t *testing.T) {
	for _, tc := range []struct{ name, before, after, file string }{
		{"a mount's content", "RUN --mount=type=bind,target=/src one\nENV A=1", "", "2"},
		{"the last step too", "RUN --mount=type=bind,target=/src one", "", "2"},
		{"a mount of an image", "RUN --mount=type=bind,from=base,target=/src one", "", "1"},
		{"words", `RUN ["touch", "a b"]`, `RUN ["touch", "a", "b"]`, "1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			first := r.must(request("FROM base\n"+tc.before+"\n", map[string]string{"f": "1"}))
			r.alien(r.images.byID[first.id], "app:latest")
			if tc.after == "" {
				tc.after = tc.before
			}
			req := request("FROM base\n"+tc.after+"\n", map[string]string{"f": tc.file})
			req.CacheFrom = []string{"app"}
			if got := r.must(req); r.runner.count != 1 {
				t.Errorf("%d commands ran, want 1:\n%s", r.runner.count, got.text)
			}
			r.idle()
		})
	}
}

func TestTheLastStepOfAHistoryHasTheConfigThatIsWanted(t *testing.T) {
	r := newRig(t)
	first := r.must(request("FROM base\nVOLUME [\"/a /b\"]\n", nil))
	r.alien(r.images.byID[first.id], "app:latest")
	req := request("FROM base\nVOLUME /a /b\n", nil)
	req.CacheFrom = []string{"app"}
	got := r.must(req)
	if v := r.images.byID[got.id].Config.Volumes; len(v) != 2 {
		t.Errorf("volumes %v, want /a and /b:\n%s", v, got.text)
	}
	r.idle()
}

func TestTheOwnersOfAMountArePartOfTheKey(t *testing.T) {
	owned := func(uid int) Request {
		var buf bytes.Buffer
		w := tar.NewWriter(&buf)
		text := "FROM base\nRUN --mount=type=bind,source=dir,target=/src one\n"
		for _, h := range []*tar.Header{
			{Name: "Dockerfile", Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg},
			{Name: "dir/f", Mode: 0o600, Typeflag: tar.TypeReg, Uid: uid},
		} {
			_ = w.WriteHeader(h)
			_, _ = w.Write([]byte(text)[:h.Size])
		}
		_ = w.Close()
		return Request{Context: &buf, Remove: true}
	}
	newRig(t).differ(owned(0), owned(1))
}

// filled shows the same files in every image.
type filled struct {
	*fakeImages
	dir string
}

func (f *filled) Open(context.Context, string) (*image.View, error) {
	root, err := os.Open(f.dir)
	if err != nil {
		return nil, err
	}
	return &image.View{Dir: f.dir, Root: root, Release: root.Close}, nil
}

func TestPatternsThatAreLeftOutAreNotMistaken(t *testing.T) {
	r := newRig(t)
	files := &filled{fakeImages: r.images, dir: t.TempDir()}
	for _, name := range []string{"a", "b", "a b"} {
		if err := os.WriteFile(filepath.Join(files.dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.service.opt.Images = files
	first := request("FROM scratch\nCOPY --from=base --exclude=\"a b\" . /d/\n", nil)
	second := request("FROM scratch\nCOPY --from=base --exclude=a --exclude=b . /d/\n", nil)
	a, b := r.must(first), r.must(second)
	if one, two := r.images.layers[a.id], r.images.layers[b.id]; a.id == b.id || len(one) == len(two) {
		t.Errorf("layers %q and %q, want another each", one, two)
	}
}

func TestAnImageThatIsGoneIsKnownByNoKey(t *testing.T) {
	c := &cache{byKey: map[string]string{}, steps: map[string]image.Built{}, used: map[string]use{}}
	for _, key := range []string{"one", "two"} { // two ways that come to the same
		c.addStep(image.Built{ID: "x", Key: key, Created: time.Unix(1, 0)})
	}
	c.forgetImage("x")
	if one, two := c.findStep("one"), c.findStep("two"); one != "" || two != "" {
		t.Errorf("an image that is gone is found: %q, %q", one, two)
	}
}

func TestAContainerThatCannotBeSealedOrKeptGoes(t *testing.T) {
	for _, tc := range []struct {
		name   string
		remove bool
		run    bool // the command works
	}{{"seal", true, true}, {"copy", false, true}, {"failed command", true, false}} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			r.runner.refuse = errors.New("not now")
			if !tc.run {
				r.runner.run = failing(1)
			}
			req := request("FROM base\nRUN one\n", nil)
			req.Remove = tc.remove
			if got := r.build(t.Context(), req); got.err == nil || !strings.Contains(got.err.Error(), "not now") && tc.run {
				t.Errorf("build: %v", got.err)
			}
			if len(r.runner.left) != 0 {
				t.Errorf("containers %v are left", r.runner.left)
			}
			r.idle()
		})
	}
}

// registry gives every platform its own image under one name, which is that of whoever was served last.
type registry struct {
	*fakeImages
	mu     sync.Mutex // guards served
	served int
	all    chan struct{} // closed when two have been served
}

func (f *registry) Pull(ctx context.Context, opts image.PullOptions, _ func(image.Progress)) error {
	arch := strings.Split(opts.Platform, "/")[1]
	img := &image.Image{ID: hashed(arch), OS: "linux", Architecture: arch, Layers: []string{arch}}
	f.fakeImages.mu.Lock()
	f.byID[img.ID], f.names["two:latest"] = img, img.ID
	f.fakeImages.mu.Unlock()
	f.mu.Lock()
	if f.served++; f.served == 2 {
		close(f.all)
	}
	f.mu.Unlock()
	// A pull beside this one is served before this one's caller looks at the name. There is none where pulls take turns,
	// which shows in nothing but time: the second waits at a mutex, so that a bubble's clock would stand still.
	select {
	case <-f.all:
	case <-time.After(100 * time.Millisecond):
	case <-ctx.Done():
	}
	return nil
}

func TestOneNameForTwoPlatforms(t *testing.T) {
	r := newRig(t)
	r.service.opt.Images = &registry{fakeImages: r.images, all: make(chan struct{})}
	got := r.must(request("FROM --platform=linux/amd64 two AS a\nENV A=1\nFROM --platform=linux/arm64 two\nENV B=1\nCOPY --from=a / /\n", nil))
	if arch := r.images.byID[got.id].Architecture; arch != "arm64" {
		t.Errorf("built for %s, want arm64", arch)
	}
	r.idle()
}

func TestAStageThatTwoTriggersNeedIsCarriedOutOnce(t *testing.T) {
	r := newRig(t)
	r.images.put("trigger:latest", image.Config{OnBuild: []string{"COPY --from=helper / /x/"}})
	text := "FROM base AS helper\nENV A=\\$B B=2\nENV C=$A\nRUN help\n" +
		"FROM trigger AS a\nRUN a\nFROM trigger AS b\nRUN b\nFROM trigger AS c\nRUN c\nFROM trigger AS d\nRUN d\n" +
		"FROM base\nCOPY --from=a / /\nCOPY --from=b / /\nCOPY --from=c / /\nCOPY --from=d / /\n"
	got := r.must(request(text, nil))
	if n := strings.Count(got.text, "RUN help"); n != 1 || r.runner.count != 5 {
		t.Errorf("helper ran %d times, %d commands in all; want 1 and 5:\n%s", n, r.runner.count, got.text)
	}
	for _, step := range r.runner.ran {
		if step.Command[2] == "help" && !strings.Contains(strings.Join(step.Env, " "), "C=$B") {
			t.Errorf("the environment of helper is %q", step.Env)
		}
	}
	r.idle()
}

func TestProxiesKeepBuildsApart(t *testing.T) {
	limits := func(name, value string) string {
		l, err := limitsOf(Request{Args: map[string]*string{name: &value}})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	if limits("http_proxy", "a") == limits("http_proxy", "b") {
		t.Error("a step that fails by one build's proxy fails for another build")
	}
	if limits("OTHER", "a") != limits("OTHER", "b") {
		t.Error("other arguments keep builds apart, which share steps that do not use them")
	}
}

func TestAnImageOfNothingIsKept(t *testing.T) {
	r := newRig(t)
	r.runner.run = func(_ context.Context, step worker.Step) error {
		if _, err := r.images.DropStep(context.Background(), step.Parent); !fault.Is(err, fault.Conflict) {
			t.Errorf("what a command runs in can be removed: %v", err)
		}
		return nil
	}
	r.must(request("FROM scratch\nRUN one\n", nil))
	r.idle()
}

func TestTheEndOfTheEngineWaitsForNoClient(t *testing.T) {
	t.Run("half a context", func(t *testing.T) {
		r := newRig(t)
		src, half := io.Pipe()
		ended := make(chan error, 1)
		go func() {
			_, err := r.service.Build(context.Background(), Request{Context: src}, func(image.Progress) {})
			ended <- err
		}()
		_, _ = half.Write([]byte("half")) // it is being read
		r.service.Stop()
		_ = half.Close() // the client is cut off
		if err := <-ended; err == nil {
			t.Error("the build came to an end")
		}
	})
	t.Run("nobody reads", func(t *testing.T) {
		r := newRig(t)
		told, read := make(chan struct{}), make(chan struct{})
		r.runner.run = func(ctx context.Context, _ worker.Step) error {
			<-told
			<-ctx.Done()
			return context.Cause(ctx)
		}
		ended := make(chan error, 1)
		go func() {
			once := sync.OnceFunc(func() { close(told) })
			_, err := r.service.Build(context.Background(), request("FROM base\nRUN one\n", nil), func(image.Progress) {
				once()
				<-read
			})
			ended <- err
		}()
		<-told
		r.service.Stop()
		if len(r.service.flights.byKey) > 0 {
			t.Error("a step goes on")
		}
		close(read) // the client is cut off
		if err := <-ended; !errors.Is(err, errClosing) {
			t.Errorf("build: %v, want that the engine ends", err)
		}
	})
}
