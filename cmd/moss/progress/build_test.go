package progress_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"moss/api/client"
	"moss/api/types"
	"moss/cmd/moss/progress"
)

// change is a message about a step.
func change(t *testing.T, about client.BuildStep) client.Progress {
	t.Helper()
	raw, err := json.Marshal(about)
	if err != nil {
		t.Fatal(err)
	}
	return client.Progress{Progress: types.Progress{ID: strconv.Itoa(about.Stage)}, Aux: raw}
}

func said(stage, text string) client.Progress {
	return client.Progress{Progress: types.Progress{ID: stage, Stream: text}}
}

func TestBuild(t *testing.T) {
	for _, size := range [][2]int{{24, 80}, {24, 40}, {8, 80}, {3, 40}} {
		t.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				term := &screen{t: t, height: size[0], width: size[1]}
				shown := progress.NewBuild(term, term.size)
				var frames []string
				look := func(after time.Duration) {
					time.Sleep(after)
					synctest.Wait()
					frames = append(frames, term.String())
				}
				shown.Sent(12_345_678)
				look(150 * time.Millisecond)
				base := client.BuildStep{StageName: "base", Number: 1, Total: 4, Instruction: "FROM busybox AS base", State: "started"}
				show(t, shown, change(t, base), said("0", "Step 1/4 : FROM busybox AS base\n"),
					at("latest", "Pulling from library/busybox", 0, 0), at("aaaaaaaaaaaa", "Downloading", 1, 2))
				look(1200 * time.Millisecond)
				base.State, base.Seconds = "done", 1.25
				show(t, shown, client.Progress{Progress: types.Progress{Status: "Status: Downloaded newer image for busybox:latest"}}, said("0", " ---> 0123456789ab\n"), change(t, base))
				for i, text := range []string{"RUN make \\\n  all", "RUN make check"} {
					show(t, shown, change(t, client.BuildStep{Stage: i, StageName: []string{"base", ""}[i], Number: 2 + i, Total: 4, Instruction: text, State: "started"}))
				}
				show(t, shown, said("0", " ---> Running in 0123456789ab\n"), said("0", "one\ntwo\nthree\nfour\n\x1b[32mfi"), said("0", "ve\x1b[0m\n10%\r50%\rsix\x07"))
				show(t, shown, said("1", "checks\n"), said("1", "[Warning] beware\n"))
				look(2 * time.Second)
				show(t, shown, change(t, client.BuildStep{Stage: 1, Number: 3, Total: 4, Instruction: "RUN make check", State: "cached"}))
				look(0)
				show(t, shown, change(t, client.BuildStep{StageName: "base", Number: 2, Total: 4, Instruction: "RUN make \\\n  all", State: "failed", Seconds: 62.04}))
				show(t, shown, client.Progress{Progress: types.Progress{Stream: "Successfully built 0123456789ab\n"}}, client.Progress{Aux: []byte(`{"ID":"sha256:01"}`)})
				if err := shown.Close(); err != nil {
					t.Fatal(err)
				}
				if err := shown.Close(); err != nil {
					t.Fatal(err)
				}
				frames = append(frames, term.String())
				golden(t, fmt.Sprintf("build-%dx%d.txt", size[0], size[1]), strings.Join(frames, "---\n"))
			})
		})
	}
}

// TestBuildKeepsTheEnd has a step write more than is kept, and fail.
func TestBuildKeepsTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		shown := progress.NewBuild(&out, func() (height, width int) { return 24, 80 })
		about := client.BuildStep{Number: 1, Total: 1, Instruction: "RUN yes", State: "started"}
		show(t, shown, change(t, about))
		for i := range 100_000 {
			show(t, shown, said("0", fmt.Sprintf("line %d\n", i)))
		}
		about.State = "failed"
		show(t, shown, change(t, about))
		if err := shown.Close(); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out.String(), "\n"); n < 20_000 || n > 60_000 || !strings.Contains(out.String(), "  | line 99999\n") {
			t.Errorf("%d lines, at the end %q", n, out.String()[out.Len()-100:])
		}
	})
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no terminal") }

func TestBuildTellsOfABrokenTerminal(t *testing.T) {
	shown := progress.NewBuild(broken{}, func() (height, width int) { return 24, 80 })
	err := shown.Show(change(t, client.BuildStep{Number: 1, Total: 1, State: "started"}))
	if closed := shown.Close(); closed == nil || err != nil && err.Error() != "no terminal" {
		t.Errorf("Show = %v, Close = %v, want an error in the end", err, closed)
	}
}

func FuzzBuild(f *testing.F) {
	f.Add("RUN x", "text\r\x1b[1mm\n", "0", 10, 20)
	f.Add("世\n界", "\x1b[", "", 3, 3)
	f.Fuzz(func(t *testing.T, instruction, text, stage string, height, width int) {
		if height < 2 || width < 2 || height > 100 || width > 300 {
			return
		}
		clean := func(s string) string { return strings.ToValidUTF8(s, "?") }
		term := &screen{t: t, height: height, width: width}
		shown := progress.NewBuild(term, term.size)
		about := client.BuildStep{Number: 1, Total: 2, Instruction: clean(instruction), StageName: clean(stage), State: "started"}
		show(t, shown, change(t, about), said("0", clean(text)))
		about.Number = 2
		show(t, shown, change(t, about))
		if err := shown.Close(); err != nil {
			t.Error(err)
		}
	})
}
