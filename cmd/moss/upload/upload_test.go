package upload_test

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"moss/cmd/moss/upload"
)

// plant makes files; a name with a slash at its end is a folder, content that begins with -> is a symbolic link.
func plant(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		parent := filepath.Dir(path)
		if strings.HasSuffix(name, "/") {
			parent = path
		}
		err := os.MkdirAll(parent, 0o755)
		switch target, link := strings.CutPrefix(content, "->"); {
		case err != nil || strings.HasSuffix(name, "/"):
		case link:
			err = os.Symlink(target, path)
		default:
			err = os.WriteFile(path, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// pack returns the context as an archive.
func pack(t *testing.T, f *upload.Folder) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := f.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// names lists what is in an archive, with the content of the files that are asked for.
func names(t *testing.T, archive []byte, show ...string) []string {
	t.Helper()
	var list []string
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		entry := head.Name
		if head.Linkname != "" {
			entry += fmt.Sprintf("%c%s", head.Typeflag, head.Linkname)
		}
		if slices.Contains(show, head.Name) {
			raw, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			entry += "=" + string(raw)
		}
		if head.Uid != 0 || head.Gid != 0 || head.Uname != "" {
			t.Errorf("%s belongs to %d:%d %q", head.Name, head.Uid, head.Gid, head.Uname)
		}
		list = append(list, entry)
	}
}

func open(t *testing.T, dir, dockerfile string) *upload.Folder {
	t.Helper()
	f, err := upload.Open(dir, dockerfile, nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestIgnore(t *testing.T) {
	files := map[string]string{
		"Dockerfile": "FROM x", "a": "", "b/c": "", "b/d.md": "", "b/e/f.md": "", "b/e/g": "", "logs/": "", "logs/x": "", "z/deep/er/keep": "", "z/deep/er/lose": "",
	}
	all := []string{"Dockerfile", "a", "b/", "b/c", "b/d.md", "b/e/", "b/e/f.md", "b/e/g", "logs/", "logs/x", "z/", "z/deep/", "z/deep/er/", "z/deep/er/keep", "z/deep/er/lose"}
	for _, tc := range []struct {
		ignore string
		want   []string // without the ignore file itself
	}{
		{"", all},
		{"# nothing\n\n", all},
		{"logs\nb", []string{"Dockerfile", "a", "z/", "z/deep/", "z/deep/er/", "z/deep/er/keep", "z/deep/er/lose"}},
		{"logs/\nz", []string{"Dockerfile", "a", "b/", "b/c", "b/d.md", "b/e/", "b/e/f.md", "b/e/g"}},
		{"*\n", []string{"Dockerfile"}},
		{"Dockerfile\n.dockerignore\nb\nz\nlogs", []string{"Dockerfile", "a"}},
		{"**/*.md\nz", []string{"Dockerfile", "a", "b/", "b/c", "b/e/", "b/e/g", "logs/", "logs/x"}},
		{"*\n!**/*.md", []string{"Dockerfile", "b/", "b/d.md", "b/e/", "b/e/f.md"}},
		{"*\n!b/e", []string{"Dockerfile", "b/", "b/e/", "b/e/f.md", "b/e/g"}},
		{"*\n!z/deep/er/keep", []string{"Dockerfile", "z/", "z/deep/", "z/deep/er/", "z/deep/er/keep"}},
		{"*\n!z\nz/deep/er/l*", []string{"Dockerfile", "z/", "z/deep/", "z/deep/er/", "z/deep/er/keep"}},
		{"b\n!b/nothing", []string{"Dockerfile", "a", "logs/", "logs/x", "z/", "z/deep/", "z/deep/er/", "z/deep/er/keep", "z/deep/er/lose"}},
		{"*\n!*/c\n!l?gs", []string{"Dockerfile", "b/", "b/c", "logs/", "logs/x"}},
	} {
		dir := t.TempDir()
		plant(t, dir, files)
		plant(t, dir, map[string]string{".dockerignore": tc.ignore})
		want := append([]string{".dockerignore"}, tc.want...)
		if got := names(t, pack(t, open(t, dir, ""))); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", tc.ignore, got, want)
		}
	}
}

func TestDockerfiles(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir, map[string]string{
		"context/docker/web": "FROM web", "context/docker/web.dockerignore": "secret\n", "context/.dockerignore": "docker\nfile", "context/file": "", "context/secret": "",
		"context/link": "->docker/web", "context/out": "->../elsewhere", "elsewhere": "FROM elsewhere", "own": "FROM own", "own.dockerignore": "file\nsecret\n",
		"none/a": "", "podman/Containerfile": "", "real/Dockerfile": "", "alias": "->real",
	})
	context := filepath.Join(dir, "context")
	const hidden = ".dockerfile.*"
	for _, tc := range []struct {
		dir, file, told string
		want            []string
	}{
		{"context", "context/docker/web", "docker/web", []string{".dockerignore", "docker/", "docker/web", "docker/web.dockerignore", "file", "link2docker/web", "out2../elsewhere"}},
		{"context", "context/link", "link", []string{".dockerignore", "docker/", "docker/web", "link2docker/web", "out2../elsewhere", "secret"}},
		{"context", "elsewhere", hidden, []string{
			".dockerignore", "link2docker/web", "out2../elsewhere", "secret", hidden + "=FROM elsewhere", hidden + ".dockerignore=docker\nfile\n" + hidden + "\n" + hidden + ".dockerignore\n",
		}},
		{"context", "context/out", hidden, []string{
			".dockerignore", "link2docker/web", "out2../elsewhere", "secret", hidden + "=FROM elsewhere", hidden + ".dockerignore=docker\nfile\n" + hidden + "\n" + hidden + ".dockerignore\n",
		}},
		{"context", "own", hidden, []string{
			".dockerignore", "docker/", "docker/web", "docker/web.dockerignore", "link2docker/web", "out2../elsewhere",
			hidden + "=FROM own", hidden + ".dockerignore=file\nsecret\n\n" + hidden + "\n" + hidden + ".dockerignore\n",
		}},
		{"podman", "", "Containerfile", []string{"Containerfile"}},
		{"alias", "", "Dockerfile", []string{"Dockerfile"}},
		{"alias", "real/Dockerfile", "Dockerfile", []string{"Dockerfile"}},
	} {
		file := tc.file
		if file != "" {
			file = filepath.Join(dir, file)
		}
		f := open(t, filepath.Join(dir, tc.dir), file)
		told := f.Dockerfile
		if tc.told != hidden && told != tc.told || tc.told == hidden && !strings.HasPrefix(told, ".dockerfile.") {
			t.Errorf("%s %s: the Dockerfile is %q, want %q", tc.dir, tc.file, told, tc.told)
		}
		got := strings.ReplaceAll(strings.Join(names(t, pack(t, f), told, told+".dockerignore"), "|"), told, hidden)
		want := strings.Join(tc.want, "|")
		if tc.told != hidden {
			got, want = strings.Join(names(t, pack(t, f)), "|"), strings.Join(tc.want, "|")
		}
		if got != want {
			t.Errorf("%s %s:\n got %q\nwant %q", tc.dir, tc.file, got, want)
		}
	}
	for _, tc := range []struct{ dir, file, want string }{
		{"none", "", "has no Dockerfile and no Containerfile"},
		{"context", "context/nothing", "nothing: no such file or directory"},
		{"context", "context/docker", "docker: it is a folder"},
		{"missing", "", "missing: no such file or directory"},
	} {
		file := tc.file
		if file != "" {
			file = filepath.Join(dir, file)
		}
		if _, err := upload.Open(filepath.Join(dir, tc.dir), file, nil); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s %s: %v, want %q", tc.dir, tc.file, err, tc.want)
		}
	}
	f, err := upload.Open(context, "", strings.NewReader("FROM stdin"))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(names(t, pack(t, f), f.Dockerfile), "|"); !strings.Contains(got, f.Dockerfile+"=FROM stdin|") || strings.Contains(got, "|file|") {
		t.Errorf("a Dockerfile on stdin: %q", got)
	}
	if _, err := upload.Open(context, "", strings.NewReader(strings.Repeat("#", 1<<20+1))); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("a huge Dockerfile: %v", err)
	}
}

