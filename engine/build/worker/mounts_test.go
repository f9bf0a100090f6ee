package worker

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"

	"moss/engine/build/source"
	"moss/engine/container"
	"moss/engine/fault"
)

func TestMountOf(t *testing.T) {
	variable, byID := "TOKEN", ""
	mode, uid := uint64(0o440), uint64(7)
	perm := uint32(0o440)
	for _, tc := range []struct {
		name    string
		from    instructions.Mount
		want    Mount
		skip    bool
		refused fault.Constructor
	}{
		{
			name: "bind", from: instructions.Mount{Type: instructions.MountTypeBind, Source: "a/b", Target: "t", ReadOnly: true},
			want: Mount{Type: MountBind, Target: "t", ReadOnly: true, Path: "/a/b"},
		},
		{name: "bind without a target", from: instructions.Mount{Type: instructions.MountTypeBind}, refused: fault.Invalid},
		{
			name: "cache", from: instructions.Mount{Type: instructions.MountTypeCache, Target: "/c", Mode: &mode, UID: &uid},
			want: Mount{Type: MountCache, Target: "/c", Path: "/", Sharing: Shared, Mode: &perm, UID: 7},
		},
		{
			name: "cache with an id", from: instructions.Mount{Type: instructions.MountTypeCache, Target: "/c", CacheID: "go", CacheSharing: instructions.MountSharingLocked},
			want: Mount{Type: MountCache, Target: "/c", Path: "/", ID: "go", Sharing: Locked},
		},
		{name: "cache without a target", from: instructions.Mount{Type: instructions.MountTypeCache}, refused: fault.Invalid},
		{
			name: "tmpfs", from: instructions.Mount{Type: instructions.MountTypeTmpfs, Target: "/t", SizeLimit: 9},
			want: Mount{Type: MountTmpfs, Target: "/t", Path: "/", Size: 9},
		},
		{name: "tmpfs without a target", from: instructions.Mount{Type: instructions.MountTypeTmpfs}, refused: fault.Invalid},
		{
			name: "secret by its id", from: instructions.Mount{Type: instructions.MountTypeSecret, CacheID: "key", Required: true},
			want: Mount{Type: MountSecret, Target: "/run/secrets/key", ID: "key", Required: true},
		},
		{
			name: "secret by its source", from: instructions.Mount{Type: instructions.MountTypeSecret, Source: "dir/key"},
			want: Mount{Type: MountSecret, Target: "/run/secrets/key", ID: "dir/key"},
		},
		{
			name: "secret by its target", from: instructions.Mount{Type: instructions.MountTypeSecret, Target: "/root/.key"},
			want: Mount{Type: MountSecret, Target: "/root/.key", ID: ".key"},
		},
		{
			name: "secret as a variable", from: instructions.Mount{Type: instructions.MountTypeSecret, CacheID: "key", Env: &variable},
			want: Mount{Type: MountSecret, ID: "key", Env: "TOKEN"},
		},
		{
			name: "secret as the variable of its id", from: instructions.Mount{Type: instructions.MountTypeSecret, CacheID: "key", Target: "/k", Env: &byID},
			want: Mount{Type: MountSecret, ID: "key", Target: "/k", Env: "key"},
		},
		{name: "agent that need not be", from: instructions.Mount{Type: instructions.MountTypeSSH}, skip: true},
		{name: "agent", from: instructions.Mount{Type: instructions.MountTypeSSH, Required: true}, refused: fault.Unsupported},
		{name: "unknown", from: instructions.Mount{Type: "other"}, refused: fault.Unsupported},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, skip, err := MountOf(&tc.from)
			if tc.refused != nil {
				if !fault.Is(err, tc.refused) {
					t.Errorf("MountOf = %v, want it refused", err)
				}
				return
			}
			must(t, err)
			if got.Mode != nil && tc.want.Mode != nil && *got.Mode == *tc.want.Mode {
				got.Mode = tc.want.Mode
			}
			if skip != tc.skip || !skip && got != tc.want {
				t.Errorf("MountOf = %+v, %v, want %+v, %v", got, skip, tc.want, tc.skip)
			}
		})
	}
}

// bindAt returns the bind that a container was given at a place.
func bindAt(t *testing.T, step container.Step, target string) container.Bind {
	t.Helper()
	i := slices.IndexFunc(step.Binds, func(b container.Bind) bool { return b.Destination == target })
	if i < 0 {
		t.Fatalf("nothing at %s: %+v", target, step.Binds)
	}
	return step.Binds[i]
}

func content(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(name)
	must(t, err)
	return string(raw)
}

