package progress_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"moss/api/client"
	"moss/api/types"
	"moss/cmd/moss/progress"
)

var update = flag.Bool("update", false, "rewrite testdata")

// screen is a terminal: it keeps what the escape sequences that the package writes make of it. One that is drawn too wide
// wraps, as a real one does.
type screen struct {
	t             *testing.T
	height, width int
	lines         []string // all of them, also those that have scrolled off the top
	row, column   int
	writes        int
}

func (s *screen) size() (height, width int) { return s.height, s.width }

// Write draws.
func (s *screen) Write(p []byte) (int, error) {
	s.writes++
	text := string(p)
	for text != "" {
		if rest, found := strings.CutPrefix(text, "\x1b["); found {
			end := strings.IndexAny(rest, "ABJK")
			n := 1
			if end > 0 {
				_, _ = fmt.Sscan(rest[:end], &n)
			}
			s.control(rest[end], n)
			text = rest[end+1:]
			continue
		}
		r := []rune(text)[0]
		text = text[len(string(r)):]
		s.put(r)
	}
	return len(p), nil
}

func (s *screen) control(what byte, n int) {
	top := max(len(s.lines)-s.height, 0)
	switch what {
	case 'A':
		if s.row-n < top {
			s.t.Errorf("the cursor goes %d up from line %d, beyond the top %d", n, s.row, top)
		}
		s.row = max(s.row-n, top)
	case 'B':
		s.row += n
	case 'K':
		s.line()
		s.lines[s.row] = string([]rune(s.lines[s.row])[:min(s.column, len([]rune(s.lines[s.row])))])
	case 'J':
		s.lines = s.lines[:min(s.row, len(s.lines))]
	}
}

func (s *screen) line() {
	for len(s.lines) <= s.row {
		s.lines = append(s.lines, "")
	}
}

func (s *screen) put(r rune) {
	s.line()
	switch r {
	case '\n':
		s.row, s.column = s.row+1, 0
		s.line()
	case '\r':
		s.column = 0
	default:
		if s.column == s.width {
			s.t.Errorf("line %q wraps at %d", s.lines[s.row], s.width)
			s.row, s.column = s.row+1, 0
			s.line()
		}
		runes := []rune(s.lines[s.row])
		for len(runes) <= s.column {
			runes = append(runes, ' ')
		}
		runes[s.column] = r
		s.lines[s.row] = string(runes)
		s.column++
	}
}

func (s *screen) String() string { return strings.TrimRight(strings.Join(s.lines, "\n"), "\n") + "\n" }

func at(id, status string, current, total int64) client.Progress {
	return client.Progress{Progress: types.Progress{
		ID: id, Status: status, ProgressDetail: &types.ProgressDetail{Current: current, Total: total},
	}}
}

func show(t *testing.T, to interface{ Show(client.Progress) error }, messages ...client.Progress) {
	t.Helper()
	for _, message := range messages {
		if err := to.Show(message); err != nil {
			t.Fatal(err)
		}
	}
}

// midPull is a pull that is half done.
func midPull() []client.Progress {
	return []client.Progress{
		at("latest", "Pulling from library/busybox", 0, 0),
		at("aaaaaaaaaaaa", "Pulling fs layer", 0, 0), at("bbbbbbbbbbbb", "Pulling fs layer", 0, 0), at("cccccccccccc", "Pulling fs layer", 0, 0),
		at("dddddddddddd", "Already exists", 0, 0),
		at("aaaaaaaaaaaa", "Downloading", 1, 4_670_000), at("bbbbbbbbbbbb", "Downloading", 512, 0), at("cccccccccccc", "Waiting", 0, 0),
		at("aaaaaaaaaaaa", "Downloading", 2_400_000, 4_670_000),
		at("bbbbbbbbbbbb", "Extracting", 123_456_789, 123_456_789),
	}
}

func endOfPull() []client.Progress {
	return []client.Progress{
		at("aaaaaaaaaaaa", "Verifying Checksum", 0, 0), at("aaaaaaaaaaaa", "Download complete", 0, 0), at("aaaaaaaaaaaa", "Pull complete", 0, 0),
		at("bbbbbbbbbbbb", "Pull complete", 0, 0), at("cccccccccccc", "Pull complete", 0, 0),
		{Progress: types.Progress{Status: "Digest: sha256:" + strings.Repeat("7", 64)}},
		{Progress: types.Progress{Status: "Status: Downloaded newer image for busybox:latest"}},
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s:\n%swant:\n%s", name, got, want)
	}
}