// TestKinds packs every kind of file, twice to the same bytes.
func TestKinds(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir, map[string]string{"Dockerfile": "", "plain": "text", "link": "->/etc/passwd", "dangling": "->nowhere", "empty/": "", "run": "#!/bin/sh"})
	if err := os.Chmod(filepath.Join(dir, "run"), 0o4751|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.Link(filepath.Join(dir, "plain"), filepath.Join(dir, "plain2")), syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600),
		os.WriteFile(filepath.Join(dir, "big"), bytes.Repeat([]byte("0123456789"), 100_000), 0o600),
		os.WriteFile(filepath.Join(dir, strings.Repeat("n", 200)), nil, 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir) // a socket's path is short
	var config net.ListenConfig
	socket, err := config.Listen(t.Context(), "unix", "socket")
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close() //nolint:errcheck // Nothing was written.
	f := open(t, ".", "")
	var notices []string
	f.Notice = func(text string) { notices = append(notices, text) }
	first := pack(t, f)
	want := []string{"Dockerfile", "big", "dangling2nowhere", "empty/", "link2/etc/passwd", strings.Repeat("n", 200), "pipe", "plain=text", "plain21plain", "run"}
	if got := names(t, first, "plain"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if !slices.Equal(notices, []string{"socket is a socket and left out"}) {
		t.Errorf("notices: %q", notices)
	}
	if !bytes.Equal(first, pack(t, f)) {
		t.Error("the second archive of the same folder differs")
	}
	for r := tar.NewReader(bytes.NewReader(first)); ; {
		head, err := r.Next()
		if err != nil {
			break
		}
		if mode := map[string]int64{"run": 0o4751, "empty/": 0o755, "big": 0o600}[head.Name]; mode != 0 && head.Mode != mode {
			t.Errorf("%s has the mode %o, want %o", head.Name, head.Mode, mode)
		}
	}
}

