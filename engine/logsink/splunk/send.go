package splunk

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"

	"moss/engine/logsink"
)

// answer is what a collector says to events.
type answer struct {
	Text         string `json:"text"`
	Code         int    `json:"code"`
	AckID        *int64 `json:"ackId"`
	InvalidEvent *int   `json:"invalid-event-number"`
}

// Codes of answers to events that the collector never takes (docs.splunk.com: HTTP Event Collector status codes). All other
// codes speak of the collector, the token or the index, which may be mended.
const (
	codeFormat     = 6
	codeNoEvent    = 12
	codeBlankEvent = 13
	codeFields     = 15
)

// Send posts records as events, as many at a time as a request may hold. An event that the collector never takes counts as
// dealt with: the error that names the first one of them comes with the number of all records.
func (s *sender) Send(ctx context.Context, records []logsink.Record, _ bool) (int, error) {
	defer s.releaseBody()
	n, err := s.resumeReceipt(ctx, records)
	if err != nil {
		return 0, err
	}
	refusals := false
	for most := len(records); n < len(records); {
		count := s.encodeBody(records[n:min(n+most, len(records))])
		a, status, err := s.postBody(ctx)
		if err != nil {
			return n, err
		}
		if a.refusesEvents(status) {
			if count > 1 {
				// Whether those before it were taken is not said: they come again, alone.
				most = a.countBefore(count)
				continue
			}
			s.refused, refusals = fmt.Errorf("%w; the event is left out", s.describeAnswer(status, a, nil)), true
		} else if err := s.acceptAnswer(ctx, a, count); err != nil {
			return n, err
		}
		n, most = n+count, len(records)
	}
	return n, s.reportRefused(refusals)
}

// releaseBody gives up a large body.
func (s *sender) releaseBody() {
	if cap(s.body) > keptBody {
		s.body = nil
	}
}

// reportRefused returns the error of a refused event, once until a batch has none.
func (s *sender) reportRefused(refusals bool) error {
	err := s.refused
	s.refused = nil
	if s.reported && refusals {
		return nil
	}
	s.reported = refusals
	return err
}

// refusesEvents reports whether the collector never takes one of the events.
func (a answer) refusesEvents(status int) bool {
	if status == http.StatusRequestEntityTooLarge {
		return true
	}
	if status != http.StatusBadRequest {
		return false
	}
	switch a.Code {
	case codeFormat, codeNoEvent, codeBlankEvent, codeFields:
		return true
	default:
		return false
	}
}

// countBefore returns how many of the events to send next: those before the refused one, or half of them.
func (a answer) countBefore(count int) int {
	if a.InvalidEvent == nil || *a.InvalidEvent >= count {
		return count / 2
	}
	return max(*a.InvalidEvent, 1) // the refused one alone
}

// encodeBody makes the body of a request from the first records, and returns how many it has: at least one.
func (s *sender) encodeBody(records []logsink.Record) int {
	size := 0
	for i := range records {
		size += len(records[i].Text) + s.events.around
	}
	s.body = slices.Grow(s.body[:0], min(size, maxBody))
	for i := range records {
		before := len(s.body)
		s.body = s.events.appendEvent(s.body, &records[i])
		if i > 0 && len(s.body) > maxBody {
			s.body = s.body[:before]
			return i
		}
	}
	return len(records)
}

// postBody sends the body. A status of success comes without an error only if the answer is that of a collector.
func (s *sender) postBody(ctx context.Context) (answer, int, error) {
	if len(s.body) == 0 {
		return answer{}, http.StatusOK, nil
	}
	status, text, err := s.doRequest(ctx, http.MethodPost, eventPath, s.body)
	if err != nil {
		return answer{}, 0, err
	}
	a := readAnswer(text)
	if a.refusesEvents(status) {
		return a, status, nil
	}
	if status != http.StatusOK || a.Code != 0 {
		return a, status, s.describeAnswer(status, a, text)
	}
	return a, status, nil
}

// readAnswer reads an answer to events. Code is -1 if it is none. An empty one is what collectors of other makers give.
func readAnswer(text []byte) answer {
	if len(bytes.TrimSpace(text)) == 0 {
		return answer{}
	}
	a := answer{Code: -1}
	if json.Unmarshal(text, &a) != nil {
		return answer{Code: -1}
	}
	return a
}

// doRequest makes one request and returns the status and the beginning of the answer's body. The error has the collector's
// address.
func (s *sender) doRequest(ctx context.Context, method, path string, body []byte) (int, []byte, error) {
	bounded, cancel := context.WithTimeout(ctx, s.bound)
	defer cancel()
	packed := s.options.Gzip && len(body) > 0
	if packed {
		var err error
		if body, err = packBody(body, s.options.GzipLevel); err != nil {
			return 0, nil, err
		}
	}
	request, err := http.NewRequestWithContext(bounded, method, s.options.URL+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, s.nameError(ctx, err)
	}
	request.Header.Set("Authorization", "Splunk "+string(s.options.Token))
	request.Header.Set("User-Agent", "moss-log")
	if len(body) > 0 {
		request.Header.Set("Content-Type", "application/json")
	}
	if packed {
		request.Header.Set("Content-Encoding", "gzip")
	}
	if s.channel != "" {
		request.Header.Set("X-Splunk-Request-Channel", s.channel)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return 0, nil, s.nameError(ctx, err)
	}
	defer response.Body.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return 0, nil, s.nameError(ctx, err)
	}
	status := response.StatusCode
	if len(text) > maxAnswer {
		return 0, nil, fmt.Errorf("splunk %s: status %d, answer of more than %d bytes", s.options.URL, status, maxAnswer)
	}
	return status, text, nil
}

// packBody compresses a body. The writer has 800 KiB: kept, it would be there for each container that says nothing.
func packBody(body []byte, level int) ([]byte, error) {
	var packed bytes.Buffer
	writer, err := gzip.NewWriterLevel(&packed, level)
	if err != nil {
		return nil, err
	}
	if _, err := writer.Write(body); err != nil {
		return nil, err
	}
	err = writer.Close()
	return packed.Bytes(), err
}
