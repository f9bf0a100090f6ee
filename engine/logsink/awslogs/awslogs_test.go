package awslogs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"moss/engine/fault"
	"moss/engine/logsink"
)

func TestSend(t *testing.T) {
	c := newCloud(t)
	s := openAt(t, c)
	records := recordsOf("a", "", "c \xff\xfe \x00 é")
	records[2].At = records[0].At.Add(-time.Second) // the clock was set back
	mustSend(t, s, records, false, 3)
	mustSend(t, s, recordsOf(""), false, 1)
	mustSend(t, s, recordsOf("d"), false, 1)
	c.expect("c \ufffd\ufffd \x00 é", "a", "d")
	p := c.puts[0]
	if p.LogGroupName != "group" || p.LogStreamName != strings.Repeat("ab", 32) || p.LogEvents[1].Timestamp != records[0].At.UnixMilli() {
		t.Errorf("put %+v", p)
	}
	if want := []string{"CreateLogStream", "PutLogEvents", "PutLogEvents"}; !slices.Equal(c.actions, want) {
		t.Errorf("actions %v, want %v", c.actions, want)
	}
	if b := s.Batch(); b != (logsink.Batch{Records: 4096, Bytes: 1_000_000, Linger: 5 * time.Second}) {
		t.Errorf("Batch = %+v", b)
	}
}

// TestStreams: which stream and group are made, and when.
func TestStreams(t *testing.T) {
	id := strings.Repeat("ab", 32)
	for _, tc := range []struct {
		name    string
		options []string
		group   string
		want    []string // streams of the group; nil: Open fails
	}{
		{"default", nil, "group", []string{id}},
		{"tag", []string{"tag=x"}, "group", []string{"tag"}},
		{"stream", []string{"tag=x", "awslogs-stream=given"}, "group", []string{"given"}},
		{"no group", []string{"awslogs-group=other"}, "other", nil},
		{"a group", []string{"awslogs-group=other", "awslogs-create-group=true"}, "other", []string{id}},
		{"a group that is there", []string{"awslogs-create-group=true"}, "group", []string{id}},
		{"no stream", []string{"awslogs-create-stream=false"}, "group", []string{}},
	} {
		c := newCloud(t)
		opened, err := Open(context.Background(), setupOf(c, tc.options...))
		if (err == nil) != (tc.want != nil) || err != nil && (!fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), c.URL)) {
			t.Errorf("%s: Open = %v", tc.name, err)
		}
		if got := c.streams[tc.group]; !slices.Equal(got, tc.want) {
			t.Errorf("%s: streams %q, want %q", tc.name, got, tc.want)
		}
		if err == nil {
			_ = opened.Close()
			openAt(t, c, tc.options...) // all is there already
		}
	}
	setup := setupOf(newCloud(t), "tag=x")
	setup.Container.Tag = "image:latest"
	if _, err := Open(context.Background(), setup); !fault.Is(err, fault.Invalid) {
		t.Errorf("Open with a stream that no service takes = %v", err)
	}
}

// TestResume: nothing is asked before the first Send.
func TestResume(t *testing.T) {
	c := newCloud(t)
	setup := setupOf(c)
	setup.Resume = true
	opened, err := Open(context.Background(), setup)
	if err != nil || len(c.actions) != 0 {
		t.Fatalf("Open = %v after %v", err, c.actions)
	}
	mustSend(t, opened.(*sender), recordsOf("a"), false, 1)
	c.expect("a")
}

// TestRemoved: a stream that somebody removes is made anew with the next Send.
func TestRemoved(t *testing.T) {
	c := newCloud(t)
	s := openAt(t, c)
	c.set(func() { c.streams["group"] = nil })
	if n, err := s.Send(context.Background(), recordsOf("a"), false); n != 0 || err == nil || !strings.Contains(err.Error(), "ResourceNotFoundException") {
		t.Errorf("Send = %d, %v", n, err)
	}
	mustSend(t, s, recordsOf("a"), false, 1)
	c.expect("a")
}

func TestFormat(t *testing.T) {
	for _, format := range []string{"", "json/emf"} {
		c := newCloud(t)
		s := openAt(t, c)
		if format != "" {
			s = openAt(t, c, "awslogs-format="+format)
		}
		mustSend(t, s, recordsOf(`{"_aws":{}}`), false, 1)
		for i, header := range c.headers {
			want := ""
			if c.actions[i] == "PutLogEvents" {
				want = format
			}
			if got := header.Get("X-Amzn-Logs-Format"); got != want {
				t.Errorf("format of %s is %q, want %q", c.actions[i], got, want)
			}
		}
	}
}

