package executor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestHostFolders(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"open/data/deep", "open2", "secret"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "open/file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{
		"open/out": dir + "/secret", "open/up": "../secret", "open/in": "data", "alias": dir + "/open", "open/nowhere": "../secret/new",
	} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	allowed, aliased := hostFolders{dir + "/open"}, hostFolders{dir + "/alias"}
	nested := hostFolders{dir + "/open/data", dir + "/open", dir + "/open/data/deep"}
	for _, tc := range []struct {
		folders hostFolders
		source  string // below dir
		create  bool
		want    string // folder below dir, and part; or, after "!", a part of the error
	}{
		{allowed, "/open", false, "/open ."},
		{allowed, "/open/", true, "/open ."},
		{allowed, "/open/data/.", false, "/open data"},
		{allowed, "/open/in", false, "/open in"},
		{allowed, "/open/file", false, "/open file"},
		{allowed, "/open2", false, "!is not below a folder that this node's setting swarm-host-folder names"},
		{allowed, "/secret", false, "!is not below"},
		{allowed, "", false, "!is not below"},
		{allowed, "/open/out", false, "!cannot be used: path escapes"},
		{allowed, "/open/up", false, "!cannot be used: path escapes"},
		{allowed, "/open/out/deep", true, "!cannot be used"},
		{allowed, "/open/data/../../secret", false, "!.. is not allowed"},
		{allowed, "/open/data/..", false, "!.. is not allowed"},
		{allowed, "/open/new", false, "!does not exist"},
		{allowed, "/open/new/er", true, "/open new/er"},
		{allowed, "/open/in/new", true, "/open in/new"},
		{allowed, "/open/nowhere", true, "!cannot be used"},
		{allowed, "/open/nowhere/x", true, "!cannot be used"},
		{allowed, "/alias/data", false, "!is not below"}, // it leads there, and is not looked at
		{aliased, "/alias", false, "/open ."},
		{aliased, "/alias/data", false, "/open data"},
		{aliased, "/open/data", false, "/open data"},
		{aliased, "/alias/out", false, "!path escapes"},
		{nested, "/open/data/deep", false, "/open data/deep"},
		{nested, "/open", false, "/open ."},
		{nil, "/open", false, "!names none"},
		{hostFolders{dir + "/none"}, "/none/x", true, "!is not there"},
	} {
		folder, part, err := tc.folders.locateSource(dir+tc.source, tc.create)
		got := strings.TrimPrefix(folder, dir) + " " + part
		if words, fails := strings.CutPrefix(tc.want, "!"); fails {
			if err == nil || !strings.Contains(err.Error(), words) {
				t.Errorf("locateSource(%s, %t) of %v = %q, %v, want an error with %q", tc.source, tc.create, tc.folders, got, err, words)
			}
		} else if err != nil || got != tc.want {
			t.Errorf("locateSource(%s, %t) of %v = %q, %v, want %s", tc.source, tc.create, tc.folders, got, err, tc.want)
		}
	}
	for name, there := range map[string]bool{"open/new/er": true, "open/data/new": true, "secret/new": false, "secret/deep": false} {
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != there {
			t.Errorf("%s is there: %v, want %t", name, err, there)
		}
	}
	if folder, part, err := (hostFolders{"/"}).locateSource(dir+"/secret", false); err != nil || filepath.Join(folder, part) != dir+"/secret" {
		t.Errorf("below the root = %s, %s, %v, want %s/secret", folder, part, err, dir)
	}
	for _, source := range []string{"", "relative", "/a\x00b"} {
		if _, _, err := (hostFolders{"/"}).locateSource(source, false); err == nil || !strings.Contains(err.Error(), "no absolute path") {
			t.Errorf("locateSource(%q) = %v, want that it is no absolute path", source, err)
		}
	}
	for _, folder := range []string{"", "here", "/a\x00"} {
		if _, err := newHostFolders([]string{folder}); err == nil {
			t.Errorf("newHostFolders(%q) takes it", folder)
		}
	}
}
