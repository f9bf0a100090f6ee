package monitor

import (
	"bytes"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"moss/engine/shim/proto"
	"moss/engine/stdio"
	"moss/engine/task"
)

// flood writes pieces of output to a hub until limit bytes are through, and returns a channel that is closed then.
func flood(h *hub, stream stdio.Stream, limit int) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		const piece = 64 << 10
		text := strings.Repeat("x", piece)
		for range limit / piece {
			h.write(stream, hubFrame(text))
		}
	}()
	return done
}

func joinHub(t *testing.T, h *hub, req task.Attach) (*viewer, *os.File) {
	t.Helper()
	v, peer := socketViewer(t, req)
	if err := h.attachViewer(v, false); err != nil {
		t.Fatal(err)
	}
	var reply proto.Reply
	if err := proto.Read(peer, &reply); err != nil {
		t.Fatal(err)
	}
	return v, peer
}

// awaitHeld waits until output waits for a viewer.
func awaitHeld(t *testing.T, v *viewer, flooded <-chan struct{}) {
	t.Helper()
	for v.pending.Load() == 0 {
		select {
		case <-flooded:
			t.Fatal("a viewer that does not read was not waited for")
		case <-time.After(time.Millisecond):
		}
	}
}

const floodSize = 8 << 20 // far more than sockets hold

// TestHubCutsOffWhoHoldsOthersUp: one viewer never reads, another gets everything all the same, soon. The first gets whole
// frames and is told why there are no more.
func TestHubCutsOffWhoHoldsOthersUp(t *testing.T) {
	t.Parallel()
	for _, framed := range []bool{true, false} {
		h := newHub(framed)
		_, asleep := joinHub(t, h, task.Attach{Stdout: true, Stderr: true})
		_, awake := joinHub(t, h, task.Attach{Stdout: true, Stderr: true})
		done, errs := flood(h, stdio.Stdout, floodSize), flood(h, stdio.Stderr, floodSize)
		go func() { <-done; <-errs; h.close() }()
		var got bytes.Buffer
		if framed {
			if err := stdio.Demux(awake, &got, &got); err != nil {
				t.Fatal(err)
			}
		} else if _, err := io.Copy(&got, awake); err != nil {
			t.Fatal(err)
		}
		if got.Len() != 2*floodSize {
			t.Errorf("framed %t: who reads got %d bytes, want %d", framed, got.Len(), 2*floodSize)
		}
		var all, words bytes.Buffer
		if framed {
			if err := stdio.Demux(asleep, &all, &words); err != nil {
				t.Errorf("who did not read got a torn frame: %v", err)
			}
		} else if _, err := io.Copy(&words, asleep); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(strings.TrimSpace(words.String()), "while others waited for the output") || all.Len()+words.Len() > 1<<20 {
			t.Errorf("framed %t: who did not read got %d bytes, then …%.100q, want little and the reason", framed, all.Len(),
				words.String()[max(0, words.Len()-100):])
		}
	}
}

// TestHubWaitsForWhoIsAlone: nobody else looks, so that the process is held up and nothing is lost; it is no cut-off when
// another comes later who reads, unless the first goes on not reading.
func TestHubWaitsForWhoIsAlone(t *testing.T) {
	t.Parallel()
	h := newHub(false)
	h.patience = time.Millisecond
	v, alone := joinHub(t, h, task.Attach{Stdout: true})
	joinHub(t, h, task.Attach{Stdin: true}) // waits for no output
	done := flood(h, stdio.Stdout, floodSize)
	awaitHeld(t, v, done)
	select { // the moment is what counts: with another viewer it would have been cut off by then, and the flood be over
	case <-done:
		t.Fatal("a viewer that does not read was not waited for")
	case <-time.After(500 * time.Millisecond):
	}
	go func() { <-done; h.close() }()
	if n, err := io.Copy(io.Discard, alone); err != nil || n != floodSize {
		t.Errorf("the viewer got %d bytes, %v, want all %d", n, err, floodSize)
	}
}

