package logs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
)

// olderName returns the name of the n-th older file, 1 being the latest of them.
func olderName(path string, n int) string { return path + "." + strconv.Itoa(n) }

// nextName is what a new file is called until it takes path.
func nextName(path string) string { return path + ".next" }

// rotate begins a new file. The new one is made first, so that a failure there leaves all as it was; then every file
// moves on by one name. path is missing for the moment between the last two renames; readers know that.
func (w *Writer) rotate() error {
	info, err := w.file.Stat()
	if err != nil {
		return fmt.Errorf("rotate log: %w", err)
	}
	if w.torn == 0 && info.Size() < w.size { // someone truncated it
		w.size = info.Size()
		if w.size < w.opts.MaxSize/2 {
			return nil
		}
	}
	if err := w.mend(); err != nil {
		return err
	}
	next := nextName(w.path)
	f, err := os.OpenFile(next, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("rotate log: %w", err)
	}
	if err := w.shift(next); err != nil {
		return errors.Join(fmt.Errorf("rotate log: %w", err), f.Close(), os.Remove(next))
	}
	old := w.file
	w.file, w.size = f, 0
	if err := old.Close(); err != nil {
		return fmt.Errorf("rotate log: %w", err)
	}
	return nil
}

// shift moves every file on by one name, up to the first name that is free; the last of MaxFiles is replaced.
func (w *Writer) shift(next string) error {
	free := 1
	for free < w.opts.MaxFiles-1 {
		if _, err := os.Lstat(olderName(w.path, free)); errors.Is(err, fs.ErrNotExist) {
			break
		}
		free++
	}
	for n := min(free, w.opts.MaxFiles-1); n > 0; n-- {
		newer := w.path
		if n > 1 {
			newer = olderName(w.path, n-1)
		}
		if err := os.Rename(newer, olderName(w.path, n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.Rename(next, w.path)
}
