package logs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"moss/engine/logs"
	"moss/engine/stdio"
)

var stamp = time.Date(2026, 11, 21, 8, 30, 1, 120_000_000, time.FixedZone("", 3600))

func open(t *testing.T, path string, opts logs.Options) *logs.Writer {
	t.Helper()
	w, err := logs.Open(path, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return w
}

func write(t *testing.T, w *logs.Writer, stream stdio.Stream, text string) {
	t.Helper()
	if err := w.Write(stream, []byte(text), stamp); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestFormat(t *testing.T) {
	const out, errs = `","stream":"stdout","time":"2026-11-21T07:30:01.12Z"}` + "\n", `","stream":"stderr","time":"2026-11-21T07:30:01.12Z"}` + "\n"
	for _, tc := range []struct{ name, in, want string }{
		{"line", "hello\n", `{"log":"hello\n` + out},
		{"empty line", "\n", `{"log":"\n` + out},
		{"two lines", "a\nb\n", `{"log":"a\n` + out + `{"log":"b\n` + out},
		{"no newline at the end", "a\nb", `{"log":"a\n` + out + `{"log":"b` + out},
		{"carriage return", "a\r\n", `{"log":"a\r\n` + out},
		{"quotes", `say "hi" \o/` + "\n", `{"log":"say \"hi\" \\o/\n` + out},
		{"html", "<a&b>\n", `{"log":"\u003ca\u0026b\u003e\n` + out},
		{"control", "\x00\t\x1b[0m\x7f\b\n", `{"log":"\u0000\u0009\u001b[0m` + "\x7f" + `\u0008\n` + out},
		{"unicode", "grün 苔 🌱\n", `{"log":"grün 苔 🌱\n` + out},
		{"line ends of unicode", "a\u2028b\u2029\n", `{"log":"a\u2028b\u2029\n` + out},
		{"not unicode", "a\xffb\xc3\n", `{"log":"a\ufffdb\ufffd\n` + out},
		{"replacement itself", "\ufffd\n", `{"log":"` + "\ufffd" + `\n` + out},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			w := open(t, path, logs.Options{})
			write(t, w, stdio.Stdout, tc.in)
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			if got := content(t, path); got != tc.want {
				t.Errorf("%q gives\n%s\nwant\n%s", tc.in, got, tc.want)
			}
			for line := range strings.Lines(content(t, path)) {
				var v map[string]string
				if err := json.Unmarshal([]byte(line), &v); err != nil {
					t.Errorf("%q is not JSON: %v", line, err)
				}
			}
		})
	}
	t.Run("streams keep their own rest", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "log")
		w := open(t, path, logs.Options{})
		write(t, w, stdio.Stdout, "o1 ")
		write(t, w, stdio.Stderr, "e1 ")
		write(t, w, stdio.Stdout, "o2\no3")
		write(t, w, stdio.Stderr, "e2\n")
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		want := `{"log":"o1 o2\n` + out + `{"log":"e1 e2\n` + errs + `{"log":"o3` + out
		if got := content(t, path); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
	t.Run("mode", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "log")
		open(t, path, logs.Options{})
		if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
			t.Errorf("mode %v, %v, want 0600", info.Mode(), err)
		}
	})
}

// TestLongLines feeds long lines in chunks of different sizes: the pieces are the same, whatever the chunks.
func TestLongLines(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   string
		want []int // bytes of the entries
	}{
		{"just fits", strings.Repeat("x", 16383) + "\n", []int{16384}},
		{"one too many", strings.Repeat("x", 16384) + "\n", []int{16384, 1}},
		{"long", strings.Repeat("x", 40000) + "\nend\n", []int{16384, 16384, 7233, 4}},
		{"rune over the border", strings.Repeat("x", 16383) + "🌱\n", []int{16383, 5}},
		{"rune of three over the border", strings.Repeat("x", 16382) + "苔y\n", []int{16382, 5}},
		{"no runes at all", strings.Repeat("\xff", 16390) + "\n", []int{16384, 7}},
	} {
		for _, step := range []int{1, 7, 4096, 16383, 16384, 16385, 1 << 20} {
			t.Run(fmt.Sprint(tc.name, " by ", step), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "log")
				w := open(t, path, logs.Options{})
				for in := tc.in; in != ""; {
					n := min(step, len(in))
					write(t, w, stdio.Stdout, in[:n])
					in = in[n:]
				}
				if err := w.Flush(); err != nil {
					t.Fatal(err)
				}
				var text strings.Builder
				entries := read(t, path, logs.ReadOptions{Tail: -1})
				got := make([]int, 0, len(entries))
				for _, e := range entries {
					got = append(got, len(strings.ReplaceAll(e.line, "\ufffd", "?")))
					text.WriteString(e.line)
				}
				if fmt.Sprint(got) != fmt.Sprint(tc.want) {
					t.Errorf("entries of %v bytes, want %v", got, tc.want)
				}
				if want := strings.ToValidUTF8(strings.ReplaceAll(tc.in, "\xff", "\ufffd"), "?"); text.String() != want {
					t.Error("the text is not the same")
				}
			})
		}
	}
}

