package member

import "sync"

// change tells those who wait that something has changed. The zero value is ready.
type change struct {
	mu   sync.Mutex
	wait chan struct{}
}

// nextChange returns a channel that is closed at the next change.
func (c *change) nextChange() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wait == nil {
		c.wait = make(chan struct{})
	}
	return c.wait
}

// tellChange wakes all who wait.
func (c *change) tellChange() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wait != nil {
		close(c.wait)
		c.wait = nil
	}
}
