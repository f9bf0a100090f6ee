package relay

import (
	"time"

	"moss/engine/logsink"
)

// The delays before records are sent again to a receiver that did not take them, unless the sender's options say otherwise.
const (
	firstDelay = 100 * time.Millisecond // doubles
	lastDelay  = 5 * time.Second
)

// waits are the delays between tries.
type waits struct {
	policy logsink.RetryPolicy
	delay  time.Duration // the next one
	tries  int           // that failed in a row
}

func newWaits(s logsink.Sender) *waits {
	w := &waits{policy: logsink.RetryPolicy{First: firstDelay, Longest: lastDelay}}
	if r, ok := s.(logsink.Retrier); ok {
		w.policy = r.Retry()
	}
	w.resetDelay()
	return w
}

// resetDelay begins anew: the receiver took something.
func (w *waits) resetDelay() { w.delay, w.tries = w.policy.First, 0 }

// isLastTry counts a try that failed. It reports whether records are to be dropped.
func (w *waits) isLastTry() bool {
	w.tries++
	return w.tries == w.policy.Tries
}

// nextDelay returns the delay before the next try.
func (w *waits) nextDelay() time.Duration {
	delay := w.delay
	w.delay = min(2*w.delay, w.policy.Longest)
	return delay
}
