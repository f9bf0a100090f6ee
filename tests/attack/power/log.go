package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// told are the lines of an engine's log that explain a round: its starts and ends, what it found damaged, what it did with images,
// and what it has synced.
var told = regexp.MustCompile(` (WRN|ERR) | INF engine |/images/| synced `) //nolint:gochecknoglobals // a constant

// writeLogLines writes the lines of an engine's log that explain a round, and its last ones.
func writeLogLines(w io.Writer, path string, last int) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	all := strings.Split(strings.TrimRight(string(raw), "\n"), "\n")
	for i, line := range all {
		if told.MatchString(line) || len(all)-i <= last {
			if _, err := fmt.Fprintln(w, "    | "+line); err != nil {
				return err
			}
		}
	}
	return nil
}
