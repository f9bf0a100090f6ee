package logs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// follow reads what is written from now on, until End, Until or ctx.
func (r *reader) follow(ctx context.Context, changes *watch) error {
	var until <-chan time.Time
	if !r.opts.Until.IsZero() {
		timer := time.NewTimer(time.Until(r.opts.Until))
		defer timer.Stop()
		until = timer.C
	}
	last := false
	for {
		if err := r.catchUp(ctx); err != nil || last {
			return err
		}
		r.shrinkBuffer()
		select {
		case <-changes.wake:
		case <-r.opts.End:
			last = true // what was written before its end is read once more
		case <-until:
			last = true
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// catchUp reads to the present end of the log, over any rotations.
func (r *reader) catchUp(ctx context.Context) error {
	for {
		if err := r.readSegments(ctx); err != nil {
			return err
		}
		more, err := r.nextFiles(ctx)
		if err != nil || !more {
			return err
		}
	}
}

// nextFiles looks whether the log went on in newer files, and adds those; then there is more to read: first the rest of
// the old file, since the writer may have used it up to the rotation.
func (r *reader) nextFiles(ctx context.Context) (more bool, err error) {
	if len(r.segments) == 0 {
		return r.addFiles(ctx, 0)
	}
	s := &r.segments[0]
	now, err := os.Stat(r.path)
	switch {
	case errors.Is(err, fs.ErrNotExist): // in the middle of a rotation, or removed
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read log: %w", err)
	case inodeOf(now) == s.inode:
		if now.Size() >= s.pos {
			return false, nil
		}
		s.pos = 0 // someone truncated it
		return now.Size() > 0, nil
	}
	return r.addFiles(ctx, s.inode)
}

// addFiles adds the files that are newer than the one of the inode after, all if it is 0.
func (r *reader) addFiles(ctx context.Context, after uint64) (more bool, err error) {
	chain, err := openChain(ctx, r.path, after)
	for _, f := range chain {
		r.segments = append(r.segments, segment{logFile: f, limit: -1})
	}
	return len(chain) > 0, err
}
