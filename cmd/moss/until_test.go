package main

import (
	"bytes"
	"errors"
	"testing"
	"time"
)

// FuzzLineWriter cuts a log in pieces at any place: what is shown must not depend on it.
func FuzzLineWriter(f *testing.F) {
	f.Add([]byte("2026-01-01T00:00:01Z one\n2026-01-01T00:00:02Z two\n2026-01-01T00:00:09Z late\n"), 7, 1)
	f.Add([]byte("no time\n\n 2026-01-01T00:00:01Z\npart"), 3, -1)
	f.Fuzz(func(t *testing.T, log []byte, size, last int) {
		show := func(size int) string {
			var out bytes.Buffer
			cut := &lineCut{end: time.Date(2026, 1, 1, 0, 0, 5, 0, time.UTC), last: max(last, -1)}
			cut.stdout, cut.stderr = &lineWriter{cut: cut, out: &out}, &lineWriter{cut: cut, out: &out}
			for rest := log; len(rest) > 0; {
				n := min(max(size, 1), len(rest))
				if _, err := cut.stdout.Write(rest[:n]); errors.Is(err, errLater) {
					break
				}
				rest = rest[n:]
			}
			if err := cut.flushLines(); err != nil {
				t.Errorf("finish: %v", err)
			}
			return out.String()
		}
		if whole, pieces := show(len(log)), show(size); whole != pieces {
			t.Errorf("log %q in pieces of %d: %q, whole: %q", log, size, pieces, whole)
		}
	})
}
