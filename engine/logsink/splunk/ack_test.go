package splunk

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

func newAcknowledging(t *testing.T) (*collector, *sender) {
	c := newCollector(t)
	c.acks = true
	return c, openAt(t, c.URL, "splunk-index-acknowledgment=true")
}

// TestAcknowledged: Send ends once the indexer has the events.
func TestAcknowledged(t *testing.T) {
	c, s := newAcknowledging(t)
	times := 0
	c.indexed = func(int64) bool { times++; return times > 2 }
	mustSend(t, s, recordsOf("a", "b"))
	if !slices.Equal(c.asked, []int64{1, 1, 1}) {
		t.Errorf("asked for %v, want the first request three times", c.asked)
	}
	mustSend(t, s, recordsOf("c"))
	c.expect("a", "b", "c")
	channel := ""
	for _, r := range c.requests[1:] {
		if got := r.Header.Get("X-Splunk-Request-Channel"); len(got) != 36 || channel != "" && got != channel {
			t.Errorf("channel %q after %q", got, channel)
		} else {
			channel = got
		}
	}
}

func TestNoChannelUnasked(t *testing.T) {
	c := newCollector(t)
	mustSend(t, openAt(t, c.URL), recordsOf("a"))
	if got, ok := c.requests[1].Header["X-Splunk-Request-Channel"]; ok || len(c.asked) != 0 {
		t.Errorf("channel %q, asked for %v", got, c.asked)
	}
}

// TestReceiptKept: events that the collector took do not come twice where a question failed.
func TestReceiptKept(t *testing.T) {
	for status, text := range map[int]string{503: `{"text":"Server is busy","code":9}`, 200: "what?", 429: "slowly"} {
		c, s := newAcknowledging(t)
		c.answer = func(w http.ResponseWriter, r *http.Request) bool {
			if strings.HasSuffix(r.URL.Path, "/ack") {
				say(w, status, text)
				return true
			}
			return false
		}
		if n, err := s.Send(context.Background(), recordsOf("a", "b"), false); n != 0 || err == nil {
			t.Fatalf("Send = %d, %v", n, err)
		}
		c.set(func() { c.answer = nil })
		mustSend(t, s, recordsOf("a", "b", "c"))
		c.expect("a", "b", "c")
	}
}

// TestReceiptOfOthers: a receipt says nothing of other records.
func TestReceiptOfOthers(t *testing.T) {
	for _, next := range [][]string{{"c", "d"}, {"a"}} {
		c, s := newAcknowledging(t)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		c.indexed = func(int64) bool { cancel(); return false }
		if n, err := s.Send(ctx, recordsOf("a", "b"), false); n != 0 || err == nil {
			t.Fatalf("Send = %d, %v", n, err)
		}
		c.set(func() { c.indexed = func(int64) bool { return true } })
		mustSend(t, s, recordsOf(next...))
		c.expect(append([]string{"a", "b"}, next...)...)
	}
}

// TestSameAgain: records that are the same as those of the last batch are other ones.
func TestSameAgain(t *testing.T) {
	c, s := newAcknowledging(t)
	mustSend(t, s, recordsOf("a"))
	mustSend(t, s, recordsOf("a"))
	c.expect("a", "a")
}

// TestReceiptLost: events that the indexer has not in time, or of which the collector knows nothing any more, come again.
func TestReceiptLost(t *testing.T) {
	c, s := newAcknowledging(t)
	s.ackWait = 250 * time.Millisecond
	c.indexed = func(int64) bool { return false }
	if n, err := s.Send(context.Background(), recordsOf("a"), false); n != 0 || err == nil || !strings.Contains(err.Error(), "within 250ms") {
		t.Fatalf("Send = %d, %v", n, err)
	}
	c.set(func() {
		c.answer = func(w http.ResponseWriter, r *http.Request) bool {
			if strings.HasSuffix(r.URL.Path, "/ack") {
				say(w, 400, `{"text":"Invalid data channel","code":11}`)
				return true
			}
			return false
		}
	})
	if n, err := s.Send(context.Background(), recordsOf("a"), false); n != 0 || err == nil || !strings.Contains(err.Error(), "code 11") {
		t.Fatalf("Send = %d, %v", n, err)
	}
	c.set(func() { c.answer = nil; c.indexed = func(int64) bool { return true } })
	mustSend(t, s, recordsOf("a"))
	c.expect("a", "a", "a")
}

// TestNoAcknowledgement: a token without it is an error, not a wait.
func TestNoAcknowledgement(t *testing.T) {
	c := newCollector(t)
	s := openAt(t, c.URL, "splunk-index-acknowledgment=true")
	if n, err := s.Send(context.Background(), recordsOf("a"), false); n != 0 || err == nil || !strings.Contains(err.Error(), "no ackId") {
		t.Errorf("Send = %d, %v", n, err)
	}
}

// TestAnswerLost: where the answer breaks off it is not known what was taken, so events may come twice, and none is missing.
func TestAnswerLost(t *testing.T) {
	c := newCollector(t)
	s := openAt(t, c.URL)
	mustSend(t, s, recordsOf("a"))
	c.set(func() { c.drop = 1 })
	sendAll(t, s, recordsOf("b", "c"), 2)
	c.expect("a", "b", "c", "b", "c")
}
