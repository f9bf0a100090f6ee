package progress

import (
	"fmt"
	"strings"

	"moss/api/client"
	"moss/api/types"
	"moss/cmd/moss/show"
)

// Bounds of a bar's inside in characters: longer ones say no more, shorter ones say nothing.
const (
	longestBar  = 50
	shortestBar = 8
)

// messageRow writes a message in at most width cells, with a bar and counts if there is room for them.
func messageRow(message client.Progress, width int) string {
	text := messageTitle(message)
	if hasCounts(message.ProgressDetail) {
		count := amountText(message.ProgressDetail)
		room := width - countCells(text) - len(" [] ") - len(count)
		switch {
		case message.ProgressDetail.Total > 0 && room >= shortestBar:
			return text + " [" + drawBar(message.ProgressDetail, min(room, longestBar)) + "] " + count
		case width >= countCells(text)+1+len(count):
			text += " " + count
		}
	}
	return cutToWidth(text, width)
}

// drawBar draws how much of the total is done.
func drawBar(detail *types.ProgressDetail, length int) string {
	done := int(float64(length) * float64(min(max(detail.Current, 0), detail.Total)) / float64(detail.Total))
	if done >= length {
		return strings.Repeat("=", length)
	}
	return strings.Repeat("=", done) + ">" + strings.Repeat(" ", length-done-1)
}

// amountText writes how much is done, and of how much. The first number keeps its place while it grows.
func amountText(detail *types.ProgressDetail) string {
	if detail.Total <= 0 {
		return fmt.Sprintf("%7s", show.Size(detail.Current))
	}
	return fmt.Sprintf("%7s/%s", show.Size(max(detail.Current, 0)), show.Size(detail.Total))
}

// firstWide is where the scripts begin whose signs take two cells of a terminal.
const firstWide = 0x1100

func cellsOf(r rune) int {
	if r >= firstWide {
		return 2
	}
	return 1
}

// countCells returns how many cells of a terminal a text takes, or more.
func countCells(text string) int {
	n := 0
	for _, r := range text {
		n += cellsOf(r)
	}
	return n
}

// cutToWidth shortens a text to width cells and marks the cut.
func cutToWidth(text string, width int) string {
	if countCells(text) <= width {
		return text
	}
	room := width - cellsOf('…')
	for i, r := range text {
		if room -= cellsOf(r); room < 0 {
			if width < cellsOf('…') {
				return ""
			}
			return text[:i] + "…"
		}
	}
	return text
}
