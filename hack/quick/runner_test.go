package main

import (
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// unmeasured puts fixed texts in the place of durations, which a busy machine makes longer.
func unmeasured(text string) string {
	text = regexp.MustCompile(`\d+\.\d s `).ReplaceAllString(text, "0.0 s ")
	return regexp.MustCompile(`(?m) in \d+ s$`).ReplaceAllString(text, " in 0 s")
}

func TestRunLanes(t *testing.T) {
	var out strings.Builder
	r := &runner{w: &out, began: time.Now().Add(-time.Hour), budget: time.Minute}
	say := func(text string, err error) func(io.Writer) error {
		return func(w io.Writer) error { return errors.Join(err, ignoreCount(io.WriteString(w, text))) }
	}
	r.runLanes(t.Context(), plan{
		engine: []part{{name: "build", check: say("no such type\n", errFailed)}, {name: "bats", check: say("", nil)}},
		code: []part{
			{name: "good", check: say("fine\n", nil)},
			{name: "command", argv: []string{"sh", "-c", `echo "$WORD"; exit 3`}, env: []string{"WORD=from the command"}},
			{name: "format", check: say("bad.go\n", nil), silent: true},
			{name: "lint", check: say("", errFailed), built: true},
			{name: "late", check: say("", errFailed), bound: []string{"far/away"}},
		},
		leftOut: []string{"lint: not installed"},
	})
	err := r.writeClosing(selection{dependants: []string{"near", "far/away"}, leftOut: []string{"x.sh: no tests are known for it"}})
	if !errors.Is(err, errFailed) {
		t.Errorf("close after failures = %v, want %v", err, errFailed)
	}
	got := unmeasured(out.String())
	for _, want := range []string{
		"no such type\nFAILED     0.0 s  build\n",
		"ok         0.0 s  good\n",
		"from the command\nFAILED ",
		"s  command: exit status 3\n",
		"bad.go\nFAILED     0.0 s  format\n",
		"left out: x.sh: no tests are known for it\n",
		"left out: lint: not installed\n",
		"left out: bats: the build failed\n",
		"left out: lint: the build failed\n",
		"left out: no time within 1m0s for the unit tests of 1 of 2 dependants: far/away\n",
		"\nquick: 1 parts passed, 3 failed in 0 s\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the output lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "fine") {
		t.Errorf("the output has what a part that passed said:\n%s", got)
	}
}

func TestClosePasses(t *testing.T) {
	var out strings.Builder
	r := &runner{w: &out, began: time.Now(), budget: time.Minute}
	r.runLanes(t.Context(), plan{code: []part{{name: "true", argv: []string{"true"}}}})
	if err := r.writeClosing(selection{}); err != nil {
		t.Errorf("close = %v, want no error", err)
	}
	if got, want := unmeasured(out.String()), "quick: 1 parts passed, 0 failed in 0 s\n"; !strings.HasSuffix(got, want) {
		t.Errorf("the last line of %q is not %q", got, want)
	}
}

func TestClosingLine(t *testing.T) {
	got := closingLine(12, 1, 93600*time.Millisecond)
	if want := "quick: 12 parts passed, 1 failed in 94 s"; got != want {
		t.Errorf("closingLine: got %q, want %q", got, want)
	}
}

func TestPlanParts(t *testing.T) {
	table, err := parseMap(testMap)
	if err != nil {
		t.Fatal(err)
	}
	m := testModule()
	p := planParts(selectParts(m, table, []change{{path: "leaf/a.go"}}), m, table)
	var got []string
	for _, part := range slices.Concat(p.engine, p.code) {
		switch part.name {
		case "gofumpt", "lint": // not everywhere installed
		default:
			got = append(got, part.name)
		}
	}
	want := []string{"build", "bats", "map", "layers", "unit, with -race", "types of dependants", "unit of dependants"}
	if !slices.Equal(got, want) {
		t.Errorf("planParts: got %q, want %q", got, want)
	}
	if got, want := strings.Join(p.engine[1].argv, " "), "tests/run.sh tests/01-a.bats tests/02-b.bats"; got != want {
		t.Errorf("planParts: bats: got %q, want %q", got, want)
	}
	last := p.code[len(p.code)-1]
	if !slices.Equal(last.bound, []string{"mid", "cmd/top"}) || !slices.Contains(last.argv, "./mid") {
		t.Errorf("planParts: the last part is %+v, want the tests of mid and cmd/top", last)
	}
}

func TestBuildTags(t *testing.T) {
	for goflags, want := range map[string]string{"": "", "-buildvcs=false": "", "-v -tags=a,b -x": "a b", "--tags=a": "a"} {
		if got := strings.Join(buildTags(goflags), " "); got != want {
			t.Errorf("buildTags(%q): got %q, want %q", goflags, got, want)
		}
	}
}

func ignoreCount(_ int, err error) error { return err }
