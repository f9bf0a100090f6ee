package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if os.Getenv(envStage) != "" { // this program is the process of a stage too
		main()
	}
	os.Exit(m.Run())
}

func shell(script string) []string { return []string{"sh", "-c", script} }

// runTable runs the stages and returns the results by name, and what was printed.
func runTable(t *testing.T, table ...stage) (map[string]result, string) {
	t.Helper()
	for i := range table {
		if table[i].limit == 0 {
			table[i].limit = time.Minute
		}
	}
	var out strings.Builder
	results, err := runStages(t.Context(), table, t.TempDir(), &out)
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != len(table) {
		t.Errorf("got %d results, want %d", len(results), len(table))
	}
	byName := map[string]result{}
	for _, r := range results {
		byName[r.name] = r
	}
	text, _ := summarizeResults(results)
	return byName, out.String() + text
}

// Two stages of different lanes wait for each other; two of one lane, and one after another, must not meet.
func TestWhatMayRunSideBySide(t *testing.T) {
	dir := t.TempDir()
	meet := func(own, other string) []string {
		return shell("touch " + dir + "/" + own + "; i=0; until [ -e " + dir + "/" + other + " ]; do i=$((i+1)); [ $i -lt 6000 ] || exit 1; sleep 0.01; done")
	}
	alone := shell("mkdir " + dir + "/held && sleep 0.1 && rmdir " + dir + "/held")
	results, _ := runTable(t,
		stage{name: "a", lane: "1", command: meet("a", "b")},
		stage{name: "b", lane: "2", command: meet("b", "a")},
		stage{name: "c", lane: "3", command: alone},
		stage{name: "d", lane: "3", command: alone},
		stage{name: "e", lane: "4", after: []string{"c", "d", "not chosen"}, command: alone},
	)
	for name, r := range results {
		if r.err != nil {
			t.Errorf("stage %s: %v", name, r.err)
		}
	}
}

func TestAFailureIsToldAndNothingElseIsLeftOut(t *testing.T) {
	results, out := runTable(t,
		stage{name: "bad", lane: "1", command: shell("seq 100; echo 'not ok 3 it works'; echo '# because'; seq -f '# %g' 30; echo 'bats: 2 passed, 1 failed, 0 skipped'; exit 4")},
		stage{name: "good", lane: "1", after: []string{"bad"}, command: shell("echo 'go: 7 passed, 0 failed, 0 skipped'")},
	)
	if results["bad"].err == nil || results["good"].err != nil {
		t.Errorf("got %v and %v, want a failure and none", results["bad"].err, results["good"].err)
	}
	_, end, _ := strings.Cut(out, "=== summary")
	for _, want := range []string{
		"FAILED  bad", "      | not ok 3 it works\n      | # because\n      | # 1", "| # 18\nok ", "        bats: 2 passed, 1 failed, 0 skipped",
		"ok      good", "        go: 7 passed, 0 failed, 0 skipped", "stages: 1 passed, 1 failed\n",
	} {
		if !strings.Contains(end, want) {
			t.Errorf("the summary lacks %q:\n%s", want, end)
		}
	}
}

// A stage that hangs is ended, and nothing of it is left.
func TestAStageThatHangsIsEnded(t *testing.T) {
	asleep := fmt.Sprintf("sleep 1000.%d", os.Getpid())
	results, _ := runTable(t, stage{name: "slow", lane: "1", limit: time.Second, command: shell(asleep + " & wait")})
	if err := results["slow"].err; err == nil || !strings.Contains(err.Error(), "not done within 1s") {
		t.Errorf("got %v, want that it was not done", err)
	}
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(files) == 0 {
		t.Fatalf("processes: %d, %v", len(files), err)
	}
	for _, file := range files {
		if words, err := os.ReadFile(file); err == nil && strings.Contains(strings.ReplaceAll(string(words), "\x00", " "), asleep) {
			t.Errorf("left: %s %q", file, words)
		}
	}
}

// The CPU time of a process that has left its parent and session counts.
func TestTheTimeOfAllProcessesCounts(t *testing.T) {
	pid := filepath.Join(t.TempDir(), "pid")
	results, _ := runTable(t, stage{name: "busy", lane: "1", command: shell(
		"(setsid sh -c 'echo $$ >" + pid + ".new; mv " + pid + ".new " + pid + "; while :; do :; done' &) ; until [ -e " + pid + " ]; do :; done; " +
			"until [ $(cut -d' ' -f14 /proc/$(cat " + pid + ")/stat) -ge 20 ]; do sleep 0.01; done")})
	if r := results["busy"]; r.err != nil || r.cpu < 200*time.Millisecond {
		t.Errorf("got %v and %s of CPU time, want no error and at least 200ms", r.err, r.cpu)
	}
}

// Every stage that is named is there, and none waits for one that comes later in its own lane.
func TestTheTableIsSound(t *testing.T) {
	table := allStages()
	at := func(name string) int { return slices.IndexFunc(table, func(s stage) bool { return s.name == name }) }
	for i, s := range table {
		if at(s.name) != i {
			t.Errorf("stage %s is there twice", s.name)
		}
		for _, name := range s.after {
			if j := at(name); j < 0 || j > i {
				t.Errorf("stage %s is after %s, which is not before it in the table", s.name, name)
			}
		}
	}
	if _, err := chooseStages(table, []string{"bats", "nonsense"}); err == nil || !strings.Contains(err.Error(), `no stage "nonsense"`) {
		t.Errorf("an unknown stage: got %v", err)
	}
}