func TestSecrets(t *testing.T) {
	w := newWorld(t)
	given := map[string][]byte{"key": []byte("top\nsecret"), "large": make([]byte, maxSecret+1), "zero": {0}}
	look := func(id string) ([]byte, bool) { s, ok := given[id]; return s, ok }
	mode := uint32(0o444)
	w.ctrs.script = func(step container.Step, _, _ io.Writer, _ <-chan struct{}) int {
		file, loose := bindAt(t, step, "/run/secrets/key"), bindAt(t, step, "/work/loose")
		for name, want := range map[string]os.FileMode{file.Source: 0o400, loose.Source: 0o444} {
			info, err := os.Stat(name)
			if err != nil || info.Mode().Perm() != want || content(t, name) != "top\nsecret" || !strings.HasPrefix(name, w.run) {
				t.Errorf("%s: %v, %v, want mode %v", name, info, err, want)
			}
		}
		if !file.ReadOnly || !slices.Equal(step.Env, []string{"TOKEN=top\nsecret"}) || strings.Contains(strings.Join(step.Config.Env, " "), "secret") {
			t.Errorf("read-only %v, variables %q, recorded %q", file.ReadOnly, step.Env, step.Config.Env)
		}
		return 0
	}
	k := w.worker()
	_, err := k.Run(t.Context(), Step{Command: []string{"x"}, WorkDir: "/work", Secrets: look, Mounts: []Mount{
		{Type: MountSecret, ID: "key", Target: "/run/secrets/key", ReadOnly: true},
		{Type: MountSecret, ID: "key", Target: "loose", Mode: &mode},
		{Type: MountSecret, ID: "key", Env: "TOKEN"},
		{Type: MountSecret, ID: "missing", Target: "/run/secrets/missing"},
		{Type: MountSecret, ID: "missing", Env: "MISSING"},
	}})
	must(t, err)
	if left := w.left(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	for name, tc := range map[string]struct {
		mount Mount
		want  string
	}{
		"required": {Mount{Type: MountSecret, ID: "missing", Target: "/s", Required: true}, "secret missing: not found"},
		"large":    {Mount{Type: MountSecret, ID: "large", Target: "/s"}, "secret large has"},
		"zero":     {Mount{Type: MountSecret, ID: "zero", Env: "Z"}, "secret zero cannot be the variable"},
		"variable": {Mount{Type: MountSecret, ID: "key", Env: "A=B"}, "cannot be the variable"},
		"root":     {Mount{Type: MountSecret, ID: "key", Target: "/.."}, "invalid mount target"},
	} {
		_, err := k.Run(t.Context(), Step{Command: []string{"x"}, Secrets: look, Mounts: []Mount{tc.mount}})
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "top") {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	if left := w.left(); len(left) != 0 {
		t.Errorf("left after errors: %v", left)
	}
}

func TestTmpfs(t *testing.T) {
	w := newWorld(t)
	_, err := w.worker().Run(t.Context(), Step{Command: []string{"x"}, WorkDir: "/w", Mounts: []Mount{
		{Type: MountTmpfs, Target: "t", Size: 4096}, {Type: MountTmpfs, Target: "/ro", ReadOnly: true},
	}})
	must(t, err)
	got := w.ctrs.last().Tmpfs
	if len(got) != 2 || got[0].Destination != "/w/t" || !slices.Contains(got[0].Options, "size=4096") ||
		got[1].Destination != "/ro" || !slices.Contains(got[1].Options, "ro") || slices.Contains(got[0].Options, "ro") {
		t.Errorf("tmpfs %+v", got)
	}
}

func TestHeredocs(t *testing.T) {
	w := newWorld(t)
	w.ctrs.script = func(step container.Step, _, _ io.Writer, _ <-chan struct{}) int {
		b := bindAt(t, step, "/dev/pipes")
		info, err := os.Stat(filepath.Join(b.Source, "EOF"))
		if err != nil || info.Mode().Perm() != 0o755 || content(t, filepath.Join(b.Source, "EOF")) != "#!/x\n" || !b.ReadOnly {
			t.Errorf("file %v, %v of %+v", info, err, b)
		}
		return 0
	}
	k := w.worker()
	_, err := k.Run(t.Context(), Step{Command: []string{"x"}, Files: []File{{Name: "EOF", Content: "#!/x\n", Mode: 0o755}}})
	must(t, err)
	for _, name := range []string{"../x", "a/b", "/x", "", ".", "..", "a\x00"} {
		if _, err := k.Run(t.Context(), Step{Command: []string{"x"}, Files: []File{{Name: name}}}); !fault.Is(err, fault.Invalid) {
			t.Errorf("a file %q: %v, want an Invalid fault", name, err)
		}
	}
	if left := w.left(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestBindOfAnImage(t *testing.T) {
	w := newWorld(t)
	must(t, os.MkdirAll(filepath.Join(w.imgs.dir, "usr/lib"), 0o755))
	must(t, os.WriteFile(filepath.Join(w.imgs.dir, "usr/lib/f"), []byte("data"), 0o600))
	must(t, os.Symlink("/usr/lib", filepath.Join(w.imgs.dir, "lib")))
	must(t, os.Symlink("../../../../../../etc", filepath.Join(w.imgs.dir, "out")))
	w.ctrs.script = func(step container.Step, _, _ io.Writer, _ <-chan struct{}) int {
		b, rw := bindAt(t, step, "/ro"), bindAt(t, step, "/rw")
		if b.Source != filepath.Join(w.imgs.dir, "usr/lib") || !b.ReadOnly {
			t.Errorf("read-only bind of %s, want the image's own folder", b.Source)
		}
		if rw.ReadOnly || strings.HasPrefix(rw.Source, w.imgs.dir) || content(t, filepath.Join(rw.Source, "f")) != "data" {
			t.Errorf("writable bind of %s, want a copy", rw.Source)
		}
		return 0
	}
	k := w.worker()
	_, err := k.Run(t.Context(), Step{Command: []string{"x"}, Mounts: []Mount{
		{Type: MountBind, Image: "i", Path: "/lib", Target: "/ro", ReadOnly: true}, {Type: MountBind, Image: "i", Path: "/lib", Target: "/rw"},
	}})
	must(t, err)
	for _, at := range []string{"/none", "/out", "/usr/lib/f/x"} {
		_, err := k.Run(t.Context(), Step{Command: []string{"x"}, Mounts: []Mount{{Type: MountBind, Image: "i", Path: at, Target: "/t", ReadOnly: true}}})
		if !fault.Is(err, fault.NotFound) {
			t.Errorf("bind of %s: %v, want a NotFound fault", at, err)
		}
	}
	if left := w.left(); len(left) != 0 || w.imgs.open != 0 {
		t.Errorf("left: %v, %d views", left, w.imgs.open)
	}
}

func TestBindOfTheContext(t *testing.T) {
	w := newWorld(t)
	files := source.SingleFile("f", []byte("data"), 0o644, time.Unix(1, 0))
	var sources []string
	w.ctrs.script = func(step container.Step, _, _ io.Writer, _ <-chan struct{}) int {
		b := bindAt(t, step, "/t")
		sources = append(sources, b.Source)
		if content(t, filepath.Join(b.Source, "f")) != "data" {
			t.Errorf("content at %s", b.Source)
		}
		return 0
	}
	k := w.worker()
	release := k.Hold(files)
	for _, readOnly := range []bool{true, true, false} {
		_, err := k.Run(t.Context(), Step{Command: []string{"x"}, Mounts: []Mount{
			{Type: MountBind, Files: files, Path: "/", Target: "/t", ReadOnly: readOnly},
		}})
		must(t, err)
	}
	if sources[0] != sources[1] || sources[0] == sources[2] {
		t.Errorf("copies %q, want one that readers share and one that is written to", sources)
	}
	_, err := k.Run(t.Context(), Step{Command: []string{"x"}, Mounts: []Mount{
		{Type: MountBind, Files: files, Path: "/none", Target: "/t", ReadOnly: true},
	}})
	if !fault.Is(err, fault.NotFound) {
		t.Errorf("bind of what is not there: %v, want a NotFound fault", err)
	}
	if left := w.left(); len(left) != 1 {
		t.Errorf("left before the end of the build: %v, want the shared copy", left)
	}
	must(t, release())
	if left := w.left(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestCopyThatNobodyHoldsGoesWithItsLastUser(t *testing.T) {
	w := newWorld(t)
	k := w.worker()
	files := source.SingleFile("f", []byte("data"), 0o644, time.Unix(1, 0))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			at, release, err := k.copyOf(t.Context(), files, "/", true)
			if err != nil {
				t.Error(err)
				return
			}
			if raw, err := os.ReadFile(filepath.Join(at, "f")); string(raw) != "data" || err != nil {
				t.Errorf("copy: %q, %v", raw, err)
			}
			if err := release(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := k.copyOf(ctx, files, "/", true); err == nil {
		t.Error("a copy for a build that was given up")
	}
	if left := w.left(); len(left) != 0 || len(k.copies) != 0 {
		t.Errorf("left: %v, %v", left, k.copies)
	}
}
