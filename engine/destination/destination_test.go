package destination

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"moss/engine/fault"
)

// makeTree makes folders (names that end in "/"), links ("name -> target") and empty files below dir.
func makeTree(t *testing.T, dir string, entries ...string) {
	t.Helper()
	for _, entry := range entries {
		name, target, linked := strings.Cut(entry, " -> ")
		at := filepath.Join(dir, name)
		var err error
		switch {
		case os.MkdirAll(filepath.Dir(at), 0o700) != nil:
			t.Fatalf("make folder of %s", at)
		case linked:
			err = os.Symlink(target, at)
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(at, 0o700)
		default:
			err = os.WriteFile(at, nil, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func specOf(root string, mounts ...specs.Mount) *specs.Spec {
	return &specs.Spec{
		Root: &specs.Root{Path: root}, Process: &specs.Process{Cwd: "/"}, Linux: &specs.Linux{},
		Mounts: append([]specs.Mount{
			{Destination: "/proc", Type: "proc"},
			{Destination: "/dev", Type: "tmpfs"},
			{Destination: "/dev/pts", Type: "devpts"},
			{Destination: "/sys", Type: "sysfs"},
		}, mounts...),
	}
}

func bind(source, destination string) specs.Mount {
	return specs.Mount{Type: "bind", Source: source, Destination: destination}
}

func TestMounts(t *testing.T) {
	const refused = "cannot start container: "
	for _, tc := range []struct {
		name   string
		root   []string
		source []string // of what is mounted at /v
		at     string
		want   string // the place, or what the error says
	}{
		{name: "there", root: []string{"data/"}, at: "/data", want: "/data"},
		{name: "not there", at: "/a/b", want: "/a/b"},
		{name: "not clean", at: "/a//b/../c/", want: "/a/c"},
		{name: "link", root: []string{"data -> /var/lib/data"}, at: "/data", want: "/var/lib/data"},
		{name: "links on the way", root: []string{"run -> var/run", "var/run -> ../tmp", "tmp/"}, at: "/run/x", want: "/tmp/x"},
		{name: "link out of the root", root: []string{"data -> ../../../etc"}, at: "/data", want: "/etc"},
		{name: "what waits for its target", root: []string{"etc/resolv.conf -> ../run/stub/resolv.conf"}, at: "/etc/resolv.conf", want: "/run/stub/resolv.conf"},
		{name: "below a file", root: []string{"data"}, at: "/data/x", want: refused + "/data/x lies below a file"},
		{name: "over a link below a file", root: []string{"a", "l -> a/b"}, at: "/l", want: refused + "/l leads below a file: /a"},
		{name: "a ring", root: []string{"a -> b", "b -> a"}, at: "/a/x", want: refused + "/a/x leads through too many symbolic links"},
		{name: "a long way", root: []string{"a -> " + strings.Repeat("x/../", 700)}, at: "/a/x", want: refused + "/a/x… leads over too long a way"},
		{name: "the root", root: []string{"data -> /"}, at: "/data", want: refused + "mount at /data leads to /"},
		{name: "in proc by a link", root: []string{"data -> /proc/self/fd"}, at: "/data", want: refused + "mount at /data leads to /proc/self/fd: nothing may be mounted on /proc or below it"},
		{name: "in a false proc", root: []string{"data -> /proc/self/attr", "proc/self/attr/"}, at: "/data", want: "leads to /proc/self/attr:"},
		{name: "proc by a link", root: []string{"data -> proc"}, at: "/data", want: "leads to /proc:"},
		{name: "in proc by a folder", root: []string{"etc -> /proc"}, at: "/etc/hosts", want: "leads to /proc/hosts:"},
		{name: "in proc", at: "/proc/self/attr/exec", want: refused + "mount at /proc/self/attr/exec: nothing may be mounted"},
		{name: "on proc", at: "/proc", want: refused + "mount at /proc: nothing"},
		{name: "a file of proc", at: "/proc/meminfo", want: "/proc/meminfo"},
		{name: "a file of proc by a link", root: []string{"m -> /proc/meminfo"}, at: "/m", want: "leads to /proc/meminfo:"},
		{name: "in sys", at: "/sys/fs/bpf", want: "/sys/fs/bpf"},
		{name: "in sys by a link", root: []string{"data -> /sys/fs"}, at: "/data", want: refused + "mount at /data leads to /sys/fs: a link may not lead to /sys"},
		{name: "dev", at: "/dev", want: "/dev"},
		{name: "dev by a link", root: []string{"data -> dev"}, at: "/data", want: refused + "mount at /data leads to /dev"},
		{name: "in dev by a link", root: []string{"data -> /dev/shm"}, at: "/data", want: "/dev/shm"},
		{name: "what a mount hides", root: []string{"dev/x -> /proc", "v/x -> /proc"}, source: []string{"x/"}, at: "/v/x", want: "/v/x"},
		{name: "what a new file system hides", root: []string{"dev/x -> /proc"}, at: "/dev/x", want: "/dev/x"},
		{name: "a link in a mount", root: []string{"w/x/"}, source: []string{"x -> ../w/x"}, at: "/v/x", want: "/w/x"},
		{name: "a link in a mount to proc", source: []string{"x -> /proc/self"}, at: "/v/x/fd", want: "leads to /proc/self/fd:"},
		{name: "a link to a mount", root: []string{"l -> v"}, source: []string{"x -> /proc"}, at: "/l/x", want: "leads to /proc:"},
		{name: "link at dev", root: []string{"dev -> /home"}, at: "/a", want: refused + "/dev is a symbolic link in its image"},
		{name: "link at proc", root: []string{"proc -> tmp", "tmp/"}, at: "/a", want: refused + "/proc is a symbolic link in its image"},
		{name: "link at sys", root: []string{"sys -> proc", "proc/"}, at: "/a", want: refused + "/sys is a symbolic link in its image"},
		{name: "file at sys", root: []string{"sys"}, at: "/a", want: refused + "/sys is not a directory in its image"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root, source, other := t.TempDir(), t.TempDir(), t.TempDir()
			makeTree(t, root, tc.root...)
			makeTree(t, source, tc.source...)
			spec := specOf(root, bind(source, "/v"), bind(other, tc.at))
			given := slices.Clone(spec.Mounts)
			shared := spec.Mounts
			_, err := Resolve(spec)
			if !slices.EqualFunc(shared, given, func(a, b specs.Mount) bool { return a.Destination == b.Destination }) {
				t.Error("the caller's list was changed")
			}
			if err != nil {
				if !strings.Contains(err.Error(), tc.want) || !fault.Is(err, fault.Invalid) || strings.HasPrefix(tc.want, "/") {
					t.Errorf("mount at %s: %v, want %s", tc.at, err, tc.want)
				}
				return
			}
			if got := spec.Mounts[len(spec.Mounts)-1].Destination; got != tc.want {
				t.Errorf("mount at %s is at %s, want %s", tc.at, got, tc.want)
			}
		})
	}
}

func TestOtherMounts(t *testing.T) {
	root := t.TempDir()
	for name, m := range map[string]specs.Mount{
		"the host's proc": bind("/proc", "/proc"), "nothing in the source's place": bind(filepath.Join(root, "none"), "/v"),
	} {
		if _, err := Resolve(specOf(root, m, bind(root, "/v/x"))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	makeTree(t, root, "alias -> etc", "file")
	file := filepath.Join(root, "file")
	if _, err := Resolve(specOf(root, bind(file, "/etc/hosts"), bind(file, "/alias/hosts"))); err != nil {
		t.Errorf("a file over a file: %v", err)
	}
	dev := t.TempDir()
	makeTree(t, dev, "null -> /home/victim", "fd -> /proc/self/fd")
	if _, err := Resolve(specOf(root, bind(dev, "/dev"))); err == nil || !strings.Contains(err.Error(), "/dev/null is a symbolic link in what is mounted at /dev") {
		t.Errorf("a false /dev/null: %v", err)
	}
	if err := os.Remove(filepath.Join(dev, "null")); err != nil {
		t.Fatal(err)
	}
	if _, err := Resolve(specOf(root, bind(dev, "/dev"))); err != nil {
		t.Errorf("another /dev: %v", err)
	}
	if _, err := Resolve(specOf(filepath.Join(root, "none"))); err == nil || fault.Is(err, fault.Invalid) {
		t.Errorf("no root: %v", err)
	}
}

func TestPaths(t *testing.T) {
	root := t.TempDir()
	makeTree(t, root, "secret -> /etc/shadow", "trap -> /proc/self")
	spec := specOf(root)
	spec.Linux.MaskedPaths = []string{"/proc/kcore", "/sys/firmware", "/secret", "/none"}
	spec.Linux.ReadonlyPaths = []string{"/secret"}
	if _, err := Resolve(spec); err != nil || !slices.Equal(spec.Linux.MaskedPaths, []string{"/proc/kcore", "/sys/firmware", "/etc/shadow", "/none"}) ||
		!slices.Equal(spec.Linux.ReadonlyPaths, []string{"/etc/shadow"}) {
		t.Errorf("masked %v, read-only %v, %v", spec.Linux.MaskedPaths, spec.Linux.ReadonlyPaths, err)
	}
	spec.Linux.MaskedPaths = []string{"/trap/attr"}
	if _, err := Resolve(spec); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "/trap/attr leads to /proc/self/attr") {
		t.Errorf("masked in proc by a link: %v", err)
	}
}

func TestWorkingDir(t *testing.T) {
	root := t.TempDir()
	makeTree(t, root, "x -> /proc/self/fd/7", "proc/self/fd/7/", "cwd -> proc/self/cwd", "srv -> /var/www", "tmp/")
	for dir, want := range map[string]string{
		"/": "/", "/tmp/": "/tmp", "/srv/a": "/var/www/a", "": "/",
		"/x":    "cannot start container: working directory /x leads to /proc/self/fd/7, which is in proc: a process cannot start there",
		"/x/..": "/", "/cwd": "leads to /proc/self/cwd", "/proc/1/cwd": "working directory /proc/1/cwd, which is in proc: a process", "/host/self/cwd": "/host/self/cwd leads to /host, which is in proc",
	} {
		spec := specOf(root, bind("/proc", "/host"))
		spec.Process.Cwd = dir
		got, err := Resolve(spec)
		if err == nil && (got != want || spec.Process.Cwd != dir) || err != nil && (!fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want)) {
			t.Errorf("working folder %q: %q, %v, want %s", dir, got, err, want)
		}
	}
}

// A container that runs has proc in its place; here the host's own root stands for its.
func TestCheckWorkingDir(t *testing.T) {
	dir := t.TempDir()
	makeTree(t, dir, "fd -> /proc/self/fd/0", "cwd -> /proc/self/cwd", "proc -> /proc/self", "data/", "root -> /proc/self/root")
	for name, refused := range map[string]bool{"data": false, "none": false, "fd": true, "cwd": true, "proc": true, "root": true, "proc/net": true} {
		err := CheckWorkingDir("/", filepath.Join(dir, name))
		if refused != fault.Is(err, fault.Invalid) || !refused && err != nil {
			t.Errorf("working folder %s: %v, want refused: %t", name, err, refused)
		}
	}
	if err := CheckWorkingDir(filepath.Join(dir, "none"), "/"); err != nil {
		t.Errorf("no root: %v", err)
	}
}

// BenchmarkResolve is what a start pays: the system's mounts, the managed files and two volumes.
func BenchmarkResolve(b *testing.B) {
	root, volume := b.TempDir(), b.TempDir()
	for range b.N {
		spec := specOf(root, bind("/etc/hosts", "/etc/hosts"), bind("/etc/hosts", "/etc/hostname"), bind("/etc/hosts", "/etc/resolv.conf"),
			bind(volume, "/data"), bind(volume, "/var/lib/data"))
		if _, err := Resolve(spec); err != nil {
			b.Fatal(err)
		}
	}
}
