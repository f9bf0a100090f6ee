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

	"moss/engine/logs"
	"moss/engine/stdio"
)

// follower reads in the background and hands over what it gets.
type follower struct {
	lines chan string
	done  chan error
}

func follow(ctx context.Context, path string, opts logs.ReadOptions) *follower {
	f := &follower{lines: make(chan string, 1<<16), done: make(chan error, 1)}
	opts.Stdout, opts.Stderr, opts.Follow = true, true, true
	go func() {
		f.done <- logs.Read(ctx, path, opts, func(e logs.Entry) error { f.lines <- string(e.Line); return nil })
		close(f.lines)
	}()
	return f
}

func (f *follower) expect(t *testing.T, want string) {
	t.Helper()
	select {
	case got, ok := <-f.lines:
		if !ok || got != want {
			t.Fatalf("got %q (open %t), want %q", got, ok, want)
		}
	case <-time.After(time.Minute):
		t.Fatalf("no %q within a minute", want)
	}
}

func (f *follower) expectEnd(t *testing.T, want error) {
	t.Helper()
	select {
	case err := <-f.done:
		if !errors.Is(err, want) {
			t.Fatalf("Read = %v, want %v", err, want)
		}
	case <-time.After(time.Minute):
		t.Fatal("the follower does not end")
	}
	for line := range f.lines {
		t.Errorf("%q came besides", line)
	}
}

// expectQuiet gives the follower time to do what it must not: it reads at once what it takes for a line, or for its end.
func (f *follower) expectQuiet(t *testing.T) {
	t.Helper()
	select {
	case got := <-f.lines:
		t.Fatalf("got %q, want nothing yet", got)
	case err := <-f.done:
		t.Fatalf("ended with %v", err)
	case <-time.After(50 * time.Millisecond):
	}
}

// begin writes lines until the follower of new lines has begun and gets one, as all after that, and nothing older. It
// returns the number of the last.
func (f *follower) begin(t *testing.T, w *logs.Writer) (last int) {
	t.Helper()
	var got string
	for deadline := time.Now().Add(time.Minute); got == ""; last++ {
		if time.Now().After(deadline) {
			t.Fatal("the follower gets no line")
		}
		write(t, w, stdio.Stdout, fmt.Sprint("begun ", last, "\n"))
		select {
		case got = <-f.lines:
		case <-time.After(5 * time.Millisecond):
		}
	}
	last--
	var first int
	if _, err := fmt.Sscanf(got, "begun %d\n", &first); err != nil {
		t.Fatalf("got %q first, want a new line", got)
	}
	for first++; first <= last; first++ {
		f.expect(t, fmt.Sprint("begun ", first, "\n"))
	}
	return last
}

func TestFollow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	w := open(t, path, logs.Options{})
	write(t, w, stdio.Stdout, "old\n")
	end := make(chan struct{})
	all := follow(t.Context(), path, logs.ReadOptions{Tail: -1, End: end})
	all.expect(t, "old\n")
	fresh := follow(t.Context(), path, logs.ReadOptions{Tail: 0, End: end})
	fresh.expectQuiet(t) // with an older line it would begin by that
	last := fresh.begin(t, w)
	for i := range last + 1 {
		all.expect(t, fmt.Sprint("begun ", i, "\n"))
	}
	for i := range 100 {
		write(t, w, stdio.Stderr, fmt.Sprint(i, "\n"))
		for _, f := range []*follower{all, fresh} {
			f.expect(t, fmt.Sprint(i, "\n"))
		}
	}
	write(t, w, stdio.Stdout, "rest")
	all.expectQuiet(t)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	close(end)
	for _, f := range []*follower{all, fresh} {
		f.expect(t, "rest")
		f.expectEnd(t, nil)
	}
}

func TestFollowEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	w := open(t, path, logs.Options{})
	write(t, w, stdio.Stdout, "old\n")

	t.Run("cancel", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		f := follow(ctx, path, logs.ReadOptions{Tail: -1})
		f.expect(t, "old\n")
		f.expectQuiet(t)
		cancel()
		f.expectEnd(t, context.Canceled)
	})
	t.Run("until", func(t *testing.T) {
		until := time.Now().Add(200 * time.Millisecond)
		f := follow(t.Context(), path, logs.ReadOptions{Tail: -1, Until: until})
		f.expect(t, "old\n")
		f.expectEnd(t, nil)
		if time.Now().Before(until) {
			t.Error("ended too early")
		}
	})
	t.Run("ended before", func(t *testing.T) {
		end := make(chan struct{})
		close(end)
		f := follow(t.Context(), path, logs.ReadOptions{Tail: -1, End: end})
		f.expect(t, "old\n")
		f.expectEnd(t, nil)
	})
}

// TestFollowBeforeTheLogExists begins before the first Open.
func TestFollowBeforeTheLogExists(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	end := make(chan struct{})
	f := follow(t.Context(), path, logs.ReadOptions{Tail: 10, End: end})
	f.expectQuiet(t)
	w := open(t, path, logs.Options{})
	write(t, w, stdio.Stdout, "first\n")
	f.expect(t, "first\n")
	close(end)
	f.expectEnd(t, nil)
}

// TestFollowOverRotations writes quickly into small files while several followers read: each must get every line once.
func TestFollowOverRotations(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	w := open(t, path, logs.Options{MaxSize: 16 << 10, MaxFiles: 2000})
	const count = 30000
	end := make(chan struct{})
	followers := make([]*follower, 0, 3)
	for range 3 {
		followers = append(followers, follow(t.Context(), path, logs.ReadOptions{Tail: -1, End: end}))
	}
	for i := range count {
		write(t, w, stdio.Stdout, fmt.Sprint(i, "\n"))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	close(end)
	if _, err := os.Stat(path + ".100"); err != nil {
		t.Fatalf("too few rotations for this test: %v", err)
	}
	for _, f := range followers {
		for i := range count {
			f.expect(t, fmt.Sprint(i, "\n"))
		}
		f.expectEnd(t, nil)
	}
}

// TestFollowOneFile rotates with a single file: a follower that keeps up still gets every line, although each old file
// is deleted at once.
func TestFollowOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	w := open(t, path, logs.Options{MaxSize: 1 << 10, MaxFiles: 1})
	end := make(chan struct{})
	write(t, w, stdio.Stdout, "begin\n")
	f := follow(t.Context(), path, logs.ReadOptions{Tail: -1, End: end})
	f.expect(t, "begin\n")
	for i := range 500 {
		a, b := fmt.Sprint("a", i, "\n"), fmt.Sprint("b", i, "\n")
		write(t, w, stdio.Stdout, a+b) // one of them often ends an old file, the other begins a new one
		f.expect(t, a)
		f.expect(t, b)
	}
	close(end)
	f.expectEnd(t, nil)
}

// TestFollowTakesBackTornLines plays a writer on a full disk: half a line appears, goes, and another line comes.
func TestFollowTakesBackTornLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	entry := func(s string) string {
		return `{"log":"` + s + `\n","stream":"stdout","time":"2026-11-21T07:30:01Z"}` + "\n"
	}
	if err := os.WriteFile(path, []byte(entry("a")), 0o600); err != nil {
		t.Fatal(err)
	}
	end := make(chan struct{})
	f := follow(t.Context(), path, logs.ReadOptions{Tail: -1, End: end})
	f.expect(t, "a\n")
	appendRaw := func(s string) {
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteString(s); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	appendRaw(entry(strings.Repeat("lost", 100))[:200])
	f.expectQuiet(t)
	if err := os.Truncate(path, int64(len(entry("a")))); err != nil {
		t.Fatal(err)
	}
	appendRaw(entry("b"))
	f.expect(t, "b\n")
	if err := os.Truncate(path, 0); err != nil { // by people
		t.Fatal(err)
	}
	f.expectQuiet(t)
	appendRaw(entry("c"))
	f.expect(t, "c\n")
	close(end)
	f.expectEnd(t, nil)
}
