package splunk

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"moss/engine/fault"
	"moss/engine/logsink"
	"moss/engine/stdio"
)

// TestFormats: what each option and each part of the setup makes of a record.
func TestFormats(t *testing.T) {
	attrs := map[string]string{"b": "2", "a": `"1"`}
	for _, tc := range []struct {
		name    string
		text    string
		attrs   map[string]string
		options []string
		want    string // of the event
	}{
		{"inline", `a "line"`, nil, nil, `{"line":"a \"line\"","source":"stderr","tag":"tag"}`},
		{"inline JSON", `{"a":1}`, attrs, nil, `{"line":"{\"a\":1}","source":"stderr","tag":"tag","attrs":{"a":"\"1\"","b":"2"}}`},
		{"no tag", "x", nil, []string{"tag="}, `{"line":"x","source":"stderr"}`},
		{"a tag", "x", nil, []string{"tag=given"}, `{"line":"x","source":"stderr","tag":"tag"}`},
		{"json", ` {"a": [1]} `, attrs, []string{"splunk-format=json"}, `{"line":{"a": [1]},"source":"stderr","tag":"tag","attrs":{"a":"\"1\"","b":"2"}}`},
		{"json number", `12`, nil, []string{"splunk-format=json"}, `{"line":12,"source":"stderr","tag":"tag"}`},
		{"json of a text", `{"a":`, nil, []string{"splunk-format=json"}, `{"line":"{\"a\":","source":"stderr","tag":"tag"}`},
		{"json not UTF-8", "\"\xff\"", nil, []string{"splunk-format=json"}, `{"line":"\"\ufffd\"","source":"stderr","tag":"tag"}`},
		{"empty", "", nil, nil, `{"line":"","source":"stderr","tag":"tag"}`},
		{"raw", `a "line"`, attrs, []string{"splunk-format=raw"}, `"tag a=\"1\" b=2 a \"line\""`},
		{"raw without tag", "x", nil, []string{"splunk-format=raw", "tag="}, `"x"`},
		{"raw blank", " \t", nil, []string{"splunk-format=raw"}, `"tag  \t"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCollector(t)
			setup := setupOf(c.URL, tc.options...)
			setup.Container.Attrs = tc.attrs
			records := recordsOf(tc.text)
			records[0].Stream = stdio.Stderr
			mustSend(t, openSetup(t, setup), records)
			if len(c.events) != 1 {
				t.Fatalf("%d events", len(c.events))
			}
			got := c.events[0]
			if string(got.Event) != tc.want || got.Time != "1772600767.089012" || got.Host != "host" {
				t.Errorf("event %s at %s of %s, want %s", got.Event, got.Time, got.Host, tc.want)
			}
			if got.Source+got.SourceType+got.Index != "" {
				t.Errorf("fields that nobody has set: %+v", got)
			}
		})
	}
}

func TestFields(t *testing.T) {
	c := newCollector(t)
	mustSend(t, openAt(t, c.URL, "splunk-source=s", "splunk-sourcetype=t", "splunk-index=i"), recordsOf("x"))
	if e := c.events[0]; e.Source != "s" || e.SourceType != "t" || e.Index != "i" {
		t.Errorf("event %+v", e)
	}
	var o object
	if err := json.Unmarshal(c.events[0].Event, &o); err != nil || o.Source != "stdout" {
		t.Errorf("event %s, %v, want the standard output", c.events[0].Event, err)
	}
}

// TestRawBlank: a collector refuses an event without text, so none is sent.
func TestRawBlank(t *testing.T) {
	c := newCollector(t)
	s := openAt(t, c.URL, "splunk-format=raw", "tag=")
	mustSend(t, s, recordsOf("a", " \t", "", "b"))
	mustSend(t, s, recordsOf(""))
	c.expect("a", "b")
	if len(c.sizes) != 1 {
		t.Errorf("%d requests, want 1", len(c.sizes))
	}
}

// TestVerify: the collector is asked once at the start, unless somebody says otherwise.
func TestVerify(t *testing.T) {
	for name, tc := range map[string]struct {
		options []string
		resume  bool
		want    int
	}{
		"default": {nil, false, 1}, "off": {[]string{"splunk-verify-connection=false"}, false, 0}, "resumed": {nil, true, 0},
	} {
		c := newCollector(t)
		setup := setupOf(c.URL, tc.options...)
		setup.Resume = tc.resume
		openSetup(t, setup)
		if len(c.requests) != tc.want {
			t.Errorf("%s: %d question(s), want %d", name, len(c.requests), tc.want)
		}
		c.Close()
		opened, err := Open(context.Background(), setup)
		if (err != nil) != (tc.want == 1) || err != nil && (!fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), c.URL)) {
			t.Errorf("%s: a collector that is not there: %v", name, err)
		}
		if err == nil {
			_ = opened.Close()
		}
	}
}

func TestWrongToken(t *testing.T) {
	c := newCollector(t)
	setup := setupOf(c.URL, "splunk-token=wrong-secret")
	if _, err := Open(context.Background(), setup); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "403") ||
		!strings.Contains(err.Error(), "Invalid token") {
		t.Errorf("Open = %v", err)
	}
	setup.Resume = true
	c.set(func() {
		c.answer = func(w http.ResponseWriter, r *http.Request) bool {
			say(w, http.StatusUnauthorized, `{"code":3,"text":"refused `+r.Header.Get("Authorization")+`"}`)
			return true
		}
	})
	n, err := openSetup(t, setup).Send(context.Background(), recordsOf("x"), false)
	if n != 0 || err == nil || strings.Contains(err.Error(), "wrong-secret") || !strings.Contains(err.Error(), "[hidden]") {
		t.Errorf("Send = %d, %v, want an error without the token", n, err)
	}
}

func TestGzip(t *testing.T) {
	lines := make([]string, 200)
	for i := range lines {
		lines[i] = strings.Repeat("text ", 20)
	}
	size := map[string]int{}
	for _, options := range []string{"splunk-gzip=false", "splunk-gzip=true splunk-gzip-level=0", "splunk-gzip=true splunk-gzip-level=9", "splunk-gzip=true"} {
		c := newCollector(t)
		s := openAt(t, c.URL, strings.Fields(options)...)
		mustSend(t, s, recordsOf(lines...))
		mustSend(t, s, recordsOf(lines...))
		c.expect(slices.Concat(lines, lines)...)
		packed := c.requests[1].Header.Get("Content-Encoding") == "gzip"
		if packed == (options == "splunk-gzip=false") {
			t.Errorf("%s: packed is %t", options, packed)
		}
		size[options] = c.sizes[1]
	}
	if plain := size["splunk-gzip=false"]; size["splunk-gzip=true splunk-gzip-level=0"] <= plain ||
		size["splunk-gzip=true splunk-gzip-level=9"]*10 > plain || size["splunk-gzip=true"]*10 > plain {
		t.Errorf("bytes of bodies: %v", size)
	}
}

func TestBodyBound(t *testing.T) {
	c := newCollector(t)
	s := openAt(t, c.URL)
	line := strings.Repeat("\x01", 16<<10) // six bytes each in JSON
	lines := make([]string, s.Batch().Bytes/len(line))
	for i := range lines {
		lines[i] = line
	}
	mustSend(t, s, recordsOf(lines...))
	if got := len(c.lines()); got != len(lines) || len(c.sizes) < 3 {
		t.Errorf("%d events in %d requests, want %d in at least 3", got, len(c.sizes), len(lines))
	}
	for _, size := range c.sizes {
		if size > 1_000_000 {
			t.Errorf("a body of %d bytes", size)
		}
	}
	if cap(s.body) > 64<<10 {
		t.Errorf("a sender that waits keeps %d bytes", cap(s.body))
	}
	large := strings.Repeat("\x01", 200<<10)
	mustSend(t, s, recordsOf(large, "small"))
	if got := c.lines(); len(got) != len(lines)+2 || got[len(lines)+1] != `"small"` {
		t.Errorf("%d events, want a record that fills more than a body, and the one after it", len(got))
	}
	if b := s.Batch(); b.Records != 1000 || b.Linger != 5*time.Second {
		t.Errorf("Batch = %+v", b)
	}
}

// TestRefusedEvents: events that the collector never takes do not stop the others, and the first is reported.
func TestRefusedEvents(t *testing.T) {
	for name, change := range map[string]func(*collector){
		"numbered": func(c *collector) { c.bad = "poison" },
		"blind":    func(c *collector) { c.bad, c.where = "poison", "none" },
		"too high": func(c *collector) { c.bad, c.where = "poison", "99" },
		"too low":  func(c *collector) { c.bad, c.where = "poison", "-1" },
		"large":    func(c *collector) { c.large = 400 },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCollector(t)
			change(c)
			s := openAt(t, c.URL)
			poison := "poison" + strings.Repeat("x", 400)
			records := recordsOf("a", "b", poison, "c", poison, "d", "e")
			n, err := s.Send(context.Background(), records, false)
			if n != len(records) || err == nil || !strings.Contains(err.Error(), "left out") || !strings.Contains(err.Error(), c.URL) {
				t.Errorf("Send = %d, %v, want all and an error", n, err)
			}
			c.expect("a", "b", "c", "d", "e")
			if got := len(c.sizes); name == "numbered" && got != 9 {
				t.Errorf("%d requests, want 9: those before a refused event, it alone, and all after it at once", got)
			}
			mustSend(t, s, recordsOf(poison, "f")) // reported already
			mustSend(t, s, recordsOf("g"))
			if n, err := s.Send(context.Background(), recordsOf(poison), false); n != 1 || err == nil {
				t.Errorf("Send = %d, %v, want it reported again after a good batch", n, err)
			}
		})
	}
}

// TestBadAnswers: each is an error with address and reason, nothing counts as sent, and the next Send works.
func TestBadAnswers(t *testing.T) {
	for _, tc := range []struct {
		name   string
		answer func(w http.ResponseWriter)
		want   string
	}{
		{"busy", func(w http.ResponseWriter) { say(w, 503, `{"text":"Server is busy","code":9}`) }, "Server is busy"},
		{"index", func(w http.ResponseWriter) {
			say(w, 400, `{"text":"Incorrect index","code":7,"invalid-event-number":1}`)
		}, "Incorrect index"},
		{"code", func(w http.ResponseWriter) { say(w, 200, `{"text":"Success?","code":8}`) }, "code 8"},
		{"no code", func(w http.ResponseWriter) { say(w, 200, `{"text":"Hello"}`) }, "Hello"},
		{"page", func(w http.ResponseWriter) { say(w, 200, "<html>login</html>") }, "<html>login</html>"},
		{"redirect", func(w http.ResponseWriter) {
			w.Header().Set("Location", "/services/collector/event/1.0")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}, "307"},
		{"endless", func(w http.ResponseWriter) { say(w, 200, strings.Repeat("x", maxAnswer+2)) }, "more than 65536 bytes"},
		{"broken off", func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, "EOF"},
		{"large headers", func(w http.ResponseWriter) {
			w.Header().Set("X", strings.Repeat("x", 1<<20))
			w.WriteHeader(http.StatusOK)
		}, "exceeded"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCollector(t)
			c.Config.ErrorLog = log.New(io.Discard, "", 0)
			s := openAt(t, c.URL)
			c.set(func() { c.answer = func(w http.ResponseWriter, _ *http.Request) bool { tc.answer(w); return true } })
			n, err := s.Send(context.Background(), recordsOf("a", "b"), false)
			if n != 0 || err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), c.URL) {
				t.Errorf("Send = %d, %v, want an error with %q and the address", n, err, tc.want)
			}
			c.set(func() { c.answer = nil })
			mustSend(t, s, recordsOf("a", "b"))
			c.expect("a", "b")
		})
	}
}

// TestEmptyAnswer: collectors of other makers say nothing.
func TestEmptyAnswer(t *testing.T) {
	c := newCollector(t)
	c.answer = func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusOK); return true }
	mustSend(t, openAt(t, c.URL), recordsOf("a"))
}

// TestGarbage: what answers is no HTTP.
func TestGarbage(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() //nolint:errcheck // of a test
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "220 mail\r\n")
			_ = conn.Close()
		}
	}()
	_, err = Open(context.Background(), setupOf("http://"+listener.Addr().String()))
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), listener.Addr().String()) {
		t.Errorf("Open = %v", err)
	}
}

// TestStall: a collector that says nothing costs bounded time, and the end of ctx ends Send.
func TestStall(t *testing.T) {
	c := newCollector(t)
	s := openAt(t, c.URL)
	release := make(chan struct{})
	c.set(func() { c.answer = func(http.ResponseWriter, *http.Request) bool { <-release; return false } })
	s.bound = 50 * time.Millisecond
	if n, err := s.Send(context.Background(), recordsOf("x"), false); n != 0 || err == nil || !strings.Contains(err.Error(), "no answer within 50ms") {
		t.Errorf("Send = %d, %v", n, err)
	}
	s.bound = time.Hour
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if n, err := s.Send(ctx, recordsOf("x"), false); n != 0 || err == nil || !strings.Contains(err.Error(), "deadline") {
		t.Errorf("Send with an ended ctx = %d, %v", n, err)
	}
	close(release)
}

// TestGoneAndBack: what the collector has not acknowledged while it was away comes when it is back, in order.
func TestGoneAndBack(t *testing.T) {
	c := newCollector(t)
	address := c.Listener.Addr().String()
	s := openAt(t, c.URL)
	mustSend(t, s, recordsOf("a"))
	c.Close()
	if n, err := s.Send(context.Background(), recordsOf("b", "c"), false); n != 0 || err == nil || !strings.Contains(err.Error(), address) {
		t.Errorf("Send to nobody = %d, %v", n, err)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	again := httptest.NewUnstartedServer(http.HandlerFunc(c.serve))
	_ = again.Listener.Close()
	again.Listener = listener
	again.Start()
	defer again.Close()
	sendAll(t, s, recordsOf("b", "c"), 2)
	c.expect("a", "b", "c")
}

// TestClosesEach: a collector that closes after each answer loses nothing.
func TestClosesEach(t *testing.T) {
	c := newCollector(t)
	c.Config.SetKeepAlivesEnabled(false)
	s := openAt(t, c.URL)
	for _, line := range []string{"a", "b", "c"} {
		mustSend(t, s, recordsOf(line))
	}
	c.expect("a", "b", "c")
}

// TestCertificates: who is trusted, by which name.
func TestCertificates(t *testing.T) {
	c := &collector{t: t}
	server := httptest.NewUnstartedServer(http.HandlerFunc(c.serve))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	folder := t.TempDir()
	ca, empty := filepath.Join(folder, "ca.pem"), filepath.Join(folder, "empty.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	fifo := filepath.Join(folder, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string][]byte{ca: text, empty: []byte("none")} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		name    string
		options map[string]string
		like    fault.Constructor // nil: it opens
		want    string
	}{
		{"unknown", nil, fault.Unavailable, "certificate"},
		{"trusted", map[string]string{"splunk-capath": ca}, nil, ""},
		{"trusted by name", map[string]string{"splunk-capath": ca, "splunk-caname": "example.com"}, nil, ""},
		{"another name", map[string]string{"splunk-capath": ca, "splunk-caname": "other.test"}, fault.Unavailable, "other.test"},
		{"not checked", map[string]string{"splunk-insecureskipverify": "true"}, nil, ""},
		{"no file", map[string]string{"splunk-capath": folder + "/none"}, fault.Invalid, folder + "/none"},
		{"no certificate", map[string]string{"splunk-capath": empty}, fault.Invalid, empty},
		{"a FIFO", map[string]string{"splunk-capath": fifo}, fault.Invalid, fifo},
		{"a folder", map[string]string{"splunk-capath": folder}, fault.Invalid, folder},
	} {
		setup := setupOf(server.URL)
		maps.Copy(setup.Options, tc.options)
		opened, err := Open(context.Background(), setup)
		switch {
		case tc.like == nil && err != nil:
			t.Errorf("%s: %v", tc.name, err)
		case tc.like != nil && (!fault.Is(err, tc.like) || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: %v, want an error with %q", tc.name, err, tc.want)
		}
		if err == nil {
			mustSend(t, opened.(*sender), recordsOf("x"))
			_ = opened.Close()
		}
	}
}

func BenchmarkSend(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		say(w, 200, `{"text":"Success","code":0}`)
	}))
	defer server.Close()
	sender, err := Open(context.Background(), setupOf(server.URL))
	if err != nil {
		b.Fatal(err)
	}
	defer sender.Close() //nolint:errcheck // of a test
	records := make([]logsink.Record, batchRecords)
	for i := range records {
		records[i] = logsink.Record{At: testTime, Stream: stdio.Stdout, Text: []byte(strings.Repeat("x", 100))}
	}
	b.SetBytes(100 * batchRecords)
	b.ReportAllocs()
	for b.Loop() {
		if n, err := sender.Send(context.Background(), records, true); n != len(records) || err != nil {
			b.Fatal(n, err)
		}
	}
}
