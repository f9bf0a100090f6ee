package progress

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"moss/api/client"
)

// The size of a terminal that tells none.
const (
	usualHeight = 24
	usualWidth  = 80
)

// Screen shows messages on a terminal. The cursor is below its rows between two calls, at the start of a line.
type Screen struct {
	out  io.Writer
	size func() (height, width int)

	messages []client.Progress // the last of each object, in the order in which the objects came
	places   map[string]int    // in messages, by object
	rows     []string          // on the terminal, the last ones above the cursor
	whole    bool              // rows show all messages
}

// NewScreen returns what shows messages on a terminal whose size is asked for at each of them; zeros are an unknown size.
func NewScreen(out io.Writer, size func() (height, width int)) *Screen {
	return &Screen{out: out, size: size, places: map[string]int{}}
}

// Show shows one message.
func (s *Screen) Show(message client.Progress) error {
	switch {
	case message.Stream != "":
		return s.writeBelow(message.Stream)
	case message.Status == "":
		return nil
	case message.ID == "" && !hasCounts(message.ProgressDetail):
		return s.writeBelow(messageTitle(message) + "\n")
	}
	if place, known := s.places[message.ID]; known {
		s.messages[place] = message
	} else {
		s.places[message.ID] = len(s.messages)
		s.messages = append(s.messages, message)
	}
	height, width := s.usableSize()
	return s.drawRows(s.makeFrame(height, width), height, width)
}

// Close leaves the last state of every object on the terminal, and the cursor at the start of an empty line whatever was
// typed meanwhile.
func (s *Screen) Close() error {
	if len(s.messages) == 0 {
		return nil
	}
	if err := s.endFrame(); err != nil {
		return err
	}
	_, err := io.WriteString(s.out, "\r\x1b[K")
	return err
}

// writeBelow writes text that stays, below the rows there are. They are not written over any more.
func (s *Screen) writeBelow(text string) error {
	if err := s.endFrame(); err != nil {
		return err
	}
	_, err := io.WriteString(s.out, text)
	return err
}

// endFrame ends the frame: what the terminal had no room for is written now.
func (s *Screen) endFrame() error {
	if !s.whole && len(s.messages) > 0 {
		height, width := s.usableSize()
		var out bytes.Buffer
		if len(s.rows) > 0 && s.rowsFit(height, width) {
			fmt.Fprintf(&out, "\x1b[%dA\r\x1b[J", len(s.rows))
		}
		for _, message := range s.messages {
			out.WriteString(messageRow(message, width) + "\n")
		}
		if _, err := out.WriteTo(s.out); err != nil {
			return err
		}
	}
	s.messages, s.places, s.rows, s.whole = nil, map[string]int{}, nil, false
	return nil
}

// usableSize returns how many rows and cells may be used: the last row is the cursor's, and a sign in the last column would
// make some terminals wrap.
func (s *Screen) usableSize() (height, width int) {
	height, width = s.size()
	if height <= 0 {
		height = usualHeight
	}
	if width <= 0 {
		width = usualWidth
	}
	return max(height-1, 1), max(width-1, 1)
}

// makeFrame makes the rows of all messages, or of those that matter most when they are more than the terminal is high.
func (s *Screen) makeFrame(height, width int) []string {
	shown := make([]int, 0, len(s.messages))
	for i := range s.messages {
		shown = append(shown, i)
	}
	s.whole = len(shown) <= height
	if !s.whole {
		slices.SortStableFunc(shown, func(a, b int) int { return rankOf(s.messages[a]) - rankOf(s.messages[b]) })
		shown = shown[:height-1]
		slices.Sort(shown)
	}
	rows := make([]string, 0, len(shown)+1)
	for _, i := range shown {
		rows = append(rows, messageRow(s.messages[i], width))
	}
	if !s.whole {
		done := 0
		for _, message := range s.messages {
			if rankOf(message) == rankDone {
				done++
			}
		}
		text := fmt.Sprintf("%d of %d done, %d not shown", done, len(s.messages), len(s.messages)-len(shown))
		rows = append(rows, cutToWidth(text, width))
	}
	return rows
}

// What is shown when there is no room for all: what moves, then what is to come, then what is done.
const (
	rankMoving = iota
	rankToCome
	rankDone
)

func rankOf(message client.Progress) int {
	switch status := message.Status; {
	case hasCounts(message.ProgressDetail):
		return rankMoving
	case strings.HasSuffix(status, "exists"), status == "Pull complete", status == "Pushed",
		strings.HasPrefix(status, "Mounted from"), strings.HasPrefix(status, "Pulling from"): // the last is a heading
		return rankDone
	default:
		return rankToCome
	}
}

// rowsFit reports whether the rows are still where they were written: a terminal that became narrower may have wrapped
// them, and one that became lower has moved some out of reach.
func (s *Screen) rowsFit(height, width int) bool {
	return len(s.rows) <= height && !slices.ContainsFunc(s.rows, func(row string) bool { return countCells(row) > width })
}

// drawRows brings the terminal from the rows that it shows to others, in one write.
func (s *Screen) drawRows(rows []string, height, width int) error {
	var out bytes.Buffer
	if !s.rowsFit(height, width) {
		s.rows = nil // they stay as they are, and new ones begin below
	}
	before := s.rows
	if len(rows) < len(before) {
		fmt.Fprintf(&out, "\x1b[%dA\r\x1b[J", len(before))
		before = nil
	}
	for i, old := range before {
		if rows[i] != old {
			up := len(before) - i
			fmt.Fprintf(&out, "\x1b[%dA\r%s\x1b[K\x1b[%dB\r", up, rows[i], up)
		}
	}
	for _, added := range rows[len(before):] {
		out.WriteString("\r" + added + "\x1b[K\n")
	}
	s.rows = rows
	if out.Len() == 0 {
		return nil
	}
	_, err := out.WriteTo(s.out)
	return err
}