func TestHubTellsWhoIsHeldUpFromAJoin(t *testing.T) {
	t.Parallel()
	h := newHub(false)
	v, asleep := joinHub(t, h, task.Attach{Stdout: true})
	done := flood(h, stdio.Stdout, floodSize)
	awaitHeld(t, v, done)
	_, late := joinHub(t, h, task.Attach{Stdout: true})
	go func() { <-done; h.close() }()
	if n, err := io.Copy(io.Discard, late); err != nil || n == 0 || n >= floodSize {
		t.Errorf("who came later got %d bytes, %v, want the rest of %d", n, err, floodSize)
	}
	got, err := io.ReadAll(asleep)
	if err != nil || !strings.Contains(string(got), "too slowly") {
		t.Errorf("who did not read got %d bytes, %v, want some and the reason", len(got), err)
	}
}

// TestHubBearsASlowViewer: who takes no less than the slowest pace is never cut off, and sets the pace. The time that others
// wait is the test's.
func TestHubBearsASlowViewer(t *testing.T) {
	t.Parallel()
	h := newHub(false)
	v, slow := joinHub(t, h, task.Attach{Stdout: true})
	_, fast := joinHub(t, h, task.Attach{Stdout: true})
	piece := make([]byte, 64<<10)
	takes := func(d time.Duration) { // the slow one needs so long for a piece
		l := &laggard{v: v, rest: piece}
		h.chargeLaggards([]*laggard{l}, nil, true, d-1)
		h.chargeLaggards(nil, l, true, 1)
	}
	for range 1000 {
		takes(fairTime(piece))
	}
	takes(fairTime(piece) + mostHeld - 1) // once
	if !slices.Contains(h.viewers, v) {
		t.Fatal("a viewer was cut off that had taken all at the slowest pace, and one piece somewhat later")
	}
	takes(fairTime(piece) - mostHeld/2) // makes up for it
	h.patience = time.Hour              // the time that counts from here on is the machine's
	done := flood(h, stdio.Stdout, floodSize/4)
	go func() { <-done; h.close() }()
	go io.Copy(io.Discard, fast) //nolint:errcheck // its end is the test's
	if n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{slow}, make([]byte, 1<<10)); err != nil || n != floodSize/4 {
		t.Errorf("the slow viewer got %d bytes, %v, want all %d", n, err, floodSize/4)
	}
}

// TestHubCountsWhatIsTooSlow: who is slower than the slowest pace is cut off when it has fallen behind too far.
func TestHubCountsWhatIsTooSlow(t *testing.T) {
	t.Parallel()
	h := newHub(false)
	v, _ := joinHub(t, h, task.Attach{Stdout: true})
	piece := make([]byte, 64<<10)
	const behind = 100 * time.Millisecond // with each piece
	for i := range int(mostHeld / behind) {
		if !slices.Contains(h.viewers, v) {
			t.Fatalf("cut off after %d pieces that came %s too late, want %d", i, behind, mostHeld/behind)
		}
		l := &laggard{v: v, rest: piece}
		h.chargeLaggards([]*laggard{l}, nil, true, fairTime(piece)+behind)
		h.chargeLaggards(nil, l, true, 0)
	}
	if slices.Contains(h.viewers, v) {
		t.Errorf("not cut off after %d pieces that came %s too late", mostHeld/behind, behind)
	}
}

// TestHubLetsGoOfWhoIsCutOffAndLeaves: who was cut off and never reads is nobody's burden once it has gone.
func TestHubLetsGoOfWhoIsCutOffAndLeaves(t *testing.T) {
	t.Parallel()
	h := newHub(false)
	v, peer := joinHub(t, h, task.Attach{Stdout: true})
	_, other := joinHub(t, h, task.Attach{Stdout: true})
	done := flood(h, stdio.Stdout, floodSize)
	go io.Copy(io.Discard, other) //nolint:errcheck // its end is the test's
	<-done
	if err := peer.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-v.gone:
	case <-time.After(time.Minute):
		t.Error("the viewer is still there")
	}
	h.close()
}
