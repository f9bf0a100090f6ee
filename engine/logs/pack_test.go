package logs_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"moss/engine/logs"
	"moss/engine/stdio"
)

// awaitFile waits until a file is there, or is not.
func awaitFile(t *testing.T, path string, there bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		if _, err := os.Lstat(path); (err == nil) == there {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s there: %t, want %t", path, !there, there)
		}
		time.Sleep(time.Millisecond)
	}
}

// packedLog writes 300 lines into three files, two of them packed.
func packedLog(t *testing.T) (path string, w *logs.Writer) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "log")
	w = open(t, path, logs.Options{MaxSize: 100 * 80, MaxFiles: 5, Compress: true})
	for i := range 300 {
		write(t, w, stdio.Stdout, fmt.Sprintf("%03d %s\n", i, strings.Repeat("x", 5)))
	}
	awaitFile(t, path+".1.gz", true)
	awaitFile(t, path+".1", false)
	return path, w
}

func TestPackedFilesAreRead(t *testing.T) {
	path, _ := packedLog(t)
	raw, err := os.ReadFile(path + ".2.gz")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gzip.NewReader(bytes.NewReader(raw)); err != nil {
		t.Errorf("%s.2.gz is no gzip file: %v", path, err)
	}
	for _, tail := range []int{-1, 300, 250, 150, 10, 1, 0} {
		got := read(t, path, logs.ReadOptions{Tail: tail})
		want := tail
		if tail < 0 {
			want = 300
		}
		if len(got) != want {
			t.Errorf("tail %d: %d lines, want %d", tail, len(got), want)
			continue
		}
		for i, e := range got {
			if want := fmt.Sprintf("%03d ", 300-len(got)+i); !strings.HasPrefix(e.line, want) {
				t.Fatalf("tail %d: line %d is %q, want %q…", tail, i, e.line, want)
			}
		}
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "unpacked*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left after reading: %v, %v", left, err)
	}
}

// TestMarkOfAPackedFile stops at a position of a file that has been rotated and packed since.
func TestMarkOfAPackedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	w := open(t, path, logs.Options{MaxSize: 4000, MaxFiles: 3, Compress: true})
	write(t, w, stdio.Stdout, "before\n")
	inode, size := w.Mark()
	for i := range 60 {
		write(t, w, stdio.Stdout, fmt.Sprintln("after", i))
	}
	awaitFile(t, path+".1", false)
	awaitFile(t, path+".1.gz", true)
	got := read(t, path, logs.ReadOptions{Tail: -1, StopAt: &logs.Mark{Inode: inode, Size: size}})
	if lines(got) != "before\n" {
		t.Errorf("up to the mark: %q, want what was before it", lines(got))
	}
}

// TestFollowOverPacking has followers whose file is packed under their hands.
func TestFollowOverPacking(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	w := open(t, path, logs.Options{MaxSize: 16 << 10, MaxFiles: 2000, Compress: true})
	const count = 20000
	end := make(chan struct{})
	followers := make([]*follower, 0, 2)
	for range 2 {
		followers = append(followers, follow(t.Context(), path, logs.ReadOptions{Tail: -1, End: end}))
	}
	for i := range count {
		write(t, w, stdio.Stdout, fmt.Sprint(i, "\n"))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	close(end)
	if _, err := os.Stat(path + ".50.gz"); err != nil {
		t.Fatalf("too few packed files for this test: %v", err)
	}
	for _, f := range followers {
		for i := range count {
			f.expect(t, fmt.Sprint(i, "\n"))
		}
		f.expectEnd(t, nil)
	}
}

// TestPackedFilesRotate counts the files of both forms: none is more than MaxFiles, none is there twice.
func TestPackedFilesRotate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "log")
	for _, compress := range []bool{false, true, false, true} { // what another setting has left is taken over
		w := open(t, path, logs.Options{MaxSize: 1000, MaxFiles: 4, Compress: compress})
		for i := range 50 {
			write(t, w, stdio.Stdout, fmt.Sprintln("line", i))
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		numbers := map[string]bool{}
		for _, e := range entries {
			number := strings.TrimSuffix(e.Name(), ".gz")
			if numbers[number] {
				t.Errorf("%s is there in both forms", number)
			}
			numbers[number] = true
		}
		if want := map[string]bool{"log": true, "log.1": true, "log.2": true, "log.3": true}; !maps.Equal(numbers, want) {
			t.Errorf("files %v, want %v", numbers, want)
		}
		got := read(t, path, logs.ReadOptions{Tail: -1})
		for i, e := range got {
			if want := fmt.Sprintln("line", (50+50-len(got)%50+i)%50); e.line != want {
				t.Fatalf("compress %t: line %d of %d is %q, want %q", compress, i, len(got), e.line, want)
			}
		}
	}
}

// TestDamagedPackedFile: what a packed file has lost does not keep the rest from being read.
func TestDamagedPackedFile(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"cut":     func(b []byte) []byte { return b[:len(b)/2] },
		"empty":   func([]byte) []byte { return nil },
		"garbage": func([]byte) []byte { return []byte("no gzip at all, but long enough for a header") },
		"changed": func(b []byte) []byte { b[len(b)/2] ^= 0xff; return b },
	} {
		t.Run(name, func(t *testing.T) {
			path, _ := packedLog(t)
			raw, err := os.ReadFile(path + ".1.gz")
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path+".1.gz", damage(raw), 0o600); err != nil {
				t.Fatal(err)
			}
			got := lines(read(t, path, logs.ReadOptions{Tail: -1}))
			if !strings.HasPrefix(got, "000 ") || !strings.HasSuffix(got, "299 xxxxx\n") {
				t.Errorf("read %.20q … %q, want the first and the last line", got, got[max(len(got)-20, 0):])
			}
		})
	}
}

func TestLeftoverOfPackingGoes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path+".packing", []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, path, logs.Options{Compress: true})
	awaitFile(t, path+".packing", false)
}

func TestAttributes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	for _, attrs := range []string{"", `{"com.example":"a\u003cb","tag":"x/y"}`, `{"other":"1"}`} {
		w := open(t, path, logs.Options{Attrs: []byte(attrs)})
		write(t, w, stdio.Stdout, "out\n")
		write(t, w, stdio.Stderr, "err\n")
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	want := `{"log":"out\n","stream":"stdout","attrs":{"other":"1"},"time":"2026-11-21T07:30:01.12Z"}`
	if raw := content(t, path); !strings.Contains(raw, want) {
		t.Errorf("the file has\n%s\nwant a line\n%s", raw, want)
	}
	var got []map[string]string
	err := logs.Read(t.Context(), path, logs.ReadOptions{Stdout: true, Stderr: true, Tail: -1}, func(e logs.Entry) error {
		got = append(got, e.Attrs)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	first := map[string]string{"com.example": "a<b", "tag": "x/y"}
	for i, want := range []map[string]string{nil, nil, first, first, {"other": "1"}, {"other": "1"}} {
		if i >= len(got) || !maps.Equal(got[i], want) {
			t.Errorf("attributes %v, want entry %d to have %v", got, i, want)
		}
	}
}
