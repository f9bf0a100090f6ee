package monitor

import (
	"bytes"
	"io"
	"os"
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

func joinHub(t *testing.T, h *hub, req task.Attach) *os.File {
	t.Helper()
	v, peer := socketViewer(t, req)
	if err := h.join(v, false); err != nil {
		t.Fatal(err)
	}
	var reply proto.Reply
	if err := proto.Read(peer, &reply); err != nil {
		t.Fatal(err)
	}
	return peer
}

const floodSize = 8 << 20 // far more than sockets hold

// TestHubCutsOffWhoHoldsOthersUp: one viewer never reads, another gets everything all the same, soon. The first gets whole
// frames and is told why there are no more.
func TestHubCutsOffWhoHoldsOthersUp(t *testing.T) {
	t.Parallel()
	for _, framed := range []bool{true, false} {
		h := newHub(nil, framed)
		asleep := joinHub(t, h, task.Attach{Stdout: true, Stderr: true})
		awake := joinHub(t, h, task.Attach{Stdout: true, Stderr: true})
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
	h := newHub(nil, false)
	alone := joinHub(t, h, task.Attach{Stdout: true})
	joinHub(t, h, task.Attach{Stdin: true}) // waits for no output
	done := flood(h, stdio.Stdout, floodSize)
	select { // the moment is what counts: with another viewer it would have been cut off by then, and the flood be over
	case <-done:
		t.Fatal("a viewer that does not read was not waited for")
	case <-time.After(mostHeld + 500*time.Millisecond):
	}
	go func() { <-done; h.close() }()
	if n, err := io.Copy(io.Discard, alone); err != nil || n != floodSize {
		t.Errorf("the viewer got %d bytes, %v, want all %d", n, err, floodSize)
	}
}

func TestHubTellsWhoIsHeldUpFromAJoin(t *testing.T) {
	t.Parallel()
	h := newHub(nil, false)
	asleep := joinHub(t, h, task.Attach{Stdout: true})
	done := flood(h, stdio.Stdout, floodSize)
	select { // not waited for, the flood is over in a few milliseconds
	case <-done:
		t.Fatal("a viewer that does not read was not waited for")
	case <-time.After(50 * time.Millisecond):
	}
	late := joinHub(t, h, task.Attach{Stdout: true})
	go func() { <-done; h.close() }()
	if n, err := io.Copy(io.Discard, late); err != nil || n == 0 || n >= floodSize {
		t.Errorf("who came later got %d bytes, %v, want the rest of %d", n, err, floodSize)
	}
	got, err := io.ReadAll(asleep)
	if err != nil || !strings.Contains(string(got), "too slowly") {
		t.Errorf("who did not read got %d bytes, %v, want some and the reason", len(got), err)
	}
}

// TestHubBearsASlowViewer: who takes more than the slowest pace is never cut off, and sets the pace.
func TestHubBearsASlowViewer(t *testing.T) {
	t.Parallel()
	h := newHub(nil, false)
	slow := joinHub(t, h, task.Attach{Stdout: true})
	fast := joinHub(t, h, task.Attach{Stdout: true})
	done := flood(h, stdio.Stdout, floodSize/4)
	go func() { <-done; h.close() }()
	go io.Copy(io.Discard, fast) //nolint:errcheck // its end is the test's
	buf, n := make([]byte, 16<<10), 0
	for {
		m, err := slow.Read(buf)
		n += m
		if err != nil {
			break
		}
		time.Sleep(10 * time.Millisecond) // some 1.5 MB a second
	}
	if n != floodSize/4 {
		t.Errorf("the slow viewer got %d bytes, want all %d", n, floodSize/4)
	}
}

// TestHubLetsGoOfWhoIsCutOffAndLeaves: who was cut off and never reads is nobody's burden once it has gone.
func TestHubLetsGoOfWhoIsCutOffAndLeaves(t *testing.T) {
	t.Parallel()
	h := newHub(nil, false)
	v, peer := socketViewer(t, task.Attach{Stdout: true})
	if err := h.join(v, false); err != nil {
		t.Fatal(err)
	}
	other := joinHub(t, h, task.Attach{Stdout: true})
	done := flood(h, stdio.Stdout, floodSize)
	go io.Copy(io.Discard, other) //nolint:errcheck // its end is the test's
	<-done
	if err := peer.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-v.gone:
	case <-time.After(10 * time.Second):
		t.Error("the viewer is still there")
	}
	h.close()
}
