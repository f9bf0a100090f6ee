package conn

import (
	"context"
	"sync"
)

// Feed is a stream of JSON messages that never makes who sends wait: a slow client must not hold up the work that it is
// told of, nor others that wait for the same work. Messages queue; one that only says how far something has come takes
// the place of its forerunner while that has not been sent. It may be used by any number of goroutines.
type Feed struct {
	stream *JSON
	done   chan struct{} // closed when the sending has ended
	wake   chan struct{} // has room for one

	mu     sync.Mutex // guards the fields below
	queue  []queued
	size   int            // bytes of the messages in queue
	taken  chan struct{}  // closed when the queue is next emptied
	newest map[string]int // index in queue of a topic's last message
	begun  bool           // something was put
	closed bool
	gone   bool // the client has hung up
}

// queued is one message that waits.
type queued struct {
	step    string // what may be replaced by a message of the same step; empty: nothing
	message []byte
}

// NewFeed starts sending what is put. The stream is the feed's until Close.
func NewFeed(stream *JSON) *Feed {
	f := &Feed{
		stream: stream, done: make(chan struct{}), wake: make(chan struct{}, 1), taken: make(chan struct{}),
		newest: map[string]int{},
	}
	go f.sendMessages()
	return f
}

// Put queues a message about a topic. One with a step replaces the topic's last message if that has the same step and was
// not sent yet. The message must not be changed any more. After the client's hang-up it does nothing.
func (f *Feed) Put(topic, step string, message []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone || f.closed {
		return
	}
	if i, known := f.newest[topic]; known && step != "" && f.queue[i].step == step {
		f.size += len(message) - len(f.queue[i].message)
		f.queue[i].message = message
		return
	}
	f.begun = true
	f.size += len(message)
	f.newest[topic] = len(f.queue)
	f.queue = append(f.queue, queued{step: step, message: message})
	f.wakeSender()
}

// Wait lets who sends go at the client's pace: it blocks while more than most bytes are queued, the client is there and
// ctx is not done.
func (f *Feed) Wait(ctx context.Context, most int) {
	for {
		f.mu.Lock()
		full, taken := f.size > most && !f.gone && !f.closed, f.taken
		f.mu.Unlock()
		if !full {
			return
		}
		select {
		case <-taken:
		case <-ctx.Done():
			return
		}
	}
}

// Begun reports whether there was a message: an error can be a status no more then.
func (f *Feed) Begun() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.begun
}

// Close sends what is left and waits for it. What is put afterwards is dropped.
func (f *Feed) Close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.wakeSender()
	<-f.done
}

// wakeSender wakes the sending.
func (f *Feed) wakeSender() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// sendMessages sends until the feed is closed and everything is out, or the client has gone.
func (f *Feed) sendMessages() {
	defer close(f.done)
	for range f.wake {
		for {
			batch, closed := f.takeBatch()
			if len(batch) == 0 {
				if closed {
					return
				}
				break
			}
			if err := f.stream.SendAll(batch); err != nil {
				f.giveUp()
				return
			}
		}
	}
}

// takeBatch empties the queue.
func (f *Feed) takeBatch() (batch [][]byte, closed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, q := range f.queue {
		batch = append(batch, q.message)
	}
	f.emptyLocked()
	return batch, f.closed
}

// giveUp drops what is queued for a client that has gone.
func (f *Feed) giveUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gone = true
	f.emptyLocked()
}

func (f *Feed) emptyLocked() {
	f.queue, f.size = nil, 0
	clear(f.newest)
	close(f.taken)
	f.taken = make(chan struct{})
}