func TestScreen(t *testing.T) {
	for _, size := range [][2]int{{40, 120}, {24, 80}, {24, 50}, {24, 30}, {24, 12}, {24, 1}, {4, 80}, {2, 80}} {
		t.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(t *testing.T) {
			term := &screen{t: t, height: size[0], width: size[1]}
			shown := progress.NewScreen(term, term.size)
			show(t, shown, midPull()...)
			text := term.String()
			if len(term.lines)-1 > max(size[0], 2) {
				t.Errorf("%d lines on a screen of %d:\n%s", len(term.lines)-1, size[0], text)
			}
			if size[1] >= 80 { // the last lines are as long as they are: they are never written over
				show(t, shown, endOfPull()...)
			}
			if err := shown.Close(); err != nil {
				t.Fatal(err)
			}
			golden(t, fmt.Sprintf("%dx%d.txt", size[0], size[1]), text+"---\n"+term.String())
		})
	}
}

func TestScreenWritesChangesOnly(t *testing.T) {
	term := &screen{t: t, height: 24, width: 80}
	shown := progress.NewScreen(term, term.size)
	show(t, shown, midPull()...)
	before := term.writes
	show(t, shown, midPull()[9], midPull()[9])
	if term.writes != before {
		t.Errorf("%d writes for messages that change nothing", term.writes-before)
	}
}

// TestResize makes the terminal narrower and lower in between: rows that may have wrapped or scrolled off are left alone.
func TestResize(t *testing.T) {
	term := &screen{t: t, height: 24, width: 120}
	shown := progress.NewScreen(term, term.size)
	show(t, shown, midPull()...)
	lines := len(term.lines)
	term.width = 100
	show(t, shown, at("aaaaaaaaaaaa", "Downloading", 3_000_000, 4_670_000))
	if len(term.lines) != lines {
		t.Errorf("%d lines after a change that matters to none, want %d:\n%s", len(term.lines), lines, term)
	}
	term.width = 40
	show(t, shown, at("aaaaaaaaaaaa", "Downloading", 3_500_000, 4_670_000))
	if want := lines + 5; len(term.lines) != want {
		t.Errorf("%d lines on a narrower terminal, want all of them anew, %d:\n%s", len(term.lines), want, term)
	}
	term.height = 3
	show(t, shown, at("aaaaaaaaaaaa", "Downloading", 4_000_000, 4_670_000))
	term.height, term.width = 50, 200
	show(t, shown, append(endOfPull(), at("x", "y", 0, 0))...)
	if err := shown.Close(); err != nil {
		t.Fatal(err)
	}
	if text := term.String(); !strings.HasSuffix(text, "x: y\n") {
		t.Errorf("the last line is another:\n%s", text)
	}
}

func TestStreamsAndControl(t *testing.T) {
	term := &screen{t: t, height: 24, width: 80}
	shown := progress.NewScreen(term, term.size)
	show(t, shown, at("a\x1b[2J", "b\r\nc", 1, 2), client.Progress{Progress: types.Progress{Stream: "Loaded image: box\n"}}, at("a\x1b[2J", "again", 0, 0), client.Progress{Aux: []byte("{}")})
	if err := shown.Close(); err != nil {
		t.Fatal(err)
	}
	want := "a?[2J: b??c [=========================>                        ]      1B/2B\nLoaded image: box\na?[2J: again\n"
	if term.String() != want {
		t.Errorf("the screen shows\n%swant\n%s", term, want)
	}
}

func TestLines(t *testing.T) {
	var out bytes.Buffer
	shown := progress.NewLines(&out)
	show(t, shown, append(midPull(), endOfPull()...)...)
	show(t, shown, client.Progress{Progress: types.Progress{Stream: "Loaded image: box\n"}}, client.Progress{Aux: []byte("{}")})
	if err := shown.Close(); err != nil {
		t.Fatal(err)
	}
	golden(t, "lines.txt", out.String())
	if strings.ContainsAny(out.String(), "\x1b\r") {
		t.Errorf("lines hold control characters: %q", &out)
	}
}

func FuzzScreen(f *testing.F) {
	f.Add("id", "Downloading", int64(1), int64(2), 10, 20)
	f.Add("ü", "世界", int64(-1), int64(1), 1, 3)
	f.Fuzz(func(t *testing.T, id, status string, current, total int64, height, width int) {
		if height < 2 || width < 2 || height > 100 || width > 300 {
			return
		}
		term := &screen{t: t, height: height, width: width}
		shown := progress.NewScreen(term, term.size)
		for i := range 4 {
			show(t, shown, at(fmt.Sprint(id, i, "."), "x", 0, 0), at(fmt.Sprint(id, i, "."), strings.ToValidUTF8(status, "?"), current, total))
		}
	})
}