func TestWriteRefusesOtherStreams(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	w := open(t, path, logs.Options{})
	for _, s := range []stdio.Stream{stdio.Stdin, 3} {
		if err := w.Write(s, []byte("x\n"), stamp); err == nil {
			t.Errorf("Write(%v): no error", s)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(stdio.Stdout, []byte("x\n"), stamp); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Write after Close = %v, want ErrClosed", err)
	}
	if got := content(t, path); got != "" {
		t.Errorf("the log holds %q", got)
	}
}

func TestOpenRepairs(t *testing.T) {
	const whole = `{"log":"a\n","stream":"stdout","time":"2026-11-21T07:30:01Z"}` + "\n"
	for _, tc := range []struct{ name, before, want string }{
		{"whole", whole, whole},
		{"torn", whole + `{"log":"b`, whole},
		{"torn over blocks", whole + `{"log":"` + strings.Repeat("x", 20000), whole},
		{"torn only", `{"log":"b`, ""},
		{"zeros", whole + strings.Repeat("\x00", 5000), whole},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(path, []byte(tc.before), 0o600); err != nil {
				t.Fatal(err)
			}
			w := open(t, path, logs.Options{})
			if got := content(t, path); got != tc.want {
				t.Errorf("after Open: %q, want %q", got, tc.want)
			}
			write(t, w, stdio.Stdout, "next\n")
			if got := content(t, path); !strings.HasPrefix(got, tc.want+`{"log":"next\n"`) {
				t.Errorf("after Write: %q", got)
			}
		})
	}
	if _, err := logs.Open(filepath.Join(t.TempDir(), "missing", "log"), logs.Options{}); err == nil {
		t.Error("Open in a missing folder: no error")
	}
}

func TestRotation(t *testing.T) {
	for _, files := range []int{0, 1, 2, 4} {
		t.Run(fmt.Sprint(files, " files"), func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "log")
			w := open(t, path, logs.Options{MaxSize: 1000, MaxFiles: files})
			for i := range 100 {
				write(t, w, stdio.Stdout, fmt.Sprintf("line %d\nsecond %d\n", i, i))
			}
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			names := make([]string, 0, len(entries))
			for _, e := range entries {
				names = append(names, e.Name())
				info, err := e.Info()
				if err != nil {
					t.Fatal(err)
				}
				if info.Size() > 1000 || info.Size() < 100 {
					t.Errorf("%s has %d bytes", e.Name(), info.Size())
				}
			}
			want := []string{"log", "log.1", "log.2", "log.3"}[:max(files, 1)]
			if fmt.Sprint(names) != fmt.Sprint(want) {
				t.Errorf("files %v, want %v", names, want)
			}
			got := read(t, path, logs.ReadOptions{Tail: -1})
			for i, e := range got {
				n := 200 - len(got) + i
				want := fmt.Sprintf("line %d\n", n/2)
				if n%2 == 1 {
					want = fmt.Sprintf("second %d\n", n/2)
				}
				if e.line != want {
					t.Fatalf("entry %d from the end is %q, want %q", len(got)-i, e.line, want)
				}
			}
		})
	}
}

// TestBigLineInASmallFile has entries that are larger than a file may be: they are written all the same, one to a file.
func TestBigLineInASmallFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	w := open(t, path, logs.Options{MaxSize: 10, MaxFiles: 10})
	write(t, w, stdio.Stdout, "a\nb\nc\n")
	if got := lines(read(t, path, logs.ReadOptions{Tail: -1})); got != "a\nb\nc\n" {
		t.Errorf("read %q", got)
	}
	if got := content(t, path+".2"); !strings.HasPrefix(got, `{"log":"a\n"`) {
		t.Errorf("log.2 holds %q, want the first line", got)
	}
}

