package logs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"moss/engine/fault"
	"moss/engine/logs"
	"moss/engine/stdio"
)

// entry is a logs.Entry that outlives its call.
type entry struct {
	stream stdio.Stream
	at     time.Time
	line   string
}

func collect(to *[]entry) func(logs.Entry) error {
	return func(e logs.Entry) error {
		*to = append(*to, entry{e.Stream, e.Time, string(e.Line)})
		return nil
	}
}

// read reads both streams unless opts choose one.
func read(t *testing.T, path string, opts logs.ReadOptions) []entry {
	t.Helper()
	if !opts.Stdout && !opts.Stderr {
		opts.Stdout, opts.Stderr = true, true
	}
	var got []entry
	if err := logs.Read(t.Context(), path, opts, collect(&got)); err != nil {
		t.Fatal(err)
	}
	return got
}

func lines(entries []entry) string {
	var b strings.Builder
	for _, e := range entries {
		b.WriteString(e.line)
	}
	return b.String()
}

func TestReadChoices(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	w := open(t, path, logs.Options{})
	at := func(sec int) time.Time { return stamp.Add(time.Duration(sec) * time.Second) }
	for i, s := range []stdio.Stream{stdio.Stdout, stdio.Stderr, stdio.Stdout, stdio.Stderr, stdio.Stdout} {
		if err := w.Write(s, fmt.Appendf(nil, "%d\n", i), at(i)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		name string
		opts logs.ReadOptions
		want string
	}{
		{"all", logs.ReadOptions{Tail: -1}, "0 1 2 3 4"},
		{"stdout", logs.ReadOptions{Tail: -1, Stdout: true}, "0 2 4"},
		{"stderr", logs.ReadOptions{Tail: -1, Stderr: true}, "1 3"},
		{"since is inclusive", logs.ReadOptions{Tail: -1, Since: at(3)}, "3 4"},
		{"until is inclusive", logs.ReadOptions{Tail: -1, Until: at(1)}, "0 1"},
		{"since and until", logs.ReadOptions{Tail: -1, Since: at(1), Until: at(2)}, "1 2"},
		{"until long ago", logs.ReadOptions{Tail: -1, Until: at(-100)}, ""},
		{"tail none", logs.ReadOptions{Tail: 0}, ""},
		{"tail", logs.ReadOptions{Tail: 2}, "3 4"},
		{"tail more than there is", logs.ReadOptions{Tail: 99}, "0 1 2 3 4"},
		{"tail of stdout", logs.ReadOptions{Tail: 2, Stdout: true}, "2 4"},
		{"tail of stderr", logs.ReadOptions{Tail: 1, Stderr: true}, "3"},
		{"tail and since", logs.ReadOptions{Tail: 3, Since: at(4)}, "4"},
		{"tail before until", logs.ReadOptions{Tail: 2, Until: at(2)}, "1 2"},
		{"follow to a past until", logs.ReadOptions{Tail: -1, Follow: true, Until: at(1)}, "0 1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := read(t, path, tc.opts)
			if text := strings.TrimSpace(strings.ReplaceAll(lines(got), "\n", " ")); text != tc.want {
				t.Errorf("read %q, want %q", text, tc.want)
			}
			for _, e := range got {
				var n int
				if _, err := fmt.Sscan(e.line, &n); err != nil || !e.at.Equal(at(n)) || e.stream != stdio.Stdout+stdio.Stream(n%2) {
					t.Errorf("entry %q has stream %v and time %v", e.line, e.stream, e.at)
				}
			}
		})
	}
}

