package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sort"

	"moss/engine/event"
	"moss/engine/fault"
)

// chunk is how many bytes are read at once, unless a line has more.
const chunk = 64 << 10

// reader is a place in the files; it holds none of them open.
type reader struct {
	j      *Journal
	after  int64
	begun  bool
	first  int64 // names the segment, once it has begun
	offset int64 // in it
}

// After reads the events that are later than a time.
func (j *Journal) After(nanos int64) event.JournalReader { return &reader{j: j, after: nanos} }

// Next fills into with the next events and returns how many there were, none at the end of the journal. It skips lines
// that are damaged, and files that are missing. Events that have been removed since the last call are fault.Unavailable.
func (r *reader) Next(into []*event.Published) (int, error) {
	for {
		s, last, err := r.currentSegment()
		if err != nil || s == nil {
			return 0, err
		}
		n, err := r.readSegment(s, into)
		switch {
		case errors.Is(err, fs.ErrNotExist) && !r.j.hasSegment(s.first):
			continue // it was removed this moment: the row of segments tells what that means
		case n > 0 || err != nil && !errors.Is(err, fs.ErrNotExist): // a file that somebody else has removed is empty
			return n, err
		case last:
			return 0, nil
		}
		// The segment has come to its end: on with the next one.
		if !r.nextSegment() {
			return 0, nil
		}
	}
}

// currentSegment returns the segment to read, nil without any, and whether it is the last.
func (r *reader) currentSegment() (_ *segment, last bool, err error) {
	r.j.mu.Lock()
	defer r.j.mu.Unlock()
	all := r.j.segments
	if len(all) == 0 {
		return nil, true, nil
	}
	var i int
	if r.begun {
		i = sort.Search(len(all), func(i int) bool { return all[i].first >= r.first })
		if i == len(all) || all[i].first != r.first {
			return nil, false, fault.Unavailable("events were removed before this listener had read them")
		}
	} else {
		i = max(0, sort.Search(len(all), func(i int) bool { return all[i].first > r.after })-1)
		r.first, r.offset = all[i].first, 0
	}
	found := all[i]
	return &found, i == len(all)-1, nil
}

// hasSegment reports whether there still is a segment, as far as the journal knows.
func (j *Journal) hasSegment(first int64) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.ContainsFunc(j.segments, func(s segment) bool { return s.first == first })
}

// nextSegment moves to the segment after this one, and reports whether there is one.
func (r *reader) nextSegment() bool {
	r.j.mu.Lock()
	defer r.j.mu.Unlock()
	all := r.j.segments
	i := sort.Search(len(all), func(i int) bool { return all[i].first > r.first })
	if i == len(all) {
		return false
	}
	r.first, r.offset, r.begun = all[i].first, 0, true
	return true
}

// readSegment takes events from a segment, none at its end.
func (r *reader) readSegment(s *segment, into []*event.Published) (_ int, err error) {
	if r.offset >= s.size {
		return 0, nil
	}
	f, err := os.Open(r.j.segmentPath(s.first))
	if err != nil {
		return 0, fmt.Errorf("read events: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	buf := make([]byte, min(chunk, s.size-r.offset))
	for r.offset < s.size {
		got, err := f.ReadAt(buf[:min(int64(len(buf)), s.size-r.offset)], r.offset)
		if got == 0 && errors.Is(err, io.EOF) {
			return 0, nil // cut off behind our back: nothing of it can be had
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, fmt.Errorf("read events: %w", err)
		}
		used, n := r.readLines(buf[:got], into)
		r.offset += int64(used)
		r.begun = r.begun || n > 0
		if n > 0 {
			return n, nil
		}
		switch {
		case used > 0:
		case len(buf) <= maxLine:
			buf = make([]byte, min(int64(2*len(buf)), int64(maxLine)+1, max(s.size-r.offset, 1)))
			if int64(got) >= s.size-r.offset {
				r.offset = s.size // the rest has no end
			}
		default:
			r.offset += int64(got) // no line is that long
		}
	}
	return 0, nil
}

// readLines reads the whole lines of raw until into is full, and returns how many bytes it has used.
func (r *reader) readLines(raw []byte, into []*event.Published) (used, n int) {
	for n < len(into) {
		end := bytes.IndexByte(raw[used:], '\n')
		if end < 0 {
			break
		}
		line := raw[used : used+end]
		used += end + 1
		if place, _, ok := linePlace(line); !ok || place.Nanos <= r.after {
			continue
		}
		if p, ok := parseLine(line); ok {
			into[n] = p
			n++
			r.after = p.Time.UnixNano()
		}
	}
	return used, n
}
