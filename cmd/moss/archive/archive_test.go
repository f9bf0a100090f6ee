package archive_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"moss/cmd/moss/archive"
)

// entry is one entry of a tar stream that a test makes.
type entry struct {
	name, link, content string
	kind                byte // 0: a file
	mode                int64
}

func stream(t testing.TB, entries ...entry) *bytes.Buffer {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Linkname: e.link, Typeflag: e.kind, Mode: e.mode, Size: int64(len(e.content)), ModTime: time.Unix(1_000_000_000, 0)}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &out
}

// tree lists what a folder holds: name, type and permissions, and content or target.
func tree(t testing.TB, dir string) string {
	t.Helper()
	var lines []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		line := strings.TrimPrefix(path, dir+"/") + " " + info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += " " + string(raw)
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line = strings.TrimPrefix(path, dir+"/") + " -> " + target
		}
		lines = append(lines, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func TestUnpack(t *testing.T) {
	dirEntry := func(name string) entry { return entry{name: name, kind: tar.TypeDir, mode: 0o755} }
	for _, tc := range []struct {
		name    string
		how     archive.Unpacking
		before  func(dir string) error
		entries []entry
		want    string // the tree
		fails   string // in the error
	}{
		{
			name:    "a folder under its own name",
			how:     archive.Unpacking{Name: "etc"},
			entries: []entry{dirEntry("etc/"), {name: "etc/passwd", content: "root"}, {name: "etc/sh", kind: tar.TypeSymlink, link: "/bin/sh"}},
			want:    "etc drwxr-xr-x\netc/passwd -rw-r--r-- root\netc/sh -> /bin/sh",
		},
		{
			name:    "a folder under another name, hard links too",
			how:     archive.Unpacking{Name: "new"},
			entries: []entry{dirEntry("./etc/"), {name: "./etc/a", content: "x"}, {name: "./etc/b", kind: tar.TypeLink, link: "etc/a"}},
			want:    "new drwxr-xr-x\nnew/a -rw-r--r-- x\nnew/b -rw-r--r-- x",
		},
		{
			name:    "a file under another name",
			how:     archive.Unpacking{Name: "new"},
			entries: []entry{{name: "passwd", content: "root"}},
			want:    "new -rw-r--r-- root",
		},
		{
			name:    "contents, into the folder",
			how:     archive.Unpacking{Name: ".", Contents: true},
			entries: []entry{dirEntry("./"), {name: "./a", content: "1"}, {name: "b/c", content: "2"}},
			want:    "a -rw-r--r-- 1\nb drwxr-xr-x\nb/c -rw-r--r-- 2",
		},
		{
			name:    "contents, into a new folder",
			how:     archive.Unpacking{Name: "out", Contents: true},
			entries: []entry{dirEntry("./"), {name: "./a", content: "1"}},
			want:    "out drwxr-xr-x\nout/a -rw-r--r-- 1",
		},
		{
			name:    "a folder that nobody may write to is filled first",
			how:     archive.Unpacking{Name: "ro"},
			entries: []entry{{name: "ro/", kind: tar.TypeDir, mode: 0o555}, {name: "ro/a", content: "1", mode: 0o400}},
			want:    "ro dr-xr-xr-x\nro/a -r-------- 1",
		},
		{
			name:    "set-id bits are not taken over",
			how:     archive.Unpacking{Name: "x"},
			entries: []entry{{name: "x", content: "1", mode: 0o6755}},
			want:    "x -rwxr-xr-x 1",
		},
		{
			name:    "a pipe",
			how:     archive.Unpacking{Name: "p"},
			entries: []entry{{name: "p", kind: tar.TypeFifo, mode: 0o600}},
			want:    "p prw-------",
		},
		{
			name:    "an existing file is replaced, not followed",
			how:     archive.Unpacking{Name: "f"},
			before:  func(dir string) error { return os.Symlink("../canary", filepath.Join(dir, "f")) },
			entries: []entry{{name: "f", content: "new"}},
			want:    "f -rw-r--r-- new",
		},
		{
			name: "a folder that exists keeps its mode and what it holds",
			how:  archive.Unpacking{Name: "d"},
			before: func(dir string) error {
				return errors.Join(os.Mkdir(filepath.Join(dir, "d"), 0o700), os.WriteFile(filepath.Join(dir, "d/old"), []byte("o"), 0o600))
			},
			entries: []entry{dirEntry("d/"), {name: "d/new", content: "n"}},
			want:    "d drwx------\nd/new -rw-r--r-- n\nd/old -rw------- o",
		},
		{
			name:    "a folder over a file",
			how:     archive.Unpacking{Name: "d"},
			before:  func(dir string) error { return os.WriteFile(filepath.Join(dir, "d"), nil, 0o600) },
			entries: []entry{dirEntry("d/")},
			want:    "d -rw------- ", fails: "a folder would replace what is no folder",
		},
		{
			name:    "a file over a folder",
			how:     archive.Unpacking{Name: "d"},
			before:  func(dir string) error { return os.Mkdir(filepath.Join(dir, "d"), 0o700) },
			entries: []entry{{name: "d", content: "x"}},
			want:    "d drwx------", fails: "a folder would be replaced by what is none",
		},
		{
			name: "an older link out of the folder",
			how:  archive.Unpacking{Name: "d"},
			before: func(dir string) error {
				return errors.Join(os.Mkdir(filepath.Join(dir, "d"), 0o700), os.Symlink("../..", filepath.Join(dir, "d/out")))
			},
			entries: []entry{dirEntry("d/"), {name: "d/out/canary", content: "x"}},
			want:    "d drwx------\nd/out -> ../..", fails: "path escapes from parent",
		},
		{
			name:    "a link of the archive's own out of the folder, relative",
			how:     archive.Unpacking{Name: ".", Contents: true},
			entries: []entry{{name: "out", kind: tar.TypeSymlink, link: ".."}, {name: "out/canary", content: "x"}},
			want:    "out -> ..", fails: "path escapes from parent",
		},
		{
			name:    "a link of the archive's own out of the folder, absolute",
			how:     archive.Unpacking{Name: ".", Contents: true},
			entries: []entry{{name: "out", kind: tar.TypeSymlink, link: "/tmp"}, {name: "out/canary", content: "x"}},
			want:    "out -> /tmp", fails: "path escapes from parent",
		},
		{
			name:    "a hard link to what lies outside",
			how:     archive.Unpacking{Name: ".", Contents: true},
			entries: []entry{{name: "x", kind: tar.TypeLink, link: "../canary"}},
			fails:   "leads out of it",
		},
		{
			name:    "a hard link through a link that leads out",
			how:     archive.Unpacking{Name: ".", Contents: true},
			entries: []entry{{name: "out", kind: tar.TypeSymlink, link: ".."}, {name: "x", kind: tar.TypeLink, link: "out/canary"}},
			want:    "out -> ..", fails: "path escapes from parent",
		},
		{
			name:    "a name that climbs",
			how:     archive.Unpacking{Name: ".", Contents: true},
			entries: []entry{{name: "a/../../canary", content: "x"}},
			fails:   "leads out of it",
		},
		{
			name:    "an absolute name stays inside",
			how:     archive.Unpacking{Name: ".", Contents: true},
			entries: []entry{{name: "/canary", content: "x"}},
			want:    "canary -rw-r--r-- x",
		},
		{
			name:    "an entry beside the one that was asked for",
			how:     archive.Unpacking{Name: "a"},
			entries: []entry{dirEntry("a/"), {name: "b", content: "x"}},
			want:    "a drwx------", fails: `"b" lies beside "a"`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			outer := t.TempDir()
			dir := filepath.Join(outer, "dst")
			if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(outer, "canary"), []byte("alive"), 0o600)); err != nil {
				t.Fatal(err)
			}
			if tc.before != nil {
				if err := tc.before(dir); err != nil {
					t.Fatal(err)
				}
			}
			syscall.Umask(0o022)
			err := archive.Unpack(stream(t, tc.entries...), dir, tc.how)
			if (err != nil) != (tc.fails != "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
				t.Errorf("Unpack = %v, want an error with %q", err, tc.fails)
			}
			defer func() { _ = os.Chmod(filepath.Join(dir, "ro"), 0o700) }() // or else nobody could remove it
			if got := tree(t, dir); got != tc.want {
				t.Errorf("tree:\n%s\nwant:\n%s", got, tc.want)
			}
			if raw, err := os.ReadFile(filepath.Join(outer, "canary")); err != nil || string(raw) != "alive" {
				t.Errorf("what lies outside holds %q, %v", raw, err)
			}
			if names, err := os.ReadDir(outer); err != nil || len(names) != 2 {
				t.Errorf("outside the folder are %v, %v", names, err)
			}
		})
	}
}

