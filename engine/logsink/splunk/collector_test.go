package splunk

import (
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"moss/engine/logsink"
	"moss/engine/stdio"
)

const testToken = "11111111-2222-3333-4444-555555555555"

// event is what a collector reads; a field that is not here fails the test.
type event struct {
	Time       string          `json:"time"`
	Host       string          `json:"host"`
	Source     string          `json:"source"`
	SourceType string          `json:"sourcetype"`
	Index      string          `json:"index"`
	Event      json.RawMessage `json:"event"`
}

// object is the event of the formats inline and json.
type object struct {
	Line   json.RawMessage   `json:"line"`
	Source string            `json:"source"`
	Tag    *string           `json:"tag"`
	Attrs  map[string]string `json:"attrs"`
}

// collector is a receiver that holds each request to the protocol.
type collector struct {
	*httptest.Server
	t *testing.T

	mu       sync.Mutex // guards the fields below
	acks     bool       // the token has acknowledgement: a channel is required
	bad      string     // an event with this text is refused
	where    string     // said of the refused event in place of its number; none: nothing is said
	large    int        // bytes of a body that is refused; 0: none
	events   []event
	requests []*http.Request // without bodies
	sizes    []int           // bytes of bodies as they came
	asked    []int64         // numbers of receipts
	indexed  func(id int64) bool
	answer   func(w http.ResponseWriter, r *http.Request) bool // answers itself, if true
	drop     int                                               // answers to events that break off after they were taken
}

func newCollector(t *testing.T) *collector {
	c := &collector{t: t, indexed: func(int64) bool { return true }}
	c.Server = httptest.NewServer(http.HandlerFunc(c.serve))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) serve(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, r)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		c.t.Errorf("body of %s %s: %v", r.Method, r.URL, err)
	}
	if c.answer != nil && c.answer(w, r) {
		return
	}
	if got := r.Header.Get("Authorization"); got != "Splunk "+testToken {
		say(w, http.StatusForbidden, `{"text":"Invalid token","code":4}`)
		return
	}
	switch r.Method + " " + r.URL.Path {
	case "OPTIONS /services/collector/event/1.0":
		w.WriteHeader(http.StatusOK)
	case "POST /services/collector/event/1.0":
		c.sizes = append(c.sizes, len(body))
		c.takeEvents(w, r, body)
	case "POST /services/collector/ack":
		c.tellIndexed(w, r, body)
	default:
		say(w, http.StatusNotFound, `{"text":"not found","code":404}`)
	}
}

func (c *collector) takeEvents(w http.ResponseWriter, r *http.Request, body []byte) {
	if r.Header.Get("Content-Type") != "application/json" {
		c.t.Errorf("content type %q", r.Header.Get("Content-Type"))
	}
	if c.acks && len(r.Header.Get("X-Splunk-Request-Channel")) != 36 {
		say(w, http.StatusBadRequest, `{"text":"Data channel is missing","code":10}`)
		return
	}
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacker, err := gzip.NewReader(strings.NewReader(string(body)))
		if err == nil {
			body, err = io.ReadAll(unpacker)
		}
		if err != nil {
			c.t.Errorf("gzip: %v", err)
		}
	}
	if c.large > 0 && len(body) > c.large {
		say(w, http.StatusRequestEntityTooLarge, `{"text":"too large","code":27}`)
		return
	}
	decoder := json.NewDecoder(strings.NewReader(string(body)))
	decoder.DisallowUnknownFields()
	var events []event
	for {
		var e event
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			c.t.Errorf("event %d: %v in %q", len(events), err, body)
			break
		}
		if c.bad != "" && strings.Contains(string(e.Event), c.bad) {
			where := `,"invalid-event-number":` + cmp.Or(c.where, strconv.Itoa(len(events)))
			if c.where == "none" {
				where = ""
			}
			say(w, http.StatusBadRequest, `{"text":"Invalid data format","code":6`+where+`}`)
			return
		}
		events = append(events, e)
	}
	c.events = append(c.events, events...)
	if c.drop > 0 {
		c.drop--
		panic(http.ErrAbortHandler)
	}
	if c.acks {
		say(w, http.StatusOK, fmt.Sprintf(`{"text":"Success","code":0,"ackId":%d}`, len(c.sizes)))
		return
	}
	say(w, http.StatusOK, `{"text":"Success","code":0}`)
}

