package worker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/logdriver"
	"moss/engine/stdio"
)

func TestRunSaysWhatTheCommandSays(t *testing.T) {
	w := newWorld(t)
	w.ctrs.script = func(_ container.Step, out, errs io.Writer, _ <-chan struct{}) int {
		io.WriteString(out, "one\n")  //nolint:errcheck // it is shown below
		io.WriteString(errs, "two\n") //nolint:errcheck // it is shown below
		return 0
	}
	k := w.worker()
	var shown bytes.Buffer
	var started string
	run, err := k.Run(t.Context(), Step{
		Parent: "sha256:base", Command: []string{"/bin/sh", "-c", "x"}, Env: []string{"A=1"}, User: "me", WorkDir: "w", Output: &shown,
		Started: func(id string, warnings []string) { started = id + " " + strings.Join(warnings, ",") },
	})
	must(t, err)
	if shown.String() != "one\n\x1b[91mtwo\n\x1b[0m" {
		t.Errorf("output %q, want both streams, that of errors in red", shown.String())
	}
	if started != run.ContainerID+" a warning" {
		t.Errorf("told of the start: %q", started)
	}
	step := w.ctrs.last()
	c := step.Config
	if step.ImageID != "sha256:base" || c.User != "me" || c.WorkingDir != "/w" || !slices.Equal(c.Env, []string{"A=1"}) ||
		!slices.Equal(c.Cmd, []string{"/bin/sh", "-c", "x"}) || len(c.Entrypoint) != 0 || c.OpenStdin || c.Tty {
		t.Errorf("made with %+v", c)
	}
	if step.Host.LogConfig.Type != logdriver.None {
		t.Errorf("log driver %q, want none", step.Host.LogConfig.Type)
	}
	if !strings.Contains(string(run.Config), `"User":"me"`) {
		t.Errorf("config of the result: %s", run.Config)
	}
	taken := false
	must(t, k.Seal(t.Context(), run, func(context.Context, []string) error { taken = true; return nil }))
	if !taken || len(w.ctrs.records) != 0 {
		t.Errorf("taken %v, containers left %v", taken, w.ctrs.records)
	}
}

func TestRunThatFailsLeavesItsContainer(t *testing.T) {
	refused := fault.NotFound("no such file")
	for _, tc := range []struct {
		name string
		prep func(*fakeContainers)
		code int
		text string
	}{
		{"exits", func(f *fakeContainers) {
			f.script = func(container.Step, io.Writer, io.Writer, <-chan struct{}) int { return 3 }
		}, 3, "The command '/bin/sh -c x' returned a non-zero code: 3"},
		{"is killed for memory", func(f *fakeContainers) {
			f.script, f.oom = func(container.Step, io.Writer, io.Writer, <-chan struct{}) int { return 137 }, true
		}, 137, "The command '/bin/sh -c x' returned a non-zero code: 137: out of memory"},
		{"does not start", func(f *fakeContainers) { f.startErr, f.startCode = refused, 127 }, 127, "run /bin/sh -c x: no such file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			tc.prep(w.ctrs)
			k := w.worker()
			run, err := k.Run(t.Context(), Step{Command: []string{"x"}, Shown: "/bin/sh -c x"})
			var exit *ExitError
			if !errors.As(err, &exit) || exit.Code != tc.code || err.Error() != tc.text {
				t.Fatalf("Run = %v, want %q with %d", err, tc.text, tc.code)
			}
			if _, err := w.ctrs.Get(run.ContainerID); err != nil {
				t.Errorf("its container: %v", err)
			}
			must(t, k.Drop(t.Context(), run))
			must(t, k.Drop(t.Context(), run))
			if len(w.ctrs.records) != 0 {
				t.Errorf("containers left: %v", w.ctrs.records)
			}
		})
	}
}

func TestRunLeavesNothingOfWhatCannotStart(t *testing.T) {
	w := newWorld(t)
	w.ctrs.startErr, w.ctrs.startCode = errors.New("no network"), 128
	k := w.worker()
	run, err := k.Run(t.Context(), Step{Command: []string{"x"}, Shown: "x"})
	var exit *ExitError
	if err == nil || errors.As(err, &exit) || run.ContainerID != "" || len(w.ctrs.records) != 0 {
		t.Errorf("Run = %+v, %v; containers %v", run, err, w.ctrs.records)
	}
}

