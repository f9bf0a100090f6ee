package splunk

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"moss/engine/logsink"
)

// Waiting for the indexer. It acknowledges after seconds when all is well. Splunk's documents let a client send again after five
// minutes.
const (
	ackWait  = 5 * time.Minute
	ackFirst = 100 * time.Millisecond // until the first question; doubles with each
	ackLast  = 5 * time.Second        // between questions at most
)

// receipt is what the collector gives for a request: a number by which to ask whether the indexer has its events.
type receipt struct {
	id    int64
	count int    // records of the request; 0: there is no receipt
	sum   uint64 // of the request's body
	until time.Time
}

// acceptAnswer takes note that the collector took the events of the body, and waits for the indexer where that was asked for.
func (s *sender) acceptAnswer(ctx context.Context, a answer, count int) error {
	if s.channel == "" || len(s.body) == 0 {
		return nil
	}
	if a.AckID == nil {
		return fmt.Errorf("splunk %s: no ackId in the answer: the token has no indexer acknowledgment", s.options.URL)
	}
	sum := maphash.Bytes(s.seed, s.body)
	s.receipt = receipt{id: *a.AckID, count: count, sum: sum, until: time.Now().Add(s.ackWait)}
	return s.awaitReceipt(ctx)
}

// resumeReceipt goes on to wait for the receipt of an earlier Send that ended with an error, if the records begin with those of
// that request. It returns their number: they do not come twice.
func (s *sender) resumeReceipt(ctx context.Context, records []logsink.Record) (int, error) {
	count := s.receipt.count
	if count == 0 {
		return 0, nil
	}
	if count > len(records) || s.encodeBody(records[:count]) != count || maphash.Bytes(s.seed, s.body) != s.receipt.sum {
		s.receipt = receipt{}
		return 0, nil
	}
	return count, s.awaitReceipt(ctx)
}

// awaitReceipt asks until the indexer has the events of the receipt. The receipt stays if it is not known whether it will.
func (s *sender) awaitReceipt(ctx context.Context) error {
	for delay := ackFirst; ; delay = min(2*delay, ackLast) {
		indexed, err := s.askIndexed(ctx)
		if err != nil {
			return err
		}
		if indexed {
			s.receipt = receipt{}
			return nil
		}
		if time.Until(s.receipt.until) <= 0 {
			s.receipt = receipt{}
			return fmt.Errorf("splunk %s: the indexer has not acknowledged events within %s", s.options.URL, s.ackWait)
		}
		timer := time.NewTimer(min(delay, max(time.Until(s.receipt.until), time.Millisecond)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return s.nameError(ctx, ctx.Err())
		}
	}
}

// askIndexed asks once. An answer that says that the collector does not know the channel or the number takes the receipt away.
func (s *sender) askIndexed(ctx context.Context) (bool, error) {
	id := strconv.FormatInt(s.receipt.id, 10)
	path := ackPath + "?channel=" + url.QueryEscape(s.channel)
	status, text, err := s.doRequest(ctx, http.MethodPost, path, []byte(`{"acks":[`+id+`]}`))
	if err != nil {
		return false, err
	}
	var acks struct {
		Acks map[string]bool `json:"acks"`
	}
	if status == http.StatusOK && json.Unmarshal(text, &acks) == nil && acks.Acks != nil {
		return acks.Acks[id], nil
	}
	if status >= http.StatusBadRequest && status < http.StatusInternalServerError && status != http.StatusTooManyRequests {
		s.receipt = receipt{}
	}
	return false, s.describeAnswer(status, readAnswer(text), text)
}