func (c *collector) tellIndexed(w http.ResponseWriter, r *http.Request, body []byte) {
	channel := r.Header.Get("X-Splunk-Request-Channel")
	var asked struct {
		Acks []int64 `json:"acks"`
	}
	if err := json.Unmarshal(body, &asked); err != nil || len(asked.Acks) != 1 || r.URL.Query().Get("channel") != channel || channel == "" {
		c.t.Errorf("question %s %q, %v", r.URL, body, err)
	}
	c.asked = append(c.asked, asked.Acks...)
	say(w, http.StatusOK, fmt.Sprintf(`{"acks":{"%d":%t}}`, asked.Acks[0], c.indexed(asked.Acks[0])))
}

func say(w http.ResponseWriter, status int, text string) {
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

// set changes the collector between requests.
func (c *collector) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// lines returns the lines of all events that came, as the JSON that they were.
func (c *collector) lines() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var lines []string
	for _, e := range c.events {
		var o object
		if json.Unmarshal(e.Event, &o) == nil {
			lines = append(lines, string(o.Line))
		} else {
			lines = append(lines, string(e.Event))
		}
	}
	return lines
}

// expect holds that these lines came, in order.
func (c *collector) expect(want ...string) {
	c.t.Helper()
	for i := range want {
		want[i] = `"` + want[i] + `"`
	}
	if got := c.lines(); !slices.Equal(got, want) {
		c.t.Errorf("collector has %q, want %q", got, want)
	}
}

var testTime = time.Date(2026, 3, 4, 5, 6, 7, 89012345, time.UTC)

func setupOf(url string, options ...string) logsink.Setup {
	setup := logsink.Setup{
		Container: logsink.Container{ID: strings.Repeat("ab", 32), Host: "host", Tag: "tag"},
		Options:   map[string]string{"splunk-token": testToken, "splunk-url": url},
	}
	for _, option := range options {
		name, value, _ := strings.Cut(option, "=")
		setup.Options[name] = value
	}
	return setup
}

func openSetup(t *testing.T, setup logsink.Setup) *sender {
	t.Helper()
	opened, err := Open(context.Background(), setup)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := opened.Close(); err != nil {
			t.Error(err)
		}
	})
	return opened.(*sender)
}

func openAt(t *testing.T, url string, options ...string) *sender {
	t.Helper()
	return openSetup(t, setupOf(url, options...))
}

func recordsOf(lines ...string) []logsink.Record {
	records := make([]logsink.Record, 0, len(lines))
	for i, line := range lines {
		records = append(records, logsink.Record{At: testTime.Add(time.Duration(i) * time.Second), Stream: stdio.Stdout, Text: []byte(line)})
	}
	return records
}

// mustSend sends and holds that all was acknowledged.
func mustSend(t *testing.T, s *sender, records []logsink.Record) {
	t.Helper()
	if n, err := s.Send(context.Background(), records, false); n != len(records) || err != nil {
		t.Fatalf("Send = %d, %v, want %d", n, err, len(records))
	}
}

// sendAll sends as a caller does that is not told of success: again from the first record that is not acknowledged.
func sendAll(t *testing.T, s *sender, records []logsink.Record, times int) {
	t.Helper()
	var err error
	for range times {
		var n int
		if n, err = s.Send(context.Background(), records, true); n == len(records) {
			return
		}
		records = records[n:]
	}
	t.Fatalf("%d record(s) left after %d times: %v", len(records), times, err)
}