func TestUnpackTimesAndNotices(t *testing.T) {
	dir := t.TempDir()
	var notices []string
	err := archive.Unpack(stream(t, entry{name: "d/", kind: tar.TypeDir, mode: 0o755}, entry{name: "d/f", content: "x"},
		entry{name: "d/null", kind: tar.TypeChar}), dir,
		archive.Unpacking{Name: "d", Notice: func(text string) { notices = append(notices, text) }})
	if err != nil || len(notices) != 1 || !strings.Contains(notices[0], "d/null") {
		t.Errorf("Unpack = %v with notices %q, want one about the device", err, notices)
	}
	for _, name := range []string{"d", "d/f"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.ModTime().Unix() != 1_000_000_000 {
			t.Errorf("%s is of %v, %v, want the archive's time", name, info.ModTime(), err)
		}
	}
}

func TestUnpackCutStream(t *testing.T) {
	dir := t.TempDir()
	whole := stream(t, entry{name: "f", content: strings.Repeat("x", 5000)}).Bytes()
	err := archive.Unpack(bytes.NewReader(whole[:3000]), dir, archive.Unpacking{Name: "f"})
	if err == nil || tree(t, dir) != "" {
		t.Errorf("Unpack of half an archive = %v, left %q, want an error and nothing", err, tree(t, dir))
	}
}

