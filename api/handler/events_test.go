package handler_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"moss/engine/event"
)

func TestEvents(t *testing.T) {
	a := newAPI(t)
	resp := a.open("GET", `/v1.24/events?filters=%7B%22type%22%3A%5B%22container%22%5D%7D`, "") //nolint:bodyclose // The cleanup of open does.
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("events = %d %q, want 200 at once", resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	at := time.Now()
	a.events.Publish(event.Event{Type: event.TypeNetwork, Action: "connect", ID: "n", Time: at})
	a.events.Publish(event.Event{Type: event.TypeContainer, Action: "die", ID: "4f", Attributes: map[string]string{"exitCode": "3", "image": "busybox"}, Time: at})
	got, err := bufio.NewReader(resp.Body).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	for want, path := range map[string][]string{
		"die": {"status"}, "4f": {"id"}, "busybox": {"from"}, "container": {"Type"}, "3": {"Actor", "Attributes", "exitCode"},
	} {
		if v := field(t, got, path...); v != want {
			t.Errorf("event %s: %v = %v, want %s", got, path, v, want)
		}
	}
}

func TestEventsTimes(t *testing.T) {
	a := newAPI(t)
	at := time.Now().Add(-time.Hour)
	for i := range 3 {
		a.events.Publish(event.Event{Type: event.TypeContainer, Action: strconv.Itoa(i), ID: "4f", Time: at.Add(time.Duration(i) * time.Minute)})
	}
	moment := func(i, nanos int) string {
		at := at.Add(time.Duration(i)*time.Minute + time.Duration(nanos))
		return fmt.Sprintf("%d.%09d", at.Unix(), at.Nanosecond())
	}
	date := func(i int) string { return at.Add(time.Duration(i) * time.Minute).UTC().Format(time.RFC3339Nano) }
	for _, tc := range []struct{ since, until, want string }{
		{"0", "0s", "0 1 2"},
		{moment(1, 0), moment(1, 0), "1"},
		{moment(1, 1), moment(2, 0), "2"},
		{moment(0, 0), moment(2, -1), "0 1"},
		{date(1), date(2), "1 2"},
		{date(1), "1m", "1 2"},
		{"61m", date(0), "0"},
		{"10m", "5m", ""},
		{"", "0s", "0 1 2"},
		{"", moment(1, 0), "0 1"},
		{"", "0", ""},
		{"0", "0", ""},
		{"", "10m", "0 1 2"},
		{"1", "2", ""},
	} {
		query := url.Values{"since": {tc.since}, "until": {tc.until}}.Encode()
		status, body := a.ask("GET", "/v1.24/events?"+query, "")
		if got := actions(t, body); status != 200 || got != tc.want {
			t.Errorf("%s = %d %q, want %q and the end", query, status, got, tc.want)
		}
	}
	for _, query := range []string{
		"since=x", "until=-", "since=10&until=9.999999999", "until=2013-13-13", "filters=x", "filters=%7B%22nope%22%3A%5B%22a%22%5D%7D", "since=5&until=4",
		"since=5m&until=10m", "since=5&until=0", "since=-1h&until=0s",
	} {
		if status, body := a.ask("GET", "/events?"+query, ""); status != 400 {
			t.Errorf("events?%s = %d %q, want 400", query, status, body)
		}
	}
}

// actions returns those of all events, with a space between them.
func actions(t *testing.T, body string) string {
	t.Helper()
	var all []string
	for line := range strings.Lines(body) {
		var e struct{ Action string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, e.Action)
	}
	return strings.Join(all, " ")
}

// TestEventsByVersion withholds what versions before 1.24, and before 1.21, do not know.
func TestEventsByVersion(t *testing.T) {
	a := newAPI(t)
	at := time.Now()
	for _, e := range []struct{ kind, action string }{
		{event.TypeContainer, "create"},
		{event.TypeContainer, "detach"},
		{event.TypeContainer, "exec_detach"},
		{event.TypeContainer, "exec_start: detach"},
		{event.TypeContainer, "health_status: healthy"},
		{event.TypeImage, "import"},
		{event.TypeImage, "load"},
		{event.TypeImage, "save"},
		{event.TypeVolume, "mount"},
		{event.TypeNetwork, "connect"},
		{event.TypeDaemon, "reload"},
		{event.TypeContainer, "die"},
	} {
		a.events.Publish(event.Event{Type: e.kind, Action: e.action, ID: "4f", Time: at})
	}
	old := "create exec_start: detach import die"
	middle := "create exec_start: detach import mount connect die"
	all := "create detach exec_detach exec_start: detach health_status: healthy import load save mount connect reload die"
	for version, want := range map[string]string{
		"/v1.18": old, "/v1.19": old, "/v1.20": old, "/v1.21": middle, "/v1.22": middle, "/v1.23": middle, "/v1.24": all, "": all,
	} {
		status, body := a.ask("GET", fmt.Sprintf("%s/events?since=0&until=%d", version, at.Unix()+1), "")
		if got := actions(t, body); status != 200 || got != want {
			t.Errorf("events at %q = %d %q, want %q", version, status, got, want)
		}
		status, _ = a.ask("GET", version+"/events?until=1&filters="+url.QueryEscape(`{"daemon":["x"]}`), "")
		if has := want == all; has != (status == 200) || !has && status != 400 {
			t.Errorf("the filter daemon at %q = %d, want it from 1.24 on and 400 before", version, status)
		}
	}
}

// TestLaterEvents: what versions after 1.24 tell.
func TestLaterEvents(t *testing.T) {
	a := newAPI(t)
	at := time.Now()
	for _, e := range []struct{ kind, action string }{{event.TypeContainer, "exec_die"}, {event.TypeImage, "prune"}, {event.TypeImage, "create"}, {event.TypeContainer, "die"}} {
		a.events.Publish(event.Event{Type: e.kind, Action: e.action, ID: "4f", Time: at})
	}
	for version, want := range map[string]string{
		"1.35": "die", "1.36": "exec_die die", "1.41": "exec_die prune die", "1.45": "exec_die prune die", "1.46": "exec_die prune create die",
	} {
		_, body := a.ask("GET", fmt.Sprintf("/v%s/events?since=0&until=%d", version, at.Unix()+1), "")
		if got := actions(t, body); got != want {
			t.Errorf("events at %s = %q, want %q", version, got, want)
		}
	}
}

// TestEventsTogether has more events than go out at a time, some of them longer than that.
func TestEventsTogether(t *testing.T) {
	a := newAPI(t)
	resp := a.open("GET", "/v1.24/events", "")  //nolint:bodyclose // The cleanup of open does.
	other := a.open("GET", "/v1.22/events", "") //nolint:bodyclose // The cleanup of open does.
	const events = 1000
	for i := range events {
		e := event.Event{Type: event.TypeContainer, Action: strconv.Itoa(i), ID: "4f"}
		if i%100 == 50 {
			e.Attributes = map[string]string{"label": strings.Repeat("x", 200<<10)}
		}
		a.events.Publish(e)
	}
	a.events.Close()
	for _, r := range []*http.Response{resp, other} {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Fields(actions(t, string(body)))
		if len(got) != events || got[0] != "0" || got[events-1] != strconv.Itoa(events-1) {
			t.Errorf("got %d events, want %d in their order", len(got), events)
		}
	}
}

// TestEventsFallBehind has a client that reads nothing while more happens than is remembered: it is told.
func TestEventsFallBehind(t *testing.T) {
	a := newAPI(t)
	resp := a.open("GET", "/v1.24/events", "") //nolint:bodyclose // The cleanup of open does.
	long := map[string]string{"label": strings.Repeat("x", 1<<20)}
	for range 40 {
		a.events.Publish(event.Event{Type: event.TypeContainer, Action: "x", ID: "4f", Attributes: long})
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(body)), "\n")
	if last := lines[len(lines)-1]; !strings.Contains(last, `"error":"events were lost`) {
		t.Errorf("the stream ended with %.200q, want an error", last)
	}
}

func TestEventsEndWithTheBus(t *testing.T) {
	a := newAPI(t)
	resp := a.open("GET", "/events", "") //nolint:bodyclose // The cleanup of open does.
	a.events.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || len(body) != 0 {
		t.Errorf("events after the bus was closed = %q, %v, want the end", body, err)
	}
	if n := a.events.Listeners(); n != 0 {
		t.Errorf("%d listeners are left", n)
	}
}

func TestEventsEndWithTheirClient(t *testing.T) {
	a := newAPI(t)
	c := a.dial()
	if _, err := io.WriteString(c, "GET /events HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, len("HTTP/1.1 200"))); err != nil {
		t.Fatal(err)
	}
	if n := a.events.Listeners(); n != 1 {
		t.Errorf("%d listeners, want 1", n)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); a.events.Listeners() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the listener is left when its client has gone")
		}
	}
}
