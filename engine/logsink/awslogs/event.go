package awslogs

import (
	"regexp"
	"slices"
	"time"
	"unicode/utf8"

	"moss/engine/logsink"
)

// Bounds of the service (docs.aws.amazon.com: PutLogEvents).
const (
	eventOverhead = 26               // bytes that the service counts for an event besides its text
	maxEvent      = 256<<10 - 26     // bytes of text of an event
	maxPutBytes   = 1_048_576        // of all events of a request, with their overheads
	maxPutEvents  = 10_000           // of a request
	maxPutSpan    = 24*time.Hour - 1 // between the first and the last event of a request
)

// event is what the service keeps.
type event struct {
	at   int64  // milliseconds since 1970
	text []byte // UTF-8; an empty one is not sent
	upto int    // records, from the first, of which nothing is left after this event
}

// composer makes events of records: one of each line, or of the lines from one that matches to the next.
type composer struct {
	begin *regexp.Regexp // nil: each line is an event
	flush time.Duration  // after which an event that may go on is not held back
}

// composeEvents returns the events of the records. What may go on after the last record is left out, unless all is set or it is
// old. Texts hold as long as those of the records.
func (c *composer) composeEvents(records []logsink.Record, all bool) []event {
	var events []event
	for first := 0; first < len(records); {
		next, text := c.findEnd(records, first)
		if next == len(records) && !all && c.mayGoOn(records[first:]) {
			break
		}
		if len(text) == 0 {
			events = append(events, event{upto: next}) // nothing to send: the service takes no empty text
		}
		upto := first // until the last part has gone
		if !utf8.Valid(text) {
			text = []byte(string([]rune(string(text)))) // U+FFFD for each byte that is none
		}
		for rest := text; len(rest) > 0; {
			part := rest[:cutText(rest, maxEvent)]
			if rest = rest[len(part):]; len(rest) == 0 {
				upto = next
			}
			events = append(events, event{at: records[first].At.UnixMilli(), text: part, upto: upto})
		}
		first = next
	}
	return events
}

// findEnd returns the record after an event's last one, and the event's text.
func (c *composer) findEnd(records []logsink.Record, first int) (next int, text []byte) {
	text = records[first].Text
	if records[first].Ordinal > 1 {
		text = text[continuationLen(text):] // the event before ended with these
	}
	text = slices.Clip(text) // appending copies it
	for next = first + 1; next < len(records); next++ {
		piece := records[next].Text
		sameLine := continuesLine(&records[next-1], &records[next])
		if !sameLine && (c.begin == nil || records[next].Ordinal <= 1 && c.begin.Match(piece)) {
			break
		}
		if len(text)+1+len(piece) > maxEvent {
			if sameLine {
				text = append(text, piece[:continuationLen(piece)]...)
			}
			break
		}
		if !sameLine {
			text = append(text, '\n')
		}
		text = append(text, piece...)
	}
	return next, text
}

// continuesLine reports whether the second record goes on with the first one's line.
func continuesLine(first, second *logsink.Record) bool {
	return first.LineID != 0 && first.LineID == second.LineID
}

// mayGoOn reports whether the next record, which is not there yet, may belong to the event of these ones.
func (c *composer) mayGoOn(records []logsink.Record) bool {
	last := &records[len(records)-1]
	if c.begin == nil && (last.LineID == 0 || last.Last) {
		return false
	}
	return time.Since(last.At) < c.flush
}

// continuationLen returns how many bytes at the beginning of a text belong to a character that began before it.
func continuationLen(text []byte) int {
	n := 0
	for n < len(text) && n < utf8.UTFMax-1 && !utf8.RuneStart(text[n]) {
		n++
	}
	return n
}

// cutText returns where to cut a text so that its first part has whole characters and no more bytes than most.
func cutText(text []byte, most int) int {
	if len(text) <= most {
		return len(text)
	}
	for n := most; n > most-utf8.UTFMax; n-- {
		if utf8.RuneStart(text[n]) {
			return n
		}
	}
	return most
}
