package monitor

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"moss/engine/fault"
	"moss/engine/shim/proto"
	"moss/engine/stdio"
	"moss/engine/task"
)

// hub takes all output to the log first and then to every viewer. What one viewer gets is exactly what follows the mark
// that it was given when it joined.
type hub struct {
	framed   bool          // viewers get frames; otherwise the raw bytes of a pty
	patience time.Duration // how far a viewer may fall behind, see mostHeld; tests set it before the first write

	// remote takes the output to a receiver; nil: none does. It may hold up writes, so no lock is held meanwhile.
	remote remoteLog

	mu      sync.Mutex    // guards the fields below
	log     logWriter     // nil: none is kept
	logErr  error         // the first trouble with the log
	viewers []*viewer     // replaced on every change, never changed in place
	ended   bool          // nobody joins any more
	dropped int64         // lines that the log has not got, once it is closed
	news    chan struct{} // closed and replaced when who waits for whom may have changed
}

func newHub(framed bool) *hub {
	return &hub{framed: framed, patience: mostHeld, news: make(chan struct{})}
}

// write takes one piece of output. Frame has stdio.HeaderSize bytes of room in front of the data. It blocks as long as the
// viewers do, until the hub has ended, but not long for one of them when others wait: see awaitLaggards.
func (h *hub) write(stream stdio.Stream, frame []byte) {
	data, at := frame[stdio.HeaderSize:], time.Now()
	h.mu.Lock()
	if h.log != nil {
		h.noteLocked(h.log.Write(stream, data, at))
	}
	viewers := h.viewers
	h.mu.Unlock()
	if h.remote != nil {
		h.noteError(h.remote.Write(stream, data, at))
	}
	if len(viewers) == 0 {
		return
	}
	out := data
	if h.framed {
		stdio.AppendHeader(frame[:0], stream, len(data))
		out = frame
	}
	var late []*laggard
	for _, v := range viewers {
		if !v.wantsStream(stream) {
			continue
		}
		if rest, locked := v.tryWrite(out); len(rest) > 0 || locked {
			late = append(late, &laggard{v: v, rest: rest, locked: locked})
		}
	}
	if len(late) > 0 {
		h.awaitLaggards(late)
	}
}

// flush makes what was written visible to the readers of the log.
func (h *hub) flush() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.log != nil {
		h.noteLocked(h.log.Flush())
	}
}

// attachViewer adds a viewer after sending it the reply with its mark. fault.Conflict when the task has ended.
func (h *hub) attachViewer(v *viewer, mark bool) error {
	v.mu.Lock() // output waits until the reply is sent
	defer v.mu.Unlock()
	reply, err := h.addViewer(v, mark)
	if err != nil {
		return err
	}
	if err := proto.Write(v.conn, reply); err != nil {
		h.removeViewer(v)
		return err
	}
	return nil
}

func (h *hub) addViewer(v *viewer, mark bool) (proto.Reply, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return proto.Reply{}, fault.Conflict("the task has ended")
	}
	m := task.Mark{}
	if mark && h.log != nil {
		h.noteLocked(h.log.Flush())
		m.Inode, m.Size = h.log.Mark()
	}
	h.viewers = append(slices.Clone(h.viewers), v)
	h.tellLocked()
	return proto.Reply{Mark: &m}, nil
}

// removeViewer removes a viewer. Removing it again does nothing.
func (h *hub) removeViewer(v *viewer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := slices.Index(h.viewers, v); i >= 0 {
		h.viewers = slices.Delete(slices.Clone(h.viewers), i, i+1)
		h.tellLocked()
	}
}

// unblockViewers keeps viewers, and soon a receiver, from holding up the output: what a viewer cannot take now is queued for it.
// Nobody joins any more.
func (h *hub) unblockViewers() {
	if h.remote != nil {
		h.remote.Expire(lastWait)
	}
	h.mu.Lock()
	h.ended = true
	viewers := h.viewers
	h.mu.Unlock()
	for _, v := range viewers {
		v.unblockWrites()
	}
}

// close closes the log and lets each viewer take what is queued for it, then the end. No output may come any more.
func (h *hub) close() {
	var dropped int64
	if h.remote != nil {
		h.noteError(h.remote.Close())
		dropped = h.remote.DroppedLines()
	}
	h.mu.Lock()
	h.ended = true
	if h.log != nil {
		h.noteLocked(h.log.Flush())
		h.noteLocked(h.log.Close())
		if b, ok := h.log.(*bufferedLog); ok {
			dropped = b.droppedLines()
		}
		h.log = nil
	}
	h.dropped = max(h.dropped, dropped)
	viewers := h.viewers
	h.viewers = nil
	h.mu.Unlock()
	for _, v := range viewers {
		go v.flushAndHangUp(nil)
	}
}

// droppedLines returns how many lines the log has not got, once the hub is closed.
func (h *hub) droppedLines() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dropped
}

// noteError is noteLocked for those without the lock.
func (h *hub) noteError(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.noteLocked(err)
}

// noteLocked reports the first trouble with the log. A full disk must not stop the container, nor fill another file.
func (h *hub) noteLocked(err error) {
	if err != nil && h.logErr == nil {
		h.logErr = err
		logError("write log", err)
	}
}

// logError writes to the shim's own log: stderr, which the engine has pointed at a file.
func logError(what string, err error) {
	fmt.Fprintf(os.Stderr, "%s %s: %v\n", time.Now().UTC().Format(time.RFC3339), what, err)
}
