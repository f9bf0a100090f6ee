// Package journal keeps the latest events in files of bounded size, so that clients can ask for what happened before the
// engine was started. It knows nothing of who listens.
//
// A journal is a row of segments, each named for the time of its first event; the oldest goes when there are too many. A
// segment has one event per line, with a checksum: what a crash, a power cut or a full disk has left half written is
// dropped by whoever meets it. Nothing is synced: a killed engine loses nothing that was written, and what a power cut
// takes are the last seconds before it, of which the containers' records tell. Syncing each event would cost the disk
// more than all the rest of a container's life.
package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"moss/engine/event"
)

const (
	segmentBytes = 1 << 20
	// totalBytes is what all segments take at most: some ten thousand events.
	totalBytes = 8 << 20
)

// Options say where and how much. Zero sizes are the journal's own.
type Options struct {
	Dir          string // made if it is missing; nobody else's
	SegmentBytes int64  // at which a new segment begins
	TotalBytes   int64  // of all segments
	// Trouble is told when events cannot be kept, and then not again until some were. It is called by Keep; nil: nobody.
	Trouble func(error)
	// SetAside moves a segment out of the way that is damaged from its beginning; nil: it is removed.
	SetAside func(path string, why error) error
}

// Journal is the folder of one engine. Keep is for one goroutine at a time, readers may be many beside it.
type Journal struct {
	opt     Options
	end     event.Place
	file    *os.File // the last segment; nil: the next event opens or makes one
	failing bool
	buf     []byte

	mu       sync.Mutex // guards segments
	segments []segment  // the oldest first
}

// segment is one file. Readers see what is below size only, so never half a line that is being written.
type segment struct {
	first int64 // time of its first event
	size  int64
}

// Open finds the place of the last event. It reads the last file and none of the others. What is damaged there
// is cut off. The caller must Close the journal.
func Open(opt Options) (*Journal, error) {
	if opt.SegmentBytes == 0 {
		opt.SegmentBytes = segmentBytes
	}
	if opt.TotalBytes == 0 {
		opt.TotalBytes = totalBytes
	}
	j := &Journal{opt: opt}
	if err := os.MkdirAll(opt.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the journal of events: %w", err)
	}
	entries, err := os.ReadDir(opt.Dir)
	if err != nil {
		return nil, fmt.Errorf("open the journal of events: %w", err)
	}
	for _, e := range entries {
		first, ok := segmentTime(e.Name())
		info, err := e.Info()
		if !ok || err != nil {
			continue
		}
		if !info.Mode().IsRegular() {
			if err := j.setAside(filepath.Join(opt.Dir, e.Name()), fmt.Errorf("not a file but %s", info.Mode().Type())); err != nil {
				return nil, fmt.Errorf("open the journal of events: %w", err)
			}
			continue
		}
		j.segments = append(j.segments, segment{first: first, size: info.Size()})
	}
	slices.SortFunc(j.segments, func(a, b segment) int { return int(min(max(a.first-b.first, -1), 1)) })
	for len(j.segments) > 0 {
		last := &j.segments[len(j.segments)-1]
		if err := j.recoverSegment(last); err != nil {
			return nil, fmt.Errorf("open the journal of events: %w", err)
		}
		if last.size > 0 {
			return j, nil
		}
		j.segments = j.segments[:len(j.segments)-1]
	}
	return j, nil
}

// End is the place of the last event that the journal had when it was opened.
func (j *Journal) End() event.Place { return j.end }

// Close ends the writing. Readers may go on.
func (j *Journal) Close() error {
	if j.file == nil {
		return nil
	}
	err := j.file.Close()
	j.file = nil
	return err
}

// recoverSegment cuts off what follows the last whole line, and sets a segment without any aside.
func (j *Journal) recoverSegment(s *segment) error {
	path := j.segmentPath(s.first)
	raw, err := os.ReadFile(path)
	if err != nil {
		s.size = 0
		return j.setAside(path, err)
	}
	end, place := lastLine(raw)
	if end == 0 {
		s.size = 0
		if len(raw) == 0 {
			return os.Remove(path)
		}
		return j.setAside(path, errors.New("no event in it is whole"))
	}
	j.end = place
	if end < len(raw) {
		if err := os.Truncate(path, int64(end)); err != nil {
			return err
		}
	}
	s.size = int64(end)
	return nil
}

