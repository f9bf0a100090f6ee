package tunnel

import (
	"fmt"
	"sync"
	"time"
)

// reportPause is the least time between two reports: what goes wrong for one packet goes wrong for many.
const reportPause = time.Second

// reporter tells of what goes wrong while packets are carried, now and then.
type reporter struct {
	report func(string)

	mu      sync.Mutex // guards what follows
	last    time.Time
	skipped int
}

func (r *reporter) reportError(err error) { r.reportText("read packets from the device: %v", err) }

func (r *reporter) reportText(format string, args ...any) {
	skipped, due := r.beginReport()
	if !due {
		return
	}
	text := fmt.Sprintf(format, args...)
	if skipped > 0 {
		text = fmt.Sprintf("%s (and %d more that were not told)", text, skipped)
	}
	r.report(text)
}

// beginReport tells whether a report is due, and how many were not since the last.
func (r *reporter) beginReport() (skipped int, due bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if now.Sub(r.last) < reportPause {
		r.skipped++
		return 0, false
	}
	skipped, r.last, r.skipped = r.skipped, now, 0
	return skipped, true
}
