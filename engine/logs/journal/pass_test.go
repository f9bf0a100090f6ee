package journal

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"moss/engine/logs"
)

// TestFollowOfASlowJournal: after the end of the writer the rest comes slowly, each entry in time but all of them not. None
// is missed; a journal that gives nothing any more is not waited for.
func TestFollowOfASlowJournal(t *testing.T) {
	for _, tc := range []struct {
		name        string
		last, given int           // the writer's last entry, and the last that the journal has
		took        time.Duration // until the follow ends
	}{
		{"all come", 5, 5, 5 * (settleLimit - time.Millisecond)},
		{"the last was dropped", 5, 4, 4*(settleLimit-time.Millisecond) + settleLimit},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := 0
				r := &reader{opts: logs.ReadOptions{Stdout: true, Follow: true}, fn: func(logs.Entry) error { got++; return nil }}
				over := make(chan end, 1)
				over <- end{run: "1", ordinal: strconv.Itoa(tc.last)}
				lines := make(chan entry)
				go func() {
					for i := 1; i <= tc.given; i++ {
						time.Sleep(settleLimit - time.Millisecond)
						lines <- entry{Run: "1", Ordinal: strconv.Itoa(i), Stored: "1"}
					}
				}()
				begin := time.Now()
				done, err := r.passEntries(lines, over)
				if !done || err != nil || got != tc.given || time.Since(begin) != tc.took {
					t.Errorf("pass = %t, %v after %s with %d entries, want the end after %s with %d", done, err, time.Since(begin), got, tc.took, tc.given)
				}
			})
		})
	}
}
