package damage_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"moss/engine/damage"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func all(t *testing.T, a *damage.Account) []damage.Found {
	t.Helper()
	found, err := a.All()
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestSetAside(t *testing.T) {
	root := t.TempDir()
	var told []damage.Found
	a := damage.New(root, func(f damage.Found) { told = append(told, f) })
	path := filepath.Join(root, "containers", "ab", "record.json")
	write(t, path, "half")
	if err := a.SetAside(path, errors.New("unexpected end")); err != nil {
		t.Fatal(err)
	}
	if err := a.SetAside(path, errors.New("again")); err != nil {
		t.Errorf("SetAside of what is gone: %v", err)
	}
	found := all(t, a)
	if len(found) != 1 || len(told) != 1 || found[0] != told[0] {
		t.Fatalf("All = %v, told %v; want one and the same", found, told)
	}
	if f := found[0]; f.Path != "containers/ab/record.json" || f.Why != "unexpected end" {
		t.Errorf("found %+v", f)
	}
	raw, err := os.ReadFile(filepath.Join(root, found[0].Aside))
	if err != nil || string(raw) != "half" {
		t.Errorf("what was set aside: %q, %v; want its old content", raw, err)
	}
	next := all(t, damage.New(root, nil))
	if len(next) != 1 || next[0].Path != found[0].Path || !next[0].At.Equal(found[0].At) {
		t.Errorf("the next engine sees %v, want %v", next, found)
	}
	if err := os.Remove(filepath.Join(root, found[0].Aside)); err != nil {
		t.Fatal(err)
	}
	if left := all(t, a); len(left) != 0 {
		t.Errorf("All = %v once somebody removed the file, want nothing", left)
	}
}

// A file in the place of the folder is moved too; names too long for one are cut.
func TestSetAsideObstacles(t *testing.T) {
	root := t.TempDir()
	a := damage.New(root, nil)
	write(t, filepath.Join(root, damage.Folder), "in the way")
	long := filepath.Join(root, "volumes", strings.Repeat("v%", 120), "volume.json")
	write(t, long, "{}")
	if err := a.SetAside(long, errors.New("why")); err != nil {
		t.Fatal(err)
	}
	if found := all(t, a); len(found) != 1 || !strings.HasSuffix(found[0].Aside, "volume.json") {
		t.Errorf("All = %v", found)
	}
	if found := all(t, damage.New(root, nil)); len(found) != 1 || !strings.HasSuffix(found[0].Path, "volume.json") {
		t.Errorf("All of the next engine = %v", found)
	}
}

// What cannot leave the folder that it is in is renamed there.
func TestSetAsideInPlace(t *testing.T) {
	root := t.TempDir()
	folder := filepath.Join(root, "volumes", "data", "volume.json")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(folder, 0o500); err != nil { // without the right to write its entry for the folder above
		t.Fatal(err)
	}
	a := damage.New(root, nil)
	if err := a.SetAside(folder, errors.New("why")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder: %v, want it gone", err)
	}
	found := all(t, a)
	if len(found) != 1 || filepath.Dir(found[0].Aside) != "volumes/data" {
		t.Fatalf("All = %v, want it in the folder that it was in", found)
	}
	if err := os.Remove(filepath.Join(root, found[0].Aside)); err != nil {
		t.Error(err)
	}
	if found := all(t, a); len(found) != 0 {
		t.Errorf("All = %v once it is gone", found)
	}
}

func TestNote(t *testing.T) {
	root := t.TempDir()
	a := damage.New(root, nil)
	a.Note(filepath.Join(root, "images", "x"), errors.New("one\ntwo"))
	if found := all(t, a); len(found) != 1 || found[0].String() != "damaged: images/x: one; two" {
		t.Errorf("All = %v", found)
	}
	a.Settle(filepath.Join(root, "images"))
	if found := all(t, a); len(found) != 0 {
		t.Errorf("All = %v once it is settled, want nothing", found)
	}
}

func TestPlain(t *testing.T) {
	root := t.TempDir()
	a := damage.New(root, nil)
	at := func(name string) string { return filepath.Join(root, name) }
	write(t, at("file"), "x")
	write(t, at("empty"), "")
	write(t, at("folder/inside"), "x")
	for name, target := range map[string]string{"link": at("file"), "dangling": at("nothing")} {
		if err := os.Symlink(target, at(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(at("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, at("unreadable"), "x") // as one is whose blocks the disk does not give
	if err := os.Chmod(at("unreadable"), 0); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"unreadable": false, "file": true, "empty": true, "absent": false, "folder": false, "link": false, "dangling": false, "pipe": false,
	} {
		there, err := a.Plain(at(name))
		if err != nil || there != want {
			t.Errorf("Plain of %s = %v, %v; want %v", name, there, err, want)
		}
		if _, err := os.Lstat(at(name)); (err == nil) != want {
			t.Errorf("%s after Plain: %v", name, err)
		}
	}
	if found := all(t, a); len(found) != 5 {
		t.Errorf("All = %v, want five", found)
	}
}

// What is no file is neither followed nor waited for.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write(t, at("file"), "content")
	for name, err := range map[string]error{
		"link": os.Symlink(at("file"), at("link")), "folder": os.Mkdir(at("folder"), 0o700), "pipe": unix.Mkfifo(at("pipe"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := damage.Read(at(name), 100); err == nil || !strings.Contains(err.Error(), at(name)) {
			t.Errorf("Read of a %s: %v, want an error that names it", name, err)
		}
	}
	if raw, err := damage.Read(at("file"), 7); err != nil || string(raw) != "content" {
		t.Errorf("Read = %q, %v; want the content", raw, err)
	}
	if _, err := damage.Read(at("file"), 6); err == nil {
		t.Error("Read of a file that is too large = nil, want an error")
	}
	if _, err := damage.Read(at("missing"), 6); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Read of no file = %v, want fs.ErrNotExist in its chain", err)
	}
}

// Only a folder that can be listed is one.
func TestCheckFolder(t *testing.T) {
	dir := t.TempDir()
	file, link, closed := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "closed")
	if err := damage.CheckFolder(dir); err != nil {
		t.Errorf("CheckFolder of an empty folder = %v, want nil", err)
	}
	write(t, file, "x")
	if err := errors.Join(os.Symlink(dir, link), os.Mkdir(closed, 0o300)); err != nil {
		t.Fatal(err)
	}
	if err := damage.CheckFolder(dir); err != nil {
		t.Errorf("CheckFolder of a folder = %v, want nil", err)
	}
	for _, path := range []string{file, link, closed, filepath.Join(dir, "missing")} {
		if err := damage.CheckFolder(path); err == nil {
			t.Errorf("CheckFolder of %s = nil, want an error", path)
		}
	}
}
