package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// copyOutput copies what the stage printed, between two lines that name it.
func (r result) copyOutput(w io.Writer) error {
	log, err := os.Open(r.log)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // it is only read
	_, err = io.Copy(w, io.MultiReader(strings.NewReader("\n=== "+r.name+"\n"), log, strings.NewReader("--- "+r.statusLine()+"\n")))
	return err
}

// statusLine says how the stage ended, how long it took, and how much of the processors.
func (r result) statusLine() string {
	how := "ok    "
	if r.err != nil {
		how = "FAILED"
	}
	text := fmt.Sprintf("%s  %-14s  %4.0f s, CPU %4.1f minutes", how, r.name, r.took.Seconds(), r.cpu.Minutes())
	if r.err != nil {
		text += ": " + r.err.Error()
	}
	return text
}

// failureLines is how many lines of a failed stage the summary shows.
const failureLines = 40

// summarizeResults returns the end of a run: a line for each stage with the closing lines of its runner, the first
// lines of each failure, and the floor; and whether all stages passed.
func summarizeResults(results []result) (text string, passed bool) {
	var w strings.Builder
	fmt.Fprintln(&w, "\n=== summary")
	var cpu time.Duration
	failed := 0
	for _, r := range results {
		cpu += r.cpu
		raw, _ := os.ReadFile(r.log) // it was shown already
		fmt.Fprintln(&w, r.statusLine())
		for _, closing := range findLines(closingLine(), string(raw), failureLines) {
			fmt.Fprintln(&w, "        "+closing)
		}
		if r.err == nil {
			continue
		}
		failed++
		for _, l := range failedLines(string(raw)) {
			fmt.Fprintln(&w, "      | "+l)
		}
	}
	processors := runtime.NumCPU()
	fmt.Fprintf(&w, "CPU %.1f minutes; on %d processors no less than %.1f\n", cpu.Minutes(), processors, cpu.Minutes()/float64(processors))
	fmt.Fprintf(&w, "stages: %d passed, %d failed\n", len(results)-failed, failed)
	return w.String(), failed == 0
}

// closingLine matches the lines with which runners and linters end.
func closingLine() *regexp.Regexp {
	return regexp.MustCompile(`^(go|bats|bats-[a-z-]+|guest|layers|compat|powercut): ([0-9]+|left out)|^[0-9]+ issues`)
}

// failureLine matches the line with which a failure begins.
func failureLine() *regexp.Regexp {
	return regexp.MustCompile(`^not ok |^\s*--- FAIL|^FAIL|^panic: |WARNING: DATA RACE|^make.*\*\*\*|^\s*\S+\.go:[0-9]+:`)
}

func findLines(pattern *regexp.Regexp, text string, most int) (found []string) {
	for l := range strings.Lines(text) {
		if l = strings.TrimRight(l, "\n"); pattern.MatchString(l) && len(found) < most {
			found = append(found, l)
		}
	}
	return found
}

// failedLines returns the lines of a log that say what failed, each with a few that follow it, and with all that bats says
// of it (up to 20); if none does, the log's last ones.
func failedLines(log string) []string {
	lines := strings.Split(strings.TrimRight(log, "\n"), "\n")
	pattern := failureLine()
	var told []string
	shown := 0 // lines up to here are told
	for i, l := range lines {
		if i >= shown && pattern.MatchString(l) && len(told) < failureLines {
			shown = min(i+4, len(lines))
			for shown < min(i+20, len(lines)) && strings.HasPrefix(lines[shown], "# ") {
				shown++
			}
			told = append(told, lines[i:shown]...)
		}
	}
	if len(told) == 0 {
		told = lines[max(0, len(lines)-failureLines):]
	}
	return told
}
