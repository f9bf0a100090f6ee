package archive_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"moss/cmd/moss/archive"
	"moss/engine/tree/treetest"
)

func TestPackAndBack(t *testing.T) {
	source := t.TempDir()
	for _, dir := range []string{"site", "site/sub", "site/empty"} {
		if err := os.Mkdir(filepath.Join(source, dir), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(
		os.WriteFile(filepath.Join(source, "site/a"), []byte("1"), 0o640),
		os.Link(filepath.Join(source, "site/a"), filepath.Join(source, "site/sub/same")),
		os.Symlink("../../out", filepath.Join(source, "site/sub/link")),
		os.WriteFile(filepath.Join(source, "site/bad\xff name"), []byte("2"), 0o600),
		syscall.Mkfifo(filepath.Join(source, "site/pipe"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	address := &syscall.SockaddrUnix{Name: filepath.Join(source, "site/socket")}
	socket, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(socket) }()
	if err := syscall.Bind(socket, address); err != nil {
		t.Skipf("bind: %v (the folder's path may be too long for a socket)", err)
	}
	const inside = "a -rw-r----- 1\nbad\xff name -rw------- 2\nempty drwxr-x---\npipe prw-------\nsub drwxr-x---\nsub/link -> ../../out\nsub/same -rw-r----- 1"
	for _, tc := range []struct{ packed, want string }{
		{"site", "out drwxr-x---\nout/" + strings.ReplaceAll(inside, "\n", "\nout/")},
		{".", inside},
	} {
		var notices []string
		var out bytes.Buffer
		how := archive.Packing{Name: tc.packed, Notice: func(text string) { notices = append(notices, text) }}
		if err := archive.Pack(t.Context(), &out, filepath.Join(source, "site"), how); err != nil {
			t.Fatal(err)
		}
		if len(notices) != 1 || !strings.Contains(notices[0], "socket") {
			t.Errorf("notices %q, want one about the socket", notices)
		}
		dir := t.TempDir()
		how2 := archive.Unpacking{Name: "out"}
		if tc.packed == "." {
			how2 = archive.Unpacking{Name: ".", Contents: true}
		}
		if err := archive.Unpack(&out, dir, how2); err != nil {
			t.Fatal(err)
		}
		if got := tree(t, dir); got != tc.want {
			t.Errorf("packed as %s:\n%s\nwant:\n%s", tc.packed, got, tc.want)
		}
	}
}

func TestPackOwners(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for owners, want := range map[bool]int{true: os.Getuid(), false: 0} {
		var out bytes.Buffer
		if err := archive.Pack(t.Context(), &out, file, archive.Packing{Name: "new", Owners: owners}); err != nil {
			t.Fatal(err)
		}
		header, err := tar.NewReader(&out).Next()
		if err != nil || header.Uid != want || header.Name != "new" || header.Uname != "" {
			t.Errorf("owners %t: header %+v, %v, want user %d and no user's name", owners, header, err, want)
		}
	}
}

func TestPackFails(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root can read everything; run the tests as an ordinary user")
	}
	for name, hide := range map[string]func(name string) error{
		"secret": func(name string) error { return os.WriteFile(name, nil, 0) },
		"shut":   func(name string) error { return os.Mkdir(name, 0o100) },
	} {
		dir := t.TempDir()
		if err := hide(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("pack %s/%s: permission denied", dir, name)
		for _, source := range []string{filepath.Join(dir, name), dir} {
			if err := archive.Pack(t.Context(), io.Discard, source, archive.Packing{Name: "d"}); err == nil || err.Error() != want {
				t.Errorf("Pack of %s = %v, want %s", source, err, want)
			}
		}
	}
}

func TestPackDeepWithFewDescriptors(t *testing.T) {
	dir := t.TempDir()
	deep := strings.Repeat("d/", 600)
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, deep), 0o755), os.WriteFile(filepath.Join(dir, deep, "f"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	ctx := treetest.Watch(t)
	var out bytes.Buffer
	if err := archive.Pack(ctx, &out, dir, archive.Packing{Name: "."}); err != nil {
		t.Fatal(err)
	}
	ctx.Check()
	if !bytes.Contains(out.Bytes(), []byte(deep+"f")) {
		t.Error("the lowest file is not in the archive")
	}
}