func TestUnreadable(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root reads everything; run through hack/test-exec.sh")
	}
	dir := t.TempDir()
	plant(t, dir, map[string]string{"Dockerfile": "", "closed": "x", "dir/": ""})
	for _, name := range []string{"closed", "dir"} {
		if err := os.Chmod(filepath.Join(dir, name), 0); err != nil {
			t.Fatal(err)
		}
		err := open(t, dir, "").Write(io.Discard)
		if want := filepath.Join(dir, name) + ": permission denied"; err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		plant(t, dir, map[string]string{".dockerignore": name})
		if err := open(t, dir, "").Write(io.Discard); err != nil {
			t.Errorf("%s is excluded: %v", name, err)
		}
		if err := os.Chmod(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		plant(t, dir, map[string]string{".dockerignore": ""})
	}
}

type shut struct{}

func (shut) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestWriterThatFails(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir, map[string]string{"Dockerfile": "", "big": strings.Repeat("x", 1<<20)})
	if err := open(t, dir, "").Write(shut{}); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("got %v, want the writer's error", err)
	}
}

func TestIsArchive(t *testing.T) {
	var archive bytes.Buffer
	single, err := upload.Alone(strings.NewReader("FROM x"))
	if err != nil {
		t.Fatal(err)
	}
	if err := single.Write(&archive); err != nil {
		t.Fatal(err)
	}
	if got := names(t, archive.Bytes(), "Dockerfile"); !slices.Equal(got, []string{"Dockerfile=FROM x"}) {
		t.Errorf("a Dockerfile alone: %q", got)
	}
	for _, tc := range []struct {
		name, text string
		want       bool
	}{
		{"tar", archive.String(), true},
		{"no entries", strings.Repeat("\x00", 1024), true},
		{"gzip", "\x1f\x8b\x08", true},
		{"bzip2", "BZh9", true},
		{"xz", "\xfd7zXZ\x00", true},
		{"zstd", "\x28\xb5\x2f\xfd", true},
		{"a Dockerfile", "FROM x\nRUN y\n", false},
		{"a long Dockerfile", strings.Repeat("# FROM x\n", 1000), false},
		{"nothing", "", false},
	} {
		in := bufio.NewReader(iotest.OneByteReader(strings.NewReader(tc.text)))
		if got, err := upload.IsArchive(in); got != tc.want || err != nil {
			t.Errorf("%s: %t, %v, want %t", tc.name, got, err, tc.want)
		}
		if raw, err := io.ReadAll(in); string(raw) != tc.text || err != nil {
			t.Errorf("%s: %d of %d bytes are left, %v", tc.name, len(raw), len(tc.text), err)
		}
	}
}

func FuzzIgnore(f *testing.F) {
	for _, s := range []string{"*\n!a", "**/*.md", "[", "\\", "!", "a/../..", "/abs/", "# x\n\ufeffb", "!**/x\n*"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		dir := t.TempDir()
		plant(t, dir, map[string]string{"Dockerfile": "", "a/b/c": "", ".dockerignore": text})
		folder, err := upload.Open(dir, "", nil)
		if err != nil {
			return
		}
		var out bytes.Buffer
		if folder.Write(&out) == nil && !slices.Contains(names(t, out.Bytes()), "Dockerfile") {
			t.Errorf("%q excludes the Dockerfile", text)
		}
	})
}
