package main

import (
	"fmt"
	"io"
	"os"

	"moss/api/client"
	"moss/cmd/moss/show"
	"moss/cmd/moss/tty"
)

// progress returns what writes the messages of a long operation: on a terminal each object has a line that is written
// over, elsewhere only changes of the status are shown.
func (a *app) progress(out io.Writer) func(client.Progress) error {
	file, ok := out.(*os.File)
	screen := ok && tty.Is(file)
	last := map[string]string{}
	lines := map[string]int{}
	return func(message client.Progress) error {
		text := progressText(message, screen)
		if message.Stream != "" {
			_, err := io.WriteString(out, message.Stream)
			return err
		}
		if text == "" || last[message.ID] == text {
			return nil
		}
		last[message.ID] = text
		line, known := lines[message.ID]
		if screen && known && message.ID != "" {
			up := len(lines) - line
			_, err := fmt.Fprintf(out, "\x1b[%dA\r\x1b[K%s\x1b[%dB\r", up, text, up)
			return err
		}
		if screen {
			// A line without an object counts too: it moves those above it up.
			lines[lineKey(message.ID, len(lines))] = len(lines)
		}
		_, err := fmt.Fprintln(out, text)
		return err
	}
}

func lineKey(id string, n int) string {
	if id != "" {
		return id
	}
	return fmt.Sprintf("\x00%d", n)
}

func progressText(message client.Progress, counts bool) string {
	text := show.Plain(message.Status)
	if message.ID != "" && text != "" {
		text = show.Plain(message.ID) + ": " + text
	}
	if counts && text != "" && message.Detail.Current > 0 {
		text += " " + show.Size(message.Detail.Current)
		if message.Detail.Total > 0 {
			text += "/" + show.Size(message.Detail.Total)
		}
	}
	return text
}
