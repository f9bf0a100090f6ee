package rootless

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestRunDirRefusesUnsafeFolders(t *testing.T) {
	open := t.TempDir()
	if err := os.Chmod(open, 0o755); err != nil { //nolint:gosec // that is what is refused
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, dir, want string }{
		{"open to others", open, "has mode 0755"},
		{"a link", link, "is not a folder"},
		{"a file", file, "is not a folder"},
		{"relative", "moss", "must be an absolute path"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, _, err := RunDir(tc.dir, os.Getenv); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("RunDir(%q) error = %v, want one that says %q", tc.dir, err, tc.want)
			}
		})
	}
}

func TestRunDirChain(t *testing.T) {
	private, open := t.TempDir(), t.TempDir()
	if err := os.Chmod(private, 0o700); err != nil { //nolint:gosec // a folder
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o755); err != nil { //nolint:gosec // that is what is passed over
		t.Fatal(err)
	}
	env := func(pairs ...string) func(string) string {
		return func(key string) string {
			if i := slices.Index(pairs, key); i >= 0 {
				return pairs[i+1]
			}
			return ""
		}
	}
	dir, why, err := RunDir("", env("XDG_RUNTIME_DIR", private))
	if err != nil || dir != filepath.Join(private, "moss") || why != "" {
		t.Errorf("RunDir with a good XDG_RUNTIME_DIR = %q, %q, %v", dir, why, err)
	}
	uid := strconv.Itoa(os.Geteuid())
	fallback := func(temp string) string {
		if base := filepath.Join("/run/user", uid); ownedPrivate(base) == nil {
			return filepath.Join(base, "moss")
		}
		return filepath.Join(temp, "moss-"+uid)
	}
	for _, tc := range []struct{ name, runtime, why string }{
		{"open to others", open, "has mode 0755"},
		{"not set", "", "is not set"},
		{"relative", "run", "is not an absolute path"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir, why, err := RunDir("", env("XDG_RUNTIME_DIR", tc.runtime, "TMPDIR", private))
			if want := fallback(private); err != nil || dir != want || !strings.Contains(why, tc.why) {
				t.Errorf("RunDir = %q, %q, %v, want %q because it %s", dir, why, err, want, tc.why)
			}
		})
	}
}

func TestKeptApart(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct {
		mode os.FileMode
		want string
	}{
		{0o700, ""},
		{0o777 | os.ModeSticky, ""},
		{0o777, "others can rename"},
	} {
		if err := os.Chmod(dir, tc.mode); err != nil { //nolint:gosec // some of them are refused
			t.Fatal(err)
		}
		err := keptApart(dir)
		if (tc.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("keptApart with mode %v = %v, want %q", tc.mode, err, tc.want)
		}
	}
	if os.Geteuid() != 0 {
		if err := keptApart("/tmp"); err != nil {
			t.Errorf("keptApart(/tmp) = %v, want none", err)
		}
	}
}

func TestLockDirRefusesASecondEngine(t *testing.T) {
	dir := t.TempDir()
	first, err := lockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = lockDir(dir)
	if err == nil || !strings.Contains(err.Error(), "in use by another engine (pid ") {
		t.Errorf("second lockDir error = %v, want one that names the holder", err)
	}
	if err := first.remove(); err != nil {
		t.Fatal(err)
	}
	again, err := lockDir(dir)
	if err != nil {
		t.Fatalf("lockDir after remove: %v", err)
	}
	if err := again.remove(); err != nil {
		t.Fatal(err)
	}
}