// TestRotationFails puts a folder where an older file should go. The lines go on in the old file.
func TestRotationFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	blocker := filepath.Join(path+".1", "x")
	if err := os.MkdirAll(blocker, 0o700); err != nil {
		t.Fatal(err)
	}
	w := open(t, path, logs.Options{MaxSize: 200, MaxFiles: 2})
	var failed error
	for i := range 10 {
		if err := w.Write(stdio.Stdout, fmt.Appendf(nil, "%d\n", i), stamp); err != nil {
			failed = err
		}
	}
	if failed == nil {
		t.Error("no Write told of the rotation")
	}
	if got := strings.Count(content(t, path), "\n"); got != 10 {
		t.Errorf("%d lines in the file, want 10", got)
	}
	if err := os.RemoveAll(path + ".1"); err != nil {
		t.Fatal(err)
	}
	write(t, w, stdio.Stdout, "10\n")
	if got := lines(read(t, path, logs.ReadOptions{Tail: -1})); got != "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n" {
		t.Errorf("read %q", got)
	}
	if got := strings.Count(content(t, path), "\n"); got != 1 {
		t.Errorf("%d lines in the new file, want 1", got)
	}
}

func TestTruncatedByPeople(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	w := open(t, path, logs.Options{MaxSize: 1000, MaxFiles: 2})
	write(t, w, stdio.Stdout, strings.Repeat("x", 500)+"\n")
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	write(t, w, stdio.Stdout, strings.Repeat("y", 500)+"\n")
	if got := content(t, path); !strings.HasPrefix(got, `{"log":"yyy`) {
		t.Errorf("the file begins with %.20q", got)
	}
	if _, err := os.Stat(path + ".1"); err == nil {
		t.Error("rotated although the file was empty")
	}
}

func TestMark(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	w := open(t, path, logs.Options{MaxSize: 300, MaxFiles: 5})
	write(t, w, stdio.Stdout, "a\nb\nunfinished \xe8\x8b") // the last two bytes begin a rune
	inode, size := w.Mark()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := info.Sys().(*syscall.Stat_t).Ino; inode != want || size != info.Size() {
		t.Errorf("Mark = %d, %d, want %d, %d", inode, size, want, info.Size())
	}
	for range 5 {
		write(t, w, stdio.Stdout, "\x94 later\n")
	}
	mark := &logs.Mark{Inode: inode, Size: size}
	for _, tc := range []struct {
		name string
		opts logs.ReadOptions
		want string
	}{
		{"all", logs.ReadOptions{Tail: -1, StopAt: mark}, "a\nb\nunfinished "},
		{"follow", logs.ReadOptions{Tail: -1, StopAt: mark, Follow: true}, "a\nb\nunfinished "},
		{"tail", logs.ReadOptions{Tail: 2, StopAt: mark}, "b\nunfinished "},
		{"gone", logs.ReadOptions{Tail: -1, StopAt: &logs.Mark{Inode: 1 << 62, Size: 9}}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := lines(read(t, path, tc.opts)); got != tc.want {
				t.Errorf("read %q, want %q", got, tc.want)
			}
		})
	}
	if got := read(t, path, logs.ReadOptions{Tail: -1})[3].line; got != "苔 later\n" {
		t.Errorf("the rune over the mark became %q", got)
	}
}

// TestManyWriters has both streams written at once by many goroutines, with rotation: every line arrives whole and once.
func TestManyWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	w := open(t, path, logs.Options{MaxSize: 20000, MaxFiles: 1000})
	const each = 2000
	var wg sync.WaitGroup
	for _, s := range []stdio.Stream{stdio.Stdout, stdio.Stderr} {
		wg.Go(func() {
			var all bytes.Buffer
			for i := range each {
				fmt.Fprintf(&all, "%v %d\n", s, i)
			}
			for b := all.Bytes(); len(b) > 0; {
				n := min(len(b), 1+len(b)%511)
				if err := w.Write(s, b[:n], time.Now()); err != nil {
					t.Error(err)
				}
				b = b[n:]
			}
		})
	}
	wg.Wait()
	next := map[stdio.Stream]int{}
	for _, e := range read(t, path, logs.ReadOptions{Tail: -1}) {
		if want := fmt.Sprintf("%v %d\n", e.stream, next[e.stream]); e.line != want {
			t.Fatalf("got %q, want %q", e.line, want)
		}
		next[e.stream]++
	}
	if next[stdio.Stdout] != each || next[stdio.Stderr] != each {
		t.Errorf("got %v lines, want %d each", next, each)
	}
}

// A log is gone on with where its end can be read, and begun where there is none.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "log")
	if err := logs.Check(path); err != nil {
		t.Errorf("Check of no log = %v, want nil", err)
	}
	if err := os.WriteFile(path, []byte("half a line"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := logs.Check(path); err != nil {
		t.Errorf("Check of a torn log = %v, want nil", err)
	}
	if err := logs.Check(dir); err == nil {
		t.Error("Check of what cannot be read = nil, want an error")
	}
}