// TestBounds: each request is held to the bounds of the service by the receiver; all events come.
func TestBounds(t *testing.T) {
	c := newCloud(t)
	s := openAt(t, c, "awslogs-max-buffered-events=20000")
	if got := s.Batch().Records; got != 10_000 {
		t.Errorf("Batch has %d records", got)
	}
	want := make([]string, 0, 10_001)
	for i := range 10_001 {
		want = append(want, fmt.Sprint("line ", i))
	}
	mustSend(t, s, recordsOf(want...), false, len(want))
	c.expect(want...)
	if got := len(c.puts[0].LogEvents); len(c.puts) != 2 || got != 10_000 {
		t.Errorf("%d requests, the first of %d events", len(c.puts), got)
	}

	c.set(func() { c.puts = nil })
	large := slices.Repeat([]string{strings.Repeat("x", 104_857-26)}, 11) // ten fill a request but for six bytes
	mustSend(t, s, recordsOf(large...), false, len(large))
	c.expect(large...)
	if got := len(c.puts[0].LogEvents); len(c.puts) != 2 || got != 10 {
		t.Errorf("%d requests, the first of %d events", len(c.puts), got)
	}

	c.set(func() { c.puts = nil })
	c.set(func() { c.puts = nil })
	full := slices.Repeat([]string{strings.Repeat("x", 256<<10-26)}, 4) // fill a request
	mustSend(t, s, recordsOf(append(full, "a")...), false, 5)
	if got := len(c.puts[0].LogEvents); len(c.puts) != 2 || got != 4 {
		t.Errorf("%d requests, the first of %d events", len(c.puts), got)
	}
	if cap(s.body) > 64<<10 {
		t.Errorf("a sender that waits keeps %d bytes", cap(s.body))
	}
	c.set(func() { c.puts = nil })
	days := recordsOf("a", "b", "c", "d")
	days[1].At = days[0].At.Add(24*time.Hour - time.Millisecond)
	days[2].At = days[0].At.Add(24 * time.Hour)
	days[3].At = days[0].At
	mustSend(t, s, days, false, 4)
	if len(c.puts) != 3 || len(c.puts[0].LogEvents) != 2 {
		t.Errorf("%d requests, want the span of 24 hours to cut twice", len(c.puts))
	}
}

// TestCut: a long line is several events, cut between characters.
func TestCut(t *testing.T) {
	c := newCloud(t)
	s := openAt(t, c)
	line := strings.Repeat("€", 100_000) // of three bytes each
	mustSend(t, s, recordsOf(line, "next"), false, 2)
	first := strings.Repeat("€", (256<<10-26)/3)
	c.expect(first, line[len(first):], "next")

	c.set(func() { c.puts = nil })
	line = "x" + line // so that the last piece that an event takes ends within a character
	var pieces []string
	for rest := line; rest != ""; {
		n := min(len(rest), 16<<10) // in the middle of characters
		pieces, rest = append(pieces, rest[:n]), rest[n:]
	}
	mustSend(t, s, piecesOf(7, true, pieces...), false, len(pieces))
	if len(c.puts) != 1 || len(c.puts[0].LogEvents) != 2 || c.puts[0].LogEvents[0].Message+c.puts[0].LogEvents[1].Message != line {
		t.Errorf("the pieces of a line are not that line in two events")
	}
	c.set(func() { c.puts = nil })
	mustSend(t, s, recordsOf(strings.Repeat("\xffa", 80_000)), false, 1) // grows: U+FFFD has three bytes
	if got := len(c.puts[0].LogEvents); got != 2 {
		t.Errorf("%d events, want 2", got)
	}
}