// A link in the place of the lock is not followed: what it leads to would be overwritten.
func TestLockDirIsNoFile(t *testing.T) {
	for name, spoil := range map[string]func(path, other string) error{
		"link":     func(path, other string) error { return os.Symlink(other, path) },
		"dangling": func(path, other string) error { return os.Symlink(other+"x", path) },
		"folder":   func(path, _ string) error { return os.Mkdir(path, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			other := filepath.Join(t.TempDir(), "other")
			if err := os.WriteFile(other, []byte("mine"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := spoil(filepath.Join(dir, "lock"), other); err != nil {
				t.Fatal(err)
			}
			l, err := lockDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			if raw, err := os.ReadFile(other); err != nil || string(raw) != "mine" {
				t.Errorf("what the link leads to: %q, %v", raw, err)
			}
			if _, err := os.Stat(other + "x"); err == nil {
				t.Error("the lock was made where the link leads to")
			}
			if err := l.remove(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestKeepaliveEndsWithItsHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "alive")
	first, err := makeAliveFIFO(path)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reader.Close() }) //nolint:errcheck // only read
	second, err := makeAliveFIFO(path)   // a successor must not keep the readers of the first alive
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { second.Close() }) //nolint:errcheck // nothing was written
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if n, err := reader.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("read after the holder's end = %d, %v, want end of file", n, err)
	}
}

func TestMapHelperRefusesOtherArguments(t *testing.T) {
	for _, args := range [][]string{nil, {"1"}, {"1", "0", "1000", "2"}, {"1", "1", "1000", "1"}, {"../1", "0", "1000", "1"}} {
		var stderr bytes.Buffer
		if code := mapHelper("newuidmap", args, &bytes.Buffer{}, &stderr); code != 1 || stderr.Len() == 0 {
			t.Errorf("mapHelper(newuidmap, %q) = %d with %q, want 1 and a reason", args, code, stderr.String())
		}
	}
}

// tree makes files below a temporary folder; a path that ends in a slash is a folder.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestDetectCgroups(t *testing.T) {
	v1 := map[string]string{
		"memory/user/cgroup.procs": "", "pids/user/cgroup.procs": "", "systemd/user/cgroup.procs": "",
		"cpu/user/cgroup.procs": "", "blkio/user/cgroup.procs": "", "cpuset/elsewhere/cgroup.procs": "",
	}
	self1 := "5:memory:/user\n4:pids:/user\n3:cpu:/user\n2:cpuset:/\n7:blkio:/user\n1:name=systemd:/user\n0::/\n"
	v2 := map[string]string{
		"a/b/cgroup.procs": "", "a/b/cgroup.subtree_control": "", "a/b/cgroup.controllers": "memory pids cpu\n",
	}
	for _, tc := range []struct {
		name        string
		kind        CgroupKind
		files       map[string]string
		self        string
		controllers []string
		parent      string
	}{
		{"v1 delegated", CgroupHybrid, v1, self1, []string{"cpu", "io", "memory", "pids"}, "/user"},
		{"v1 at the root is not ours", CgroupHybrid, v1, "5:memory:/\n", nil, ""},
		{"v1 with nothing to limit", CgroupLegacy, v1, "1:name=systemd:/user\n5:memory:/\n", nil, ""},
		{"v1 folder missing", CgroupLegacy, v1, "5:memory:/gone\n", nil, ""},
		{"v2 delegated", CgroupPure, v2, "0::/a/b\n", []string{"cpu", "memory", "pids"}, "/a/b"},
		{"v2 not delegated", CgroupPure, v2, "0::/a\n", nil, ""},
		{"no cgroups", CgroupNone, nil, "", nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := tree(t, tc.files)
			self := filepath.Join(t.TempDir(), "self")
			if err := os.WriteFile(self, []byte(tc.self), 0o600); err != nil {
				t.Fatal(err)
			}
			got := detectCgroups(root, self, func(string) CgroupKind { return tc.kind })
			if got.Kind != tc.kind || got.Parent != tc.parent || !slices.Equal(got.Controllers, tc.controllers) {
				t.Errorf("detectCgroups = %+v, want kind %s, parent %q, controllers %q", got, tc.kind, tc.parent, tc.controllers)
			}
		})
	}
}

func TestEnterLegacyMakesOneFolderPerHierarchy(t *testing.T) {
	root := tree(t, map[string]string{
		"memory/user/": "", "pids/user/": "", "cpuset/user/cpuset.cpus": "0-1\n", "cpuset/user/cpuset.mems": "\n",
	})
	c := Cgroups{
		Kind: CgroupHybrid, Parent: "/user", Controllers: []string{"cpuset", "memory", "pids"},
		Legacy: map[string]string{"memory": "/user", "pids": "/user", "cpuset": "/user"},
	}
	leave, err := c.enterAt(root, "moss-1")
	if err != nil {
		t.Fatal(err)
	}
	// A cpuset without memory nodes takes no process: that hierarchy is given up.
	if c.Parent != "/user/moss-1" || !slices.Equal(c.Controllers, []string{"memory", "pids"}) || !c.Partial {
		t.Errorf("after enter: %+v, want memory and pids below /user/moss-1, partial", c)
	}
	if err := os.Mkdir(filepath.Join(root, "memory/user/moss-1/left"), 0o755); err != nil {
		t.Errorf("the containers' folder was not made: %v", err)
	}
	leave()
	left, err := filepath.Glob(filepath.Join(root, "*/user/moss-1"))
	if err != nil || len(left) != 1 || filepath.Base(filepath.Dir(filepath.Dir(left[0]))) != "cpuset" {
		t.Errorf("left after leave: %q, %v, want the cpuset's folder alone, which holds a file here", left, err)
	}
}

func TestViewShown(t *testing.T) {
	ours := "30 20 0:26 / /sys/fs/cgroup rw - tmpfs moss-cgroup rw\n"
	theirs := "25 20 0:25 / /sys/fs/cgroup rw - tmpfs none rw\n26 25 0:27 / /sys/fs/cgroup/cpu rw - cgroup none rw,cpu\n"
	for _, tc := range []struct {
		name, info string
		want       bool
	}{
		{"the machine's", theirs, false},
		{"ours on top", theirs + ours, true},
		{"covered again", ours + theirs, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "mountinfo")
			if err := os.WriteFile(path, []byte(tc.info), 0o600); err != nil {
				t.Fatal(err)
			}
			if got, err := viewShown(path); got != tc.want || err != nil {
				t.Errorf("viewShown = %v, %v, want %v", got, err, tc.want)
			}
		})
	}
}
