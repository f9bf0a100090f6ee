package fdstore

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLend(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lent")
	texts := []string{"first", "second"}
	files := make([]*os.File, 0, len(texts))
	for _, text := range texts {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close() })
		if _, err := w.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		files = append(files, r)
	}
	stop, err := Lend(path, files)
	if err != nil {
		t.Fatal(err)
	}
	early, err := Fetch(path)
	if err != nil || len(early) != len(files) {
		t.Fatalf("Fetch = %v, %v, want %d descriptors", early, err, len(files))
	}
	closeAll(early)
	fds, err := Fetch(path) // as often as somebody asks
	if err != nil || len(fds) != len(files) {
		t.Fatalf("Fetch = %v, %v, want %d descriptors", fds, err, len(files))
	}
	for i, want := range texts {
		f := os.NewFile(uintptr(fds[i]), "lent")
		if got, err := io.ReadAll(f); err != nil || string(got) != want {
			t.Errorf("descriptor %d reads %q, %v, want %q", i, got, err, want)
		}
		_ = f.Close()
	}
	if err := stop(); err != nil {
		t.Errorf("stop = %v", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket after stop: %v, want it gone", err)
	}
	if fds, err := Fetch(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("Fetch after stop = %v, %v, want an error that names the path", fds, err)
	}
}

func TestLendNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lent")
	stop, err := Lend(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer stop() //nolint:errcheck // the folder goes
	if fds, err := Fetch(path); err != nil || len(fds) != 0 {
		t.Errorf("Fetch = %v, %v, want nothing", fds, err)
	}
	if _, err := Lend(path, make([]*os.File, MaxLent+1)); err == nil {
		t.Error("Lend takes more than fit into a message")
	}
}