func (j *Journal) setAside(path string, why error) error {
	if j.opt.SetAside == nil {
		return os.RemoveAll(path)
	}
	return j.opt.SetAside(path, why)
}

// Keep adds events. What cannot be written is dropped, and Trouble told of it once.
func (j *Journal) Keep(events []*event.Published) {
	err := j.appendEvents(events)
	if err != nil && !j.failing && j.opt.Trouble != nil {
		j.opt.Trouble(fmt.Errorf("keep events: %w", err))
	}
	j.failing = err != nil
}

func (j *Journal) appendEvents(events []*event.Published) error {
	var failed error
	j.buf = j.buf[:0]
	for _, p := range events {
		before := len(j.buf)
		j.buf = appendLine(j.buf, p)
		if len(j.buf)-before > maxLine {
			j.buf = j.buf[:before]
			failed = errors.Join(failed, fmt.Errorf("%s of %s %.64s has more than %d bytes", p.Action, p.Type, p.ID, maxLine))
			continue
		}
		if j.freeBytes() >= int64(len(j.buf)) {
			continue
		}
		// The line begins a new segment.
		line := append([]byte(nil), j.buf[before:]...)
		failed = errors.Join(failed, j.writeLines(j.buf[:before]), j.beginSegment(p.Time.UnixNano()))
		j.buf = append(j.buf[:0], line...)
	}
	failed = errors.Join(failed, j.writeLines(j.buf))
	if cap(j.buf) > 1<<18 {
		j.buf = nil
	}
	return failed
}

// freeBytes returns how many bytes may still be added to the last segment; without one, none.
func (j *Journal) freeBytes() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.segments) == 0 {
		return 0
	}
	return j.opt.SegmentBytes - j.segments[len(j.segments)-1].size
}

// writeLines adds whole lines to the last segment, all of them or none.
func (j *Journal) writeLines(lines []byte) error {
	if len(lines) == 0 {
		return nil
	}
	j.mu.Lock()
	if len(j.segments) == 0 { // it could not be made
		j.mu.Unlock()
		return nil
	}
	last := j.segments[len(j.segments)-1]
	j.mu.Unlock()
	if j.file == nil {
		var err error
		if j.file, err = os.OpenFile(j.segmentPath(last.first), os.O_WRONLY|os.O_CREATE, 0o600); err != nil {
			return err
		}
	}
	if _, err := j.file.WriteAt(lines, last.size); err != nil {
		// What is behind size is overwritten by the next line, and cut off by the next start.
		return errors.Join(err, j.file.Truncate(last.size))
	}
	j.mu.Lock()
	j.segments[len(j.segments)-1].size += int64(len(lines))
	j.mu.Unlock()
	return nil
}

// beginSegment makes a segment for an event of a time and removes the oldest ones if need be.
func (j *Journal) beginSegment(first int64) error {
	err := j.Close()
	j.mu.Lock()
	if last := len(j.segments) - 1; last >= 0 && j.segments[last].size == 0 {
		// Nothing could be written to it.
		err = errors.Join(err, removeIfExists(j.segmentPath(j.segments[last].first)))
		j.segments = j.segments[:last]
	}
	total := j.opt.SegmentBytes // the new one's
	for _, s := range j.segments {
		total += s.size
	}
	var old []segment
	for len(j.segments) > 0 && total > j.opt.TotalBytes {
		total -= j.segments[0].size
		old = append(old, j.segments[0])
		j.segments = j.segments[1:]
	}
	j.segments = append(slices.Clip(j.segments), segment{first: first})
	j.mu.Unlock()
	for _, s := range old {
		err = errors.Join(err, removeIfExists(j.segmentPath(s.first)))
	}
	return err
}

func removeIfExists(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

const segmentSuffix = ".events"

func (j *Journal) segmentPath(first int64) string {
	return filepath.Join(j.opt.Dir, fmt.Sprintf("%020d%s", first, segmentSuffix))
}

// segmentTime reads the name of a segment.
func segmentTime(name string) (int64, bool) {
	text, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok || len(text) != 20 {
		return 0, false
	}
	first, err := strconv.ParseInt(text, 10, 64)
	return first, err == nil && first >= 0
}