// TestRejected: events that the service rejects for their time, or refuses, do not stop the others, and the first is reported.
func TestRejected(t *testing.T) {
	for name, change := range map[string]func(c *cloud){
		"old": func(c *cloud) {
			c.after = func(w http.ResponseWriter, _ string, p *put) bool {
				return p.LogEvents[0].Message == "poison" && answerWith(w, `{"rejectedLogEventsInfo":{"tooOldLogEventEndIndex":1,"expiredLogEventEndIndex":0}}`)
			}
		},
		"new": func(c *cloud) {
			c.after = func(w http.ResponseWriter, _ string, p *put) bool {
				return p.LogEvents[0].Message == "poison" && answerWith(w, `{"rejectedLogEventsInfo":{"tooNewLogEventStartIndex":0}}`)
			}
		},
		"refused": func(c *cloud) { c.bad = "poison" },
		"large":   func(c *cloud) { c.bad, c.badStatus = "poison", http.StatusRequestEntityTooLarge },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t)
			change(c)
			s := openAt(t, c)
			n, err := s.Send(context.Background(), recordsOf("poison", "a", "b"), false)
			if n != 3 || err == nil || !strings.Contains(err.Error(), "left out") || !strings.Contains(err.Error(), c.URL) {
				t.Errorf("Send = %d, %v, want all and an error", n, err)
			}
			if (name == "old" || name == "new") && !strings.Contains(err.Error(), name) {
				t.Errorf("Send = %v, want the reason", err)
			}
			mustSend(t, s, recordsOf("poison", "c"), false, 2) // reported already
			mustSend(t, s, recordsOf("d"), false, 1)
			if n, err := s.Send(context.Background(), recordsOf("poison"), false); n != 1 || err == nil {
				t.Errorf("Send = %d, %v, want it reported again after a good batch", n, err)
			}
			if c.bad != "" {
				c.expect("a", "b", "c", "d")
			}
		})
	}
}

// TestRefusedOfMany: one refused event of many costs some requests, not one for each.
func TestRefusedOfMany(t *testing.T) {
	c := newCloud(t)
	c.bad = "poison"
	s := openAt(t, c)
	lines := make([]string, 1024)
	for i := range lines {
		lines[i] = fmt.Sprint("line ", i)
	}
	lines[700] = "poison"
	if n, err := s.Send(context.Background(), recordsOf(lines...), false); n != len(lines) || err == nil {
		t.Errorf("Send = %d, %v", n, err)
	}
	c.expect(slices.Delete(lines, 700, 701)...)
	// All that is left is tried first, so the halvings below the refused one are made anew after each half that is taken.
	if got := len(c.actions); got > 80 {
		t.Errorf("%d requests", got)
	}
}

func answerWith(w http.ResponseWriter, text string) bool {
	_, _ = io.WriteString(w, text)
	return true
}

// TestAlreadyAccepted: events of an earlier Send whose answer was lost.
func TestAlreadyAccepted(t *testing.T) {
	c := newCloud(t)
	s := openAt(t, c)
	c.answer = func(w http.ResponseWriter, _ string) bool {
		fail(w, http.StatusBadRequest, "DataAlreadyAcceptedException", "again")
		return true
	}
	mustSend(t, s, recordsOf("a"), false, 1)
}

// TestBadAnswers: each is an error with address and reason, nothing counts as sent, and the next Send works.
func TestBadAnswers(t *testing.T) {
	for _, tc := range []struct {
		name   string
		answer func(w http.ResponseWriter)
		want   string
	}{
		{"throttled", func(w http.ResponseWriter) { fail(w, 400, "ThrottlingException", "Rate exceeded") }, "ThrottlingException"},
		{"unavailable", func(w http.ResponseWriter) { fail(w, 503, "ServiceUnavailableException", "later") }, "later"},
		{"in a header", func(w http.ResponseWriter) {
			w.Header().Set("X-Amzn-Errortype", "Throttling:http://x")
			w.WriteHeader(http.StatusBadRequest)
		}, `Throttling: ""`},
		{"other case", func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusBadRequest)
			answerWith(w, `{"__type":"X","Message":"Big"}`)
		}, "Big"},
		{"page", func(w http.ResponseWriter) { answerWith(w, "<html>login</html>") }, "<html>login</html>"},
		{"array", func(w http.ResponseWriter) { answerWith(w, "[]") }, "[]"},
		{"redirect", func(w http.ResponseWriter) {
			w.Header().Set("Location", "/")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}, "307"},
		{"endless", func(w http.ResponseWriter) { answerWith(w, strings.Repeat("x", maxAnswer+2)) }, "more than 65536 bytes"},
		{"broken off", func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, "EOF"},
		{"large headers", func(w http.ResponseWriter) {
			w.Header().Set("X", strings.Repeat("x", 1<<20))
			w.WriteHeader(http.StatusOK)
		}, "exceeded"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCloud(t)
			c.Config.ErrorLog = log.New(io.Discard, "", 0)
			s := openAt(t, c)
			c.set(func() { c.answer = func(w http.ResponseWriter, _ string) bool { tc.answer(w); return true } })
			n, err := s.Send(context.Background(), recordsOf("a", "b"), false)
			if n != 0 || err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), c.URL) {
				t.Errorf("Send = %d, %v, want an error with %q and the address", n, err, tc.want)
			}
			c.set(func() { c.answer = nil })
			mustSend(t, s, recordsOf("a", "b"), false, 2)
			c.expect("a", "b")
		})
	}
}

