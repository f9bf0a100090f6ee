package awslogs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"moss/engine/logsink"
)

// actionPut is the action that takes events.
const actionPut = "PutLogEvents"

// Send puts records as events, as many at a time as a request may hold. Events that the service never takes count as dealt with:
// the error that tells of them comes with the number of all records.
func (s *sender) Send(ctx context.Context, records []logsink.Record, all bool) (int, error) {
	defer s.releaseBody()
	events := s.composer.composeEvents(records, all)
	if len(events) == 0 && len(records) >= s.Batch().Records {
		events = s.composer.composeEvents(records, true) // there will be no others with them
	}
	if len(events) == 0 {
		return 0, nil
	}
	if err := s.prepareStream(ctx); err != nil {
		return 0, err
	}
	n, rejections := 0, false
	for most := maxPutEvents; len(events) > 0; {
		count := s.encodeEvents(events[:min(most, len(events))])
		rejected, err := s.putEvents(ctx, count)
		if refusesEvents(err) {
			if count > 1 {
				most = count / 2 // the service does not say which
				continue
			}
			s.lost, rejected = cmp.Or(s.lost, fmt.Errorf("%w; the event is left out", err)), true
		} else if err != nil {
			return n, err
		}
		rejections = rejections || rejected
		n, most, events = events[count-1].upto, maxPutEvents, events[count:]
	}
	return n, s.reportLost(rejections)
}

// releaseBody gives up a large body.
func (s *sender) releaseBody() {
	if cap(s.body) > keptBody {
		s.body = nil
	}
}

// reportLost returns the error of rejected events, once until a batch has none.
func (s *sender) reportLost(rejections bool) error {
	err := s.lost
	s.lost = nil
	if s.reported && rejections {
		return nil
	}
	s.reported = rejections
	return err
}

// refusesEvents reports whether the service never takes the events of a request as they are.
func refusesEvents(err error) bool {
	r, ok := errors.AsType[*refusal](err)
	return ok && (r.kind == "InvalidParameterException" || r.status == http.StatusRequestEntityTooLarge)
}

// encodeEvents makes the body of a request from the first events, and returns how many it deals with: at least one. A body
// without an event is empty.
func (s *sender) encodeEvents(events []event) int {
	put := make([]event, 0, len(events))
	size, count := 0, 0
	var first, last int64
	for _, e := range events {
		if len(e.text) > 0 {
			low, high := e.at, e.at
			if len(put) > 0 {
				low, high = min(first, low), max(last, high)
			}
			if size += len(e.text) + eventOverhead; size > maxPutBytes || high-low > maxPutSpan.Milliseconds() {
				break
			}
			first, last = low, high
			put = append(put, e)
		}
		count++
	}
	s.body = s.body[:0]
	if len(put) == 0 {
		return count
	}
	// The service wants them in the order of their times, and the clock may have been set back.
	slices.SortStableFunc(put, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	const around = 48 // bytes of an event in JSON besides its text
	s.body = slices.Grow(s.body, min(size+len(put)*(around-eventOverhead), 2*maxPutBytes))
	s.body = logsink.AppendJSON(append(s.body, `{"logGroupName":`...), s.options.Group)
	s.body = logsink.AppendJSON(append(s.body, `,"logStreamName":`...), s.stream)
	between := `,"logEvents":[`
	for _, e := range put {
		s.body = append(append(s.body, between...), `{"timestamp":`...)
		s.body = append(strconv.AppendInt(s.body, e.at, 10), `,"message":`...)
		s.body = append(logsink.AppendJSON(s.body, e.text), '}')
		between = ","
	}
	s.body = append(s.body, ']', '}')
	return count
}

// putEvents puts the events of the body, of which there are at most count. It reports whether the service rejected some of them
// for their time.
func (s *sender) putEvents(ctx context.Context, count int) (rejected bool, err error) {
	if len(s.body) == 0 {
		return false, nil
	}
	text, err := s.doRequest(ctx, actionPut, s.body)
	if isAnswer(err, "DataAlreadyAcceptedException") {
		return false, nil // an earlier Send, whose answer was lost
	}
	if err != nil {
		if isAnswer(err, "ResourceNotFoundException") {
			s.ready = !s.options.CreateStream // somebody removed the stream: the next Send makes it anew
		}
		return false, err
	}
	var answer struct {
		Rejected *struct {
			TooNewFrom *int `json:"tooNewLogEventStartIndex"`
			TooOldTo   *int `json:"tooOldLogEventEndIndex"`
			ExpiredTo  *int `json:"expiredLogEventEndIndex"`
		} `json:"rejectedLogEventsInfo"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return false, fmt.Errorf("awslogs %s: %s: answer %q: %w", s.endpoint, actionPut, text[:min(len(text), 200)], err)
	}
	if answer.Rejected == nil {
		return false, nil
	}
	s.lost = cmp.Or(s.lost, fmt.Errorf("awslogs %s: %s: of %d events some are left out for their time: %s", s.endpoint, actionPut,
		count, describeRejection(answer.Rejected.TooNewFrom, answer.Rejected.TooOldTo, answer.Rejected.ExpiredTo)))
	return true, nil
}

// describeRejection says which events of a request were rejected.
func describeRejection(tooNewFrom, tooOldTo, expiredTo *int) string {
	said := ""
	for _, part := range []struct {
		text  string
		index *int
	}{
		{"too new from number ", tooNewFrom}, {"too old up to number ", tooOldTo}, {"expired up to number ", expiredTo},
	} {
		if part.index != nil {
			if said != "" {
				said += ", "
			}
			said += part.text + strconv.Itoa(*part.index)
		}
	}
	return cmp.Or(said, "the service does not say which")
}