// FuzzUnpack tries names and links that might lead out of the folder, two entries one after the other.
func FuzzUnpack(f *testing.F) {
	f.Add("a", "", byte(tar.TypeDir), "a/b", "", byte(tar.TypeReg), true)
	f.Add("l", "../..", byte(tar.TypeSymlink), "l/x", "", byte(tar.TypeReg), true)
	f.Add("h", "../canary", byte(tar.TypeLink), "./h", "h", byte(tar.TypeLink), false)
	f.Fuzz(func(t *testing.T, first, link string, kind byte, second, other string, kind2 byte, contents bool) {
		var raw bytes.Buffer
		w := tar.NewWriter(&raw)
		for _, h := range []*tar.Header{
			{Name: first, Linkname: link, Typeflag: kind, Mode: 0o700}, {Name: second, Linkname: other, Typeflag: kind2, Mode: 0o700},
		} {
			if w.WriteHeader(h) != nil {
				return
			}
		}
		outer := t.TempDir()
		dir := filepath.Join(outer, "dst")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		_ = archive.Unpack(&raw, dir, archive.Unpacking{Name: "x", Contents: contents})
		if names, err := os.ReadDir(outer); err != nil || len(names) != 1 {
			t.Errorf("outside the folder are %v, %v", names, err)
		}
	})
}

// TestUnpackKeepsNoPrivilegesOfOthers unpacks a program of another user, with the wish to keep owners: what cannot be that
// user's must not carry his privileges.
func TestUnpackKeepsNoPrivilegesOfOthers(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may give files away: run by hack/test-exec.sh")
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for name, uid := range map[string]int{"d/mine": os.Getuid(), "d/roots": 0} {
		gid := os.Getgid()
		if uid == 0 {
			gid = 0
		}
		h := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o6755, Uid: uid, Gid: gid, ModTime: time.Unix(1e9, 0)}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := archive.Unpack(&out, dir, archive.Unpacking{Name: "d", Owners: true}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{"mine": 0o755 | fs.ModeSetuid | fs.ModeSetgid, "roots": 0o755} {
		info, err := os.Stat(filepath.Join(dir, "d", name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", name, info.Mode(), want)
		}
	}
}

// TestUnpackBombs unpacks archives of a hostile container into the user's folder.
func TestUnpackBombs(t *testing.T) {
	link := func(name, to string) entry { return entry{name: name, link: to, kind: tar.TypeSymlink} }
	folders, links := make([]entry, 0, 100), make([]entry, 0, 50)
	for i := range 45 {
		links = append(links, link(fmt.Sprint("t/l", i), fmt.Sprint("l", i+1)))
	}
	for i := range 100 {
		folders = append(folders, entry{name: fmt.Sprintf("t/%d/%sf", i, strings.Repeat("a/", 490))})
	}
	links = append(links, entry{name: "t/h", link: "t/l0/f", kind: tar.TypeLink})
	for name, tc := range map[string]struct {
		entries []entry
		text    string
	}{
		"implied folders": {folders, "folders that it does not list"},
		"links":           {links, "symbolic links"},
		"depth":           {[]entry{{name: "t/" + strings.Repeat("d/", 600) + "f"}}, "folders deep"},
		"length":          {[]entry{{name: "t/" + strings.Repeat("d", 5000)}}, "longer than"},
	} {
		t.Run(name, func(t *testing.T) {
			err := archive.Unpack(stream(t, tc.entries...), t.TempDir(), archive.Unpacking{Name: "t"})
			if err == nil || !strings.Contains(err.Error(), tc.text) || len(err.Error()) > 500 {
				t.Errorf("Unpack = %.600v, want an error with %q", err, tc.text)
			}
		})
	}
}
