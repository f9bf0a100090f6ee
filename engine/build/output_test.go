package build

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"moss/engine/image"
)

// read returns an output, from its start to its end.
func read(t *testing.T, o *output) string {
	t.Helper()
	var got strings.Builder
	err := o.copyTo(t.Context(), func(s string) error {
		if len(s) > outputPiece {
			t.Errorf("a piece has %d bytes", len(s))
		}
		got.WriteString(s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got.String()
}

func TestOutputIsReadFromItsStartByAll(t *testing.T) {
	dir := t.TempDir()
	o := newOutput(dir)
	want := strings.Repeat("0123456789abcdef", outputInMemory/8) // twice what is kept in memory
	for piece := range strings.SplitSeq(want, "9") {
		o.writeLine(piece)
		o.writeLine("9")
	}
	want += "9"
	if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
		t.Errorf("the folder holds %v, %v; want nothing", list, err)
	}
	o.close()
	for range 2 {
		if got := read(t, o); got != want {
			t.Errorf("got %d bytes, want %d", len(got), len(want))
		}
	}
	if n, err := o.Write([]byte("late")); n != 4 || err != nil || read(t, o) != want {
		t.Errorf("a late write: %d, %v", n, err)
	}
	o.freeSpool()
	if got := read(t, o); got != "" {
		t.Errorf("after free: %d bytes", len(got))
	}
}

func TestOutputComesAsItIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutput(t.TempDir())
		var pieces []string
		done := make(chan error, 1)
		go func() { done <- o.copyTo(t.Context(), func(s string) error { pieces = append(pieces, s); return nil }) }()
		for _, text := range []string{"one\n", "h\xc3", "\xa4lf", "\xe2\x82"} {
			_, _ = o.Write([]byte(text))
			synctest.Wait()
		}
		if want := "one\n|h|älf"; strings.Join(pieces, "|") != want {
			t.Errorf("pieces %q, want %s", pieces, want)
		}
		o.close()
		if err := <-done; err != nil || pieces[len(pieces)-1] != "\xe2\x82" {
			t.Errorf("at the end %v and %q, want what was left", err, pieces)
		}
	})
}

func TestOutputOfManyCharacters(t *testing.T) {
	for before := range 3 { // so that one of them lies across each boundary
		o := newOutput(t.TempDir())
		want := strings.Repeat("x", before) + strings.Repeat("€", outputInMemory)
		_, _ = o.Write([]byte(want))
		o.close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var got strings.Builder
		err := o.copyTo(ctx, func(s string) error {
			if !utf8.ValidString(s) {
				t.Errorf("a piece of %d bytes is cut in a character", len(s))
			}
			got.WriteString(s)
			return nil
		})
		if err != nil || got.String() != want {
			t.Errorf("copyTo = %v after %d bytes, want all %d", err, got.Len(), len(want))
		}
	}
}

func TestLinesOfTheEngineAreMessagesByThemselves(t *testing.T) {
	o := newOutput(t.TempDir())
	o.writeLine(" ---> Running in 0123456789ab\n")
	_, _ = o.Write([]byte("one\ntwo, cut \xe2\x82"))
	o.writeLine("Removing intermediate container 0123456789ab\n")
	o.writeLine(" ---> last\n")
	large := strings.Repeat("x", 3*outputPiece)
	_, _ = o.Write([]byte(large))
	o.close()
	var pieces []string
	if err := o.copyTo(t.Context(), func(s string) error { pieces = append(pieces, s); return nil }); err != nil {
		t.Fatal(err)
	}
	want := []string{
		" ---> Running in 0123456789ab\n", "one\ntwo, cut \xe2\x82", "Removing intermediate container 0123456789ab\n", " ---> last\n",
	}
	if len(pieces) < len(want) || !slices.Equal(pieces[:len(want)], want) {
		t.Errorf("pieces %q, want %q first", pieces[:min(len(pieces), len(want))], want)
	}
	if got := strings.Join(pieces[min(len(pieces), len(want)):], ""); got != large {
		t.Errorf("%d bytes follow, want %d", len(got), len(large))
	}
}

func TestOutputEndsWithItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutput(t.TempDir())
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error, 1)
		go func() { done <- o.copyTo(ctx, func(string) error { return nil }) }()
		time.Sleep(time.Second)
		cancel(cause)
		if err := <-done; !errors.Is(err, cause) {
			t.Errorf("got %v, want %v", err, cause)
		}
	})
}

func TestOutputIsBounded(t *testing.T) {
	o := newOutput(t.TempDir())
	piece := bytes.Repeat([]byte("x"), 1<<20)
	for range outputKept>>20 + 2 {
		if n, err := o.Write(piece); n != len(piece) || err != nil {
			t.Fatalf("Write: %d, %v", n, err)
		}
	}
	o.close()
	if o.length != outputKept+int64(len(outputCut)) {
		t.Errorf("kept %d bytes, want %d and the note", o.length, outputKept)
	}
	o.freeSpool()
}

func TestOutputWithoutRoomForItsFile(t *testing.T) {
	o := newOutput("/nowhere")
	o.writeLine(strings.Repeat("x", outputInMemory+10))
	o.close()
	if got := read(t, o); len(got) != outputInMemory {
		t.Errorf("got %d bytes, want what memory holds", len(got))
	}
}

func TestTranscriptDropsOldProgress(t *testing.T) {
	c := newConsole(2, false)
	late := newOutput(t.TempDir())
	for range 3 * progressHeld {
		c.stages[1].addProgress(image.Progress{ID: "layer", Status: "Downloading"})
	}
	c.stages[1].addText("two\n")
	freed := 0
	c.stages[1].addOutput(late, func() { freed++ })
	c.stages[0].addText("one\n")
	late.writeLine("late\n")
	late.close()
	c.close()
	go c.sendAll(t.Context(), func(int) bool { return false })
	var text strings.Builder
	pulled := 0
	for p := range c.lines {
		text.WriteString(p.Stream)
		if p.Status != "" {
			pulled++
		}
	}
	if text.String() != "one\ntwo\nlate\n" || pulled != progressHeld || freed != 1 {
		t.Errorf("told %q, %d of a pull, freed %d; want in order, %d and 1", text.String(), pulled, freed, progressHeld)
	}
}

func TestTranscriptFreesWhatIsNotRead(t *testing.T) {
	tr := newTranscript("")
	freed := 0
	for range 3 {
		tr.addOutput(newOutput(t.TempDir()), func() { freed++ })
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tr.copyTo(ctx, func(image.Progress) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("copyTo: %v", err)
	}
	tr.addOutput(newOutput(t.TempDir()), func() { freed++ })
	tr.discardUnread()
	if freed != 4 {
		t.Errorf("freed %d of 4", freed)
	}
}