func TestRunThatIsGivenUpIsKilledAndLeavesNothing(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	w.ctrs.script = func(_ container.Step, _, _ io.Writer, kill <-chan struct{}) int {
		cancel()
		<-kill
		return 137
	}
	k := w.worker()
	run, err := k.Run(ctx, Step{
		Command: []string{"x"}, Shown: "x", Files: []File{{Name: "EOF", Content: "x", Mode: 0o755}},
		Mounts: []Mount{{Type: MountCache, Target: "/c", Sharing: Locked}},
	})
	if !errors.Is(err, context.Canceled) || run.ContainerID != "" || len(w.ctrs.records) != 0 {
		t.Errorf("Run = %+v, %v; containers %v", run, err, w.ctrs.records)
	}
	if left := w.left(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if list, _ := k.Caches(t.Context()); len(list) != 1 || list[0].InUse {
		t.Errorf("caches %+v, want one that nobody uses", list)
	}
	if run, err := k.Run(ctx, Step{Command: []string{"x"}}); !errors.Is(err, context.Canceled) || run.ContainerID != "" || len(w.ctrs.records) != 0 {
		t.Errorf("Run after it = %+v, %v", run, err)
	}
}

func TestNetworksOfRuns(t *testing.T) {
	for _, tc := range []struct {
		name, network, mode, want string
		refused                   fault.Constructor
	}{
		{name: "nothing said"},
		{name: "default", network: "default", mode: "mine", want: "mine"},
		{name: "none", network: "none", mode: "mine", want: "none"},
		{name: "host by the instruction", network: "host", refused: fault.Unsupported},
		{name: "host by the build", mode: "host", refused: fault.Unsupported},
		{name: "none by the instruction, host by the build", network: "none", mode: "host", want: "none"},
		{name: "another container's", mode: "container:usual", want: "container:usual"},
		{name: "another container's that is the host's", mode: "container:joins", refused: fault.Unsupported},
		{name: "a container that is not there", mode: "container:gone", refused: fault.NotFound},
		{name: "containers that go round", mode: "container:round", refused: fault.Invalid},
		{name: "unknown", network: "mine", refused: fault.Invalid},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			for id, mode := range map[string]string{"usual": "bridge", "joins": "container:open", "open": "host", "round": "container:round"} {
				w.ctrs.records[id] = &container.Record{ID: id, Host: container.HostConfig{NetworkMode: mode}}
			}
			_, err := w.worker().Run(t.Context(), Step{
				Command: []string{"x"}, Network: tc.network, Host: container.HostConfig{NetworkMode: tc.mode},
			})
			if tc.refused != nil {
				if !fault.Is(err, tc.refused) || len(w.ctrs.steps) != 0 {
					t.Errorf("Run = %v with %d containers, want it refused", err, len(w.ctrs.steps))
				}
				return
			}
			must(t, err)
			if got := w.ctrs.last().Host.NetworkMode; got != tc.want {
				t.Errorf("network mode %q, want %q", got, tc.want)
			}
		})
	}
}

func TestScreenTakesFramesInPieces(t *testing.T) {
	var stream bytes.Buffer
	for _, s := range []stdio.Stream{stdio.Stdout, stdio.Stderr, stdio.Stdout} {
		if _, err := stdio.NewFrameWriter(&stream, s).Write([]byte("some output\n")); err != nil {
			t.Fatal(err)
		}
	}
	for size := 1; size <= stream.Len(); size++ {
		var got bytes.Buffer
		s := &screen{out: &got}
		for piece := range slices.Chunk(stream.Bytes(), size) {
			if n, err := s.Write(piece); n != len(piece) || err != nil {
				t.Fatalf("Write = %d, %v", n, err)
			}
		}
		if got.String() != "some output\n\x1b[91msome output\n\x1b[0msome output\n" {
			t.Fatalf("in pieces of %d: %q", size, got.String())
		}
	}
}

// deaf takes nothing.
type deaf struct{ asked int }

func (d *deaf) Write([]byte) (int, error) { d.asked++; return 0, os.ErrClosed }

func TestScreenRunsOnWhenNobodyListens(t *testing.T) {
	var d deaf
	out := stdio.NewFrameWriter(&screen{out: &d}, stdio.Stdout)
	for range 3 {
		if _, err := out.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if d.asked != 1 {
		t.Errorf("asked %d times, want once", d.asked)
	}
}

func FuzzScreen(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 1, 'x'})
	f.Add([]byte{9, 0, 0, 0, 0xff, 0, 0, 1, 'x'})
	f.Fuzz(func(t *testing.T, stream []byte) {
		var whole, pieces bytes.Buffer
		_, wantErr := (&screen{out: &whole}).Write(stream)
		s := &screen{out: &pieces}
		var err error
		for _, b := range stream {
			if _, err = s.Write([]byte{b}); err != nil {
				break
			}
		}
		if whole.String() != pieces.String() || (err == nil) != (wantErr == nil) {
			t.Errorf("in one piece %q, %v; byte by byte %q, %v", whole.String(), wantErr, pieces.String(), err)
		}
	})
}

func TestNewRemovesWhatACrashLeft(t *testing.T) {
	w := newWorld(t)
	cache := filepath.Join(w.root, "cache")
	for _, dir := range []string{
		filepath.Join(w.root, "mounts/x"), filepath.Join(w.run, "build/y"), filepath.Join(cache, ".new-z"), filepath.Join(cache, ".old-z"),
		filepath.Join(cache, strings.Repeat("a", 64)),
	} {
		must(t, os.MkdirAll(dir, 0o700))
	}
	k := w.worker()
	entries, err := os.ReadDir(cache)
	must(t, err)
	if left := w.left(); len(left) != 0 || len(entries) != 0 {
		t.Errorf("left: %v, %v", left, entries)
	}
	if list, err := k.Caches(t.Context()); len(list) != 0 || err != nil {
		t.Errorf("Caches = %v, %v", list, err)
	}
}
