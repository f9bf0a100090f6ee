package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"regexp"
	"time"
)

// syncs are what the engine has brought to the disk, by what it was.
type syncs map[string][]span

// span is from the beginning of a sync to its end.
type span struct{ begun, ended time.Time }

// syncLine is how the engine's log tells of one.
var syncLine = regexp.MustCompile(`synced begun=(\S+) took=([0-9.e-]+) what=(layers|records)`) //nolint:gochecknoglobals // a constant

// readSyncs reads an engine's log.
func readSyncs(path string) (syncs, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	all := syncs{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		words := syncLine.FindStringSubmatch(lines.Text())
		if words == nil {
			continue
		}
		begun, err := time.Parse(time.RFC3339Nano, words[1])
		took, terr := time.ParseDuration(words[2] + "ms")
		if err := errors.Join(err, terr); err != nil {
			return nil, fmt.Errorf("read the engine's log: %w", err)
		}
		all[words[3]] = append(all[words[3]], span{begun, begun.Add(took)})
	}
	return all, lines.Err()
}

// haveReached reports whether all that was there at one moment had reached the disk before another.
func (s syncs) haveReached(then, before time.Time) bool {
	for _, what := range []string{"layers", "records"} {
		there := false
		for _, sync := range s[what] {
			there = there || sync.begun.After(then) && sync.ended.Before(before)
		}
		if !there {
			return false
		}
	}
	return true
}

// longestBefore returns how long any of them took that had ended before a moment.
func (s syncs) longestBefore(before time.Time) (long time.Duration) {
	for _, spans := range s {
		for _, sync := range spans {
			if sync.ended.Before(before) {
				long = max(long, sync.ended.Sub(sync.begun))
			}
		}
	}
	return long
}
