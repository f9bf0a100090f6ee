package archive_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"moss/cmd/moss/archive"
)

func TestPlace(t *testing.T) {
	file, dir, none := archive.Target{Exists: true}, archive.Target{Exists: true, Dir: true}, archive.Target{}
	for _, tc := range []struct {
		source string
		isDir  bool
		is     archive.Target
		target string
		want   string // folder and name, or ! and words of the error
	}{
		{"/etc/passwd", false, dir, "/dst", "/dst passwd"},
		{"/etc/passwd", false, dir, "/dst/", "/dst passwd"},
		{"/etc/passwd", false, file, "/dst", "/ dst"},
		{"/etc/passwd", false, none, "/a/dst", "/a dst"},
		{"/etc/passwd", false, none, "/a/dst/", "!does not exist"},
		{"/etc/passwd", false, file, "/a/dst/", "!is no folder"},
		{"/etc/passwd/", false, dir, "/dst", "!/etc/passwd is no folder"},
		{"/etc/passwd/.", false, dir, "/dst", "!is no folder"},
		{"/etc", true, dir, "/dst", "/dst etc"},
		{"/etc/", true, dir, "/dst", "/dst etc"},
		{"/etc/.", true, dir, "/dst", "/dst ."},
		{"/", true, dir, "/dst", "/dst ."},
		{".", true, dir, "/dst/.", "/dst ."},
		{"/etc", true, file, "/dst", "!cannot be copied over the file"},
		{"/etc", true, none, "/a/dst", "/a dst"},
		{"/etc/.", true, none, "/a/dst/", "/a dst"},
		{"etc/../var", true, dir, "/", "/ var"},
	} {
		target := archive.NewTarget(tc.target)
		target.Exists, target.Dir = tc.is.Exists, tc.is.Dir
		dir, name, err := target.Place(archive.ParseSource(tc.source), tc.isDir)
		got := dir + " " + name
		if err != nil {
			got = "!" + err.Error()
		}
		words, fails := strings.CutPrefix(tc.want, "!")
		if fails != (err != nil) || !strings.Contains(got, words) || !fails && got != tc.want {
			t.Errorf("%s (folder %t) to %s (exists %t, folder %t) = %s, want %s", tc.source, tc.isDir, tc.target, tc.is.Exists, tc.is.Dir, got, tc.want)
		}
	}
}

func TestResolved(t *testing.T) {
	for _, tc := range []struct{ source, target, want string }{
		{"/a/link", "/x/y", "/x/y"}, {"/a/link", "../y", "/y"}, {"a/link", "y", "a/y"},
	} {
		if got := archive.ParseSource(tc.source).Resolved(tc.target); got != tc.want {
			t.Errorf("%s leads by %s to %s, want %s", tc.source, tc.target, got, tc.want)
		}
	}
}

func TestLocal(t *testing.T) {
	dir := t.TempDir()
	for name, target := range map[string]string{"todir": "d", "tofile": "f", "tonew": "d/new", "loop": "loop", "away": dir + "/none/x"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ path, want string }{
		{"d", "d exists folder"},
		{"d/", "d exists folder"},
		{"f", "f exists"},
		{"new", "new"},
		{"todir", "d exists folder"},
		{"tofile", "f exists"},
		{"tonew", "d/new"},
		{"loop", "!too many symbolic links"},
		{"away", "!no such file"},
		{"none/x", "!no such file"},
		{"f/x", "!not a directory"},
	} {
		target, err := archive.LocalTarget(dir + "/" + tc.path)
		got := strings.TrimPrefix(target.Path, dir+"/") + map[bool]string{true: " exists"}[target.Exists] + map[bool]string{true: " folder"}[target.Dir]
		if words, fails := strings.CutPrefix(tc.want, "!"); fails {
			if err == nil || !strings.Contains(err.Error(), words) {
				t.Errorf("LocalTarget(%s) = %s, %v, want an error with %q", tc.path, got, err, words)
			}
			continue
		}
		if err != nil || got != tc.want {
			t.Errorf("LocalTarget(%s) = %s, %v, want %s", tc.path, got, err, tc.want)
		}
	}
	if _, err := archive.LocalTarget("/dev/null"); err == nil {
		t.Error("a device passes as a destination")
	}
	for _, tc := range []struct {
		path, want string
		follow     bool
	}{
		{"todir", "todir", false}, {"todir", "d", true}, {"todir/", "d", false}, {"todir/.", "d", false}, {"tofile", "f", true},
	} {
		got, isDir, err := archive.LocalSource(archive.ParseSource(dir+"/"+tc.path), tc.follow)
		if err != nil || got != dir+"/"+tc.want || isDir != (tc.want == "d") {
			t.Errorf("LocalSource(%s, %t) = %s, %t, %v, want %s", tc.path, tc.follow, got, isDir, err, tc.want)
		}
	}
}
