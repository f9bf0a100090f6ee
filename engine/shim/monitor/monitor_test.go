package monitor

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/shim/proto"
	"moss/engine/stdio"
	"moss/engine/task"
)

func TestOOMKills(t *testing.T) {
	for text, want := range map[string]int{
		"": 0,
		"low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n": 2,
		"oom_kill_disable 0\nunder_oom 0\noom_kill 1\n":                1,
		"oom_kill x\n": 0,
		"oom_kill 7":   7,
	} {
		if got := oomKills(text); got != want {
			t.Errorf("oomKills(%q) = %d, want %d", text, got, want)
		}
	}
}

func FuzzOOMKills(f *testing.F) {
	f.Add("oom_kill 2\n")
	f.Fuzz(func(t *testing.T, text string) {
		if got := oomKills(text); got != 0 && !strings.Contains(text, "oom_kill ") {
			t.Fatalf("oomKills(%q) = %d", text, got)
		}
	})
}

func TestOOMOfABundle(t *testing.T) {
	for name, config := range map[string]string{"no file": "", "no cgroup": `{"linux":{}}`, "not JSON": `{`, "cgroup that is gone": `{"linux":{"cgroupsPath":"/no/such/cgroup"}}`} {
		dir := t.TempDir()
		if config != "" {
			if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if oomKilled(dir) {
			t.Errorf("%s: oomKilled = true, want false", name)
		}
	}
}

// testPipe returns a source and what feeds it.
func testPipe(t *testing.T, idle func()) (*source, *os.File) {
	t.Helper()
	p, err := newPipe("test", false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.ours.Close()
		_ = p.theirs.Close()
	})
	src, err := newSource(p.ours, idle)
	if err != nil {
		t.Fatal(err)
	}
	return src, p.theirs
}

func TestSource(t *testing.T) {
	idled := 0
	src, in := testPipe(t, func() { idled++ })
	if _, err := in.WriteString("hello"); err != nil {
		t.Fatal(err)
	}
	frame, err := src.next()
	if err != nil || string(frame[stdio.HeaderSize:]) != "hello" {
		t.Fatalf("next = %q, %v, want room and hello", frame, err)
	}
	_ = in.Close()
	if _, err := src.next(); !errors.Is(err, io.EOF) || idled != 0 {
		t.Errorf("next after the end = %v, idle %d times, want %v, 0", err, idled, io.EOF)
	}
}

func TestSourceGrowsAndGivesBack(t *testing.T) {
	t.Parallel()
	idled := make(chan struct{}, 16)
	src, in := testPipe(t, func() { idled <- struct{}{} })
	sent := bytes.Repeat([]byte("x"), 60<<10)
	go func() { _, _ = in.Write(sent) }()
	got := 0
	for got < len(sent) {
		frame, err := src.next()
		if err != nil {
			t.Fatal(err)
		}
		got += len(frame) - stdio.HeaderSize
	}
	if len(src.buf) != stdio.HeaderSize+largeBuffer {
		t.Errorf("buffer of %d bytes while data flows, want %d", len(src.buf), stdio.HeaderSize+largeBuffer)
	}
	for len(idled) > 0 {
		<-idled
	}
	go func() {
		defer in.WriteString("late") //nolint:errcheck // next tells
		overdue := time.After(quietAfter + 10*time.Second)
		for begin := time.Now(); time.Since(begin) < quietAfter; {
			select {
			case <-idled: // next waits: at first, and again when it has given the buffer back
			case <-overdue:
				return
			}
		}
	}()
	frame, err := src.next()
	if err != nil || string(frame[stdio.HeaderSize:]) != "late" || len(src.buf) != stdio.HeaderSize+smallBuffer {
		t.Errorf("next after a rest = %q, %v with a buffer of %d bytes, want late in a small one", frame, err, len(src.buf))
	}
}

func TestSourceStops(t *testing.T) {
	for name, before := range map[string]bool{"while it waits": false, "before": true} {
		src, _ := testPipe(t, nil)
		if before {
			src.stop()
		} else {
			time.AfterFunc(20*time.Millisecond, src.stop)
		}
		if _, err := src.next(); !errors.Is(err, io.EOF) {
			t.Errorf("next stopped %s = %v, want %v", name, err, io.EOF)
		}
	}
}