// TestPartOfBatch: what went before an error counts.
func TestPartOfBatch(t *testing.T) {
	c := newCloud(t)
	s := openAt(t, c)
	c.after = func(w http.ResponseWriter, _ string, _ *put) bool {
		c.answer = func(w http.ResponseWriter, _ string) bool { fail(w, 500, "InternalFailure", ""); return true }
		return false
	}
	lines := slices.Repeat([]string{strings.Repeat("x", 104_857-26)}, 12)
	if n, err := s.Send(context.Background(), recordsOf(lines...), false); n != 10 || err == nil {
		t.Errorf("Send = %d, %v, want 10 and an error", n, err)
	}
	c.set(func() { c.answer = nil })
	if n, err := s.Send(context.Background(), recordsOf("a", strings.Repeat("x", 6*256<<10)), false); n != 1 || err == nil {
		t.Errorf("Send = %d, %v, want 1 and an error: parts of the second record are missing", n, err)
	}
}

// TestStall: a service that says nothing costs bounded time, and the end of ctx ends Send.
func TestStall(t *testing.T) {
	c := newCloud(t)
	s := openAt(t, c)
	release := make(chan struct{})
	c.set(func() { c.answer = func(http.ResponseWriter, string) bool { <-release; return false } })
	s.bound = 50 * time.Millisecond
	if n, err := s.Send(context.Background(), recordsOf("x"), false); n != 0 || err == nil || !strings.Contains(err.Error(), "no answer within 50ms") {
		t.Errorf("Send = %d, %v", n, err)
	}
	s.bound = time.Hour
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if n, err := s.Send(ctx, recordsOf("x"), false); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Send with an ended ctx = %d, %v", n, err)
	}
	close(release)
}

// TestGoneAndBack: what the service has not acknowledged while it was away comes when it is back, in order.
func TestGoneAndBack(t *testing.T) {
	c := newCloud(t)
	address := c.Listener.Addr().String()
	s := openAt(t, c)
	mustSend(t, s, recordsOf("a"), false, 1)
	c.Close()
	if n, err := s.Send(context.Background(), recordsOf("b", "c"), false); n != 0 || err == nil || !strings.Contains(err.Error(), address) {
		t.Errorf("Send to nobody = %d, %v", n, err)
	}
	if _, err := Open(context.Background(), setupOf(c)); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), address) {
		t.Errorf("Open at nobody = %v", err)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	again := httptest.NewUnstartedServer(http.HandlerFunc(c.serve))
	_ = again.Listener.Close()
	again.Listener = listener
	again.Config.SetKeepAlivesEnabled(false) // closes after each answer
	again.Start()
	defer again.Close()
	mustSend(t, s, recordsOf("b", "c"), false, 2)
	mustSend(t, s, recordsOf("d"), false, 1)
	c.expect("a", "b", "c", "d")
}

// TestCertificate: a service whose certificate nobody knows is not told anything.
func TestCertificate(t *testing.T) {
	c := newCloud(t)
	server := httptest.NewUnstartedServer(http.HandlerFunc(c.serve))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	if _, err := Open(context.Background(), setupOf(c, "awslogs-endpoint="+server.URL)); !fault.Is(err, fault.Unavailable) ||
		!strings.Contains(err.Error(), "certificate") || len(c.actions) != 0 {
		t.Errorf("Open = %v after %v", err, c.actions)
	}
}

func BenchmarkSend(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		answerWith(w, `{}`)
	}))
	defer server.Close()
	b.Setenv("AWS_ACCESS_KEY_ID", testKey)
	b.Setenv("AWS_SECRET_ACCESS_KEY", testSecret)
	sender, err := Open(context.Background(), setupOf(&cloud{Server: server}))
	if err != nil {
		b.Fatal(err)
	}
	defer sender.Close() //nolint:errcheck // of a test
	records := recordsOf(slices.Repeat([]string{strings.Repeat("x", 100)}, 4096)...)
	b.SetBytes(int64(100 * len(records)))
	b.ReportAllocs()
	for b.Loop() {
		if n, err := sender.Send(context.Background(), records, true); n != len(records) || err != nil {
			b.Fatal(n, err)
		}
	}
}