func TestReadErrors(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "log")
	none := func(logs.Entry) error { return nil }
	if err := logs.Read(t.Context(), path, logs.ReadOptions{Tail: -1}, none); !fault.Is(err, fault.Invalid) {
		t.Errorf("no stream: %v, want an Invalid", err)
	}
	if err := logs.Read(t.Context(), path, logs.ReadOptions{Stdout: true, Tail: -1}, none); err != nil {
		t.Errorf("a log that does not exist: %v, want an empty one", err)
	}
	for _, follow := range []bool{false, true} {
		opts := logs.ReadOptions{Stdout: true, Tail: -1, Follow: follow}
		if err := logs.Read(t.Context(), filepath.Join(dir, "missing", "log"), opts, none); !fault.Is(err, fault.NotFound) {
			t.Errorf("missing folder, follow %t: %v, want a NotFound", follow, err)
		}
	}
	w := open(t, path, logs.Options{})
	write(t, w, stdio.Stdout, "a\nb\n")
	stop := errors.New("enough")
	calls := 0
	err := logs.Read(t.Context(), path, logs.ReadOptions{Stdout: true, Tail: -1, Follow: true}, func(logs.Entry) error { calls++; return stop })
	if !errors.Is(err, stop) || calls != 1 {
		t.Errorf("got %v after %d calls, want the callback's error after 1", err, calls)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := logs.Read(ctx, path, logs.ReadOptions{Stdout: true, Tail: -1}, none); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestReadDamage(t *testing.T) {
	good := func(s string) string {
		return `{"log":"` + s + `\n","stream":"stdout","time":"2026-11-21T07:30:01.5Z"}` + "\n"
	}
	for _, tc := range []struct{ name, file, want string }{
		{"torn end", good("a") + good("b") + `{"log":"c\n","stream":"std`, "a\nb\n"},
		{"whole but for the newline", good("a") + strings.TrimSpace(good("b")), "a\n"},
		{"damage between", good("a") + "garbage\n\n{}\n[1]\nnull\n" + good("b"), "a\nb\n"},
		{"zeros", good("a") + strings.Repeat("\x00", 300) + good("x") + good("b"), "a\nb\n"},
		{"another stream", good("a") + `{"log":"x\n","stream":"stdin","time":"2026-11-21T07:30:01Z"}` + "\n" + good("b"), "a\nb\n"},
		{"no time", `{"log":"x\n","stream":"stdout","time":"soon"}` + "\n" + good("b"), "b\n"},
		{"other order and more fields", `{"time":"2026-11-21T08:30:01.5+01:00", "attrs":{"tag":"\"x"},"stream":"stdout","log":"a\n"}` + "\n" + good("b"), "a\nb\n"},
		{"attributes in the middle", `{"log":"a\n","attrs":{"a":"b"},"stream":"stdout","time":"2026-11-21T07:30:01.5Z"}` + "\n", "a\n"},
		{"escapes", good(`\"\\\/\b\f\r\t\u00e4\ud83c\udf31\ud83c`), "\"\\/\b\f\r\tä🌱\ufffd\n"},
		{"bad escape", good(`\x`) + good("b"), "b\n"},
		{"huge line", good("a") + strings.Repeat("x", 3<<20) + "\n" + good("b"), "a\nb\n"},
		{"huge torn end", good("a") + strings.Repeat("x", 3<<20), "a\n"},
		{"long line", good(strings.Repeat("x", 500<<10)), strings.Repeat("x", 500<<10) + "\n"},
		{"empty", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(path, []byte(tc.file), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, tail := range []int{-1, 1000} {
				got := read(t, path, logs.ReadOptions{Tail: tail})
				if lines(got) != tc.want {
					t.Errorf("tail %d: read %.100q, want %.100q", tail, lines(got), tc.want)
				}
				for _, e := range got {
					if want := time.Date(2026, 11, 21, 7, 30, 1, 500_000_000, time.UTC); e.at != want {
						t.Errorf("time %v, want %v", e.at, want)
					}
				}
			}
		})
	}
}

// TestTail compares every tail with the end of the whole reading, over rotated files and blocks of the reader.
func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	w := open(t, path, logs.Options{MaxSize: 300 << 10, MaxFiles: 99})
	var want []string
	for i := range 9000 {
		line := fmt.Sprintf("%d %s\n", i, strings.Repeat("x", i*7919%150))
		if i%1000 == 500 {
			line = fmt.Sprintf("%d %s\n", i, strings.Repeat("<", 60000)) // four entries of nearly 100 KiB
		}
		want = append(want, line)
		write(t, w, stdio.Stdout, line)
	}
	write(t, w, stdio.Stdout, "unfinished")
	want = append(want, "unfinished")
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 1, 2, 3, 100, 499, 500, 501, 502, 503, 1000, 2499, 2500, 2501, 2502, 5000, 8999, 9000, 9001, 9002, 1 << 40} {
		if got, want := lines(read(t, path, logs.ReadOptions{Tail: n})), strings.Join(want[max(len(want)-n, 0):], ""); got != want {
			t.Errorf("tail %d: %d bytes that begin with %.20q, want %d that begin with %.20q", n, len(got), got, len(want), want)
		}
	}
}