// TestSourceStopsLast: what was written before stop is not lost, whenever next is called.
func TestSourceStopsLast(t *testing.T) {
	src, in := testPipe(t, nil)
	if _, err := in.WriteString("last words"); err != nil {
		t.Fatal(err)
	}
	src.stop()
	frame, err := src.next()
	if err != nil || string(frame[stdio.HeaderSize:]) != "last words" {
		t.Errorf("next after stop = %q, %v, want what was written before", frame, err)
	}
	if _, err := src.next(); !errors.Is(err, io.EOF) {
		t.Errorf("next after that = %v, want %v", err, io.EOF)
	}
}

// socketViewer returns a viewer and the engine's end of its connection.
func socketViewer(t *testing.T, req task.Attach) (*viewer, *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	conn, peer := os.NewFile(uintptr(fds[0]), "shim"), os.NewFile(uintptr(fds[1]), "engine")
	t.Cleanup(func() {
		_ = conn.Close()
		_ = peer.Close()
	})
	v, err := newViewer(conn, req)
	if err != nil {
		t.Fatal(err)
	}
	return v, peer
}

func hubFrame(text string) []byte {
	return append(make([]byte, stdio.HeaderSize), text...)
}

func TestHubQueuesAfterTheEnd(t *testing.T) {
	h := newHub(false)
	v, peer := socketViewer(t, task.Attach{Stdout: true})
	if err := h.attachViewer(v, true); err != nil {
		t.Fatal(err)
	}
	var reply proto.Reply
	if err := proto.Read(peer, &reply); err != nil || reply.Mark == nil || *reply.Mark != (task.Mark{}) {
		t.Fatalf("reply = %+v, %v, want an empty mark", reply, err)
	}
	const pieces, size = 64, 64 << 10 // far more than a socket holds
	done := make(chan struct{})
	go func() {
		for range pieces {
			h.write(stdio.Stdout, hubFrame(strings.Repeat("x", size)))
		}
		h.write(stdio.Stderr, hubFrame("not asked for"))
		h.close()
		close(done)
	}()
	select {
	case <-done:
		t.Fatal("a viewer that does not read was not waited for")
	case <-time.After(50 * time.Millisecond):
	}
	h.unblockViewers()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("the end waits for a viewer that does not read")
	}
	got, err := io.ReadAll(peer)
	if err != nil || len(got) != pieces*size {
		t.Errorf("the viewer got %d bytes, %v, want all %d", len(got), err, pieces*size)
	}
	late, _ := socketViewer(t, task.Attach{Stdout: true})
	if err := h.attachViewer(late, false); !fault.Is(err, fault.Conflict) {
		t.Errorf("join after the end = %v, want a conflict", err)
	}
}

func TestHubDropsDeadViewers(t *testing.T) {
	h := newHub(true)
	dead, peer := socketViewer(t, task.Attach{Stdout: true})
	live, other := socketViewer(t, task.Attach{Stdout: true})
	for _, v := range []*viewer{dead, live} {
		if err := h.attachViewer(v, false); err != nil {
			t.Fatal(err)
		}
	}
	_ = peer.Close()
	h.write(stdio.Stdout, hubFrame("one"))
	select {
	case <-dead.gone:
	default:
		t.Error("the dead viewer's connection is still there")
	}
	h.removeViewer(dead)
	h.removeViewer(dead)
	h.write(stdio.Stdout, hubFrame("two"))
	h.close()
	var reply proto.Reply
	if err := proto.Read(other, &reply); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := stdio.Demux(other, &out, nil); err != nil || out.String() != "onetwo" {
		t.Errorf("the other viewer got %q, %v, want %q", out.String(), err, "onetwo")
	}
}

func TestListenerClosed(t *testing.T) {
	l, err := openListener(t.TempDir(), "s.sock")
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(20*time.Millisecond, l.close)
	if _, err := l.accept(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("accept = %v, want %v", err, os.ErrClosed)
	}
	l.close()
	if _, err := os.Stat(l.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket file is still there (%v)", err)
	}
}

func TestCleanupWithoutTask(t *testing.T) {
	if err := Cleanup(t.Context(), t.TempDir()); !fault.Is(err, fault.NotFound) {
		t.Errorf("Cleanup of an empty folder = %v, want not found", err)
	}
}
