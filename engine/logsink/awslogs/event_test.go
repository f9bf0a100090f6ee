package awslogs

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"moss/engine/logsink"
)

func TestCompose(t *testing.T) {
	join := slices.Concat[[]logsink.Record]
	const patient = "awslogs-force-flush-interval-seconds=3600" // longer than a busy machine stands still
	old := piecesOf(1, false, "cut", " off")
	for i := range old {
		old[i].At = old[i].At.Add(-time.Minute)
	}
	for _, tc := range []struct {
		name    string
		records []logsink.Record
		all     bool
		options []string
		want    []string
		n       int
	}{
		{"pieces", join(piecesOf(1, true, "one", " line"), recordsOf("next")), false, nil, []string{"one line", "next"}, 3},
		{"two lines", join(piecesOf(1, true, "a", "b"), piecesOf(2, true, "c", "d")), false, nil, []string{"ab", "cd"}, 4},
		{"mixed", join(piecesOf(1, false, "a"), piecesOf(2, true, "b"), piecesOf(1, true, "x", "c")[1:]), false, nil, []string{"a", "b", "c"}, 3},
		{"held", join(recordsOf("whole"), piecesOf(1, false, "one", " line")), false, []string{patient}, []string{"whole"}, 1},
		{"all held", piecesOf(1, false, "one", " line"), false, []string{patient}, nil, 0},
		{"all", piecesOf(1, false, "one", " line"), true, nil, []string{"one line"}, 2},
		{"old", old, false, nil, []string{"cut off"}, 2},
		{"full", piecesOf(1, false, "one", " line"), false, []string{"awslogs-max-buffered-events=2"}, []string{"one line"}, 2},
		{"lines", recordsOf("[1", " at", "[2", " in"), false, []string{patient, `awslogs-multiline-pattern=^\[`}, []string{"[1\n at"}, 2},
		{"lines, all", recordsOf("[1", "", " at", "[2"), true, []string{`awslogs-multiline-pattern=^\[`}, []string{"[1\n\n at", "[2"}, 4},
		{"lines before", recordsOf(" at", "[1"), true, []string{`awslogs-multiline-pattern=^\[`}, []string{" at", "[1"}, 2},
		{"times", recordsOf("2026-01-02 a", "b", "2026-01-03 c"), true, []string{"awslogs-datetime-format=%Y-%m-%d"}, []string{"2026-01-02 a\nb", "2026-01-03 c"}, 3},
		{"pieces match", piecesOf(1, true, "[1", "[2", "[3"), true, []string{`awslogs-multiline-pattern=^\[`}, []string{"[1[2[3"}, 3},
		{
			"later piece matches", join(piecesOf(1, false, "[1"), piecesOf(2, true, "b"), piecesOf(1, true, "x", "[2")[1:]), true,
			[]string{`awslogs-multiline-pattern=^\[`},
			[]string{"[1\nb\n[2"},
			3,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCloud(t)
			mustSend(t, openAt(t, c, tc.options...), tc.records, tc.all, tc.n)
			c.expect(tc.want...)
		})
	}
}

// TestFlush: an event that may go on is held back as long as the option says.
func TestFlush(t *testing.T) {
	c := newCloud(t)
	s := openAt(t, c, "awslogs-force-flush-interval-seconds=60", `awslogs-multiline-pattern=^\[`)
	records := recordsOf("[1", " at")
	records[0].At, records[1].At = time.Now().Add(-70*time.Second), time.Now().Add(-50*time.Second)
	mustSend(t, s, records, false, 0)
	records[1].At = time.Now().Add(-61 * time.Second)
	mustSend(t, s, records, false, 2)
	c.expect("[1\n at")
	if got := s.Batch().Linger; got != time.Minute {
		t.Errorf("Linger = %s", got)
	}
}

// TestLongEvent: an event of several lines ends where the service would not take more.
func TestLongEvent(t *testing.T) {
	c := newCloud(t)
	s := openAt(t, c, `awslogs-multiline-pattern=^\[`)
	line := strings.Repeat("x", 100_000)
	mustSend(t, s, recordsOf("["+line, line, line, line, "[2"), true, 5)
	c.expect("["+line+"\n"+line, line+"\n"+line, "[2")
}

// FuzzCompose: whatever the records are, their text comes out whole, in events that the service takes.
func FuzzCompose(f *testing.F) {
	f.Add([]byte("one\x00two"), uint64(1), true, 3)
	f.Add(bytes.Repeat([]byte("€\xff"), 90_000), uint64(3), false, 1000)
	f.Add([]byte("x"+strings.Repeat("€", 100_000)), uint64(4), true, 16383)
	f.Fuzz(func(t *testing.T, text []byte, id uint64, multi bool, size int) {
		c := composer{flush: time.Hour}
		if size = size%(16<<10) + 1; size < 1 {
			size = 1
		}
		var records []logsink.Record
		for i, rest := 0, text; len(rest) > 0; i++ {
			n := min(size, len(rest))
			r := logsink.Record{At: time.Unix(int64(i), 0), Text: rest[:n]}
			rest = rest[n:]
			if multi {
				r.LineID, r.Ordinal, r.Last = 1+id%2, i+1, len(rest) == 0
			}
			records = append(records, r)
		}
		upto, got := 0, []byte(nil)
		for _, e := range c.composeEvents(records, true) {
			if len(e.text)+eventOverhead > 256<<10 || !utf8.Valid(e.text) || e.upto < upto {
				t.Fatalf("event of %d bytes up to %d after %d", len(e.text), e.upto, upto)
			}
			upto = e.upto
			got = append(got, e.text...)
		}
		if upto != len(records) {
			t.Errorf("%d of %d records", upto, len(records))
		}
		if multi && utf8.Valid(text) && !bytes.Equal(got, text) {
			t.Errorf("text of %d bytes came out as %d bytes", len(text), len(got))
		}
	})
}

// TestCallersBuffer: the texts of records may be parts of one buffer, which is the caller's.
func TestCallersBuffer(t *testing.T) {
	buffer := []byte("one|two")
	records := piecesOf(1, true, "", "")
	records[0].Text, records[1].Text = buffer[:3], buffer[4:]
	c := composer{}
	if events := c.composeEvents(records, true); len(events) != 1 || string(events[0].text) != "onetwo" || string(buffer) != "one|two" {
		t.Errorf("events %v, the buffer is %q", events, buffer)
	}
}
