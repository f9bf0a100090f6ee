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
	if err := w.cutTornLine(); err != nil {
		return err
	}
	w.packing.wait() // the names it works on are about to change
	next := nextName(w.path)
	f, err := os.OpenFile(next, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("rotate log: %w", err)
	}
	if err := w.shiftFiles(next); err != nil {
		return errors.Join(fmt.Errorf("rotate log: %w", err), f.Close(), os.Remove(next))
	}
	old := w.file
	w.file, w.size = f, 0
	if err := old.Close(); err != nil {
		return fmt.Errorf("rotate log: %w", err)
	}
	if w.opts.Compress && w.opts.MaxFiles > 1 {
		w.packing = startPacking(w.path)
	}
	return nil
}

// shiftFiles moves every file on by one name, up to the first name that is free; the last of MaxFiles is replaced.
func (w *Writer) shiftFiles(next string) error {
	free := 1
	for free < w.opts.MaxFiles-1 {
		if !fileExists(olderName(w.path, free)) && !fileExists(packedName(w.path, free)) {
			break
		}
		free++
	}
	for n := min(free, w.opts.MaxFiles-1); n > 1; n-- {
		if err := w.moveOlder(n-1, n); err != nil {
			return err
		}
	}
	if w.opts.MaxFiles > 1 {
		if err := replaceFile(w.path, olderName(w.path, 1), packedName(w.path, 1)); err != nil {
			return err
		}
	}
	return os.Rename(next, w.path)
}

// moveOlder gives an older file the next number, packed or not. What had that number goes.
func (w *Writer) moveOlder(from, to int) error {
	if fileExists(olderName(w.path, from)) {
		return replaceFile(olderName(w.path, from), olderName(w.path, to), packedName(w.path, to))
	}
	return replaceFile(packedName(w.path, from), packedName(w.path, to), olderName(w.path, to))
}

// replaceFile renames a file, which need not be there, and removes twin, the other form of what it replaces.
func replaceFile(from, to, twin string) error {
	for _, err := range []error{os.Rename(from, to), os.Remove(twin)} {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func fileExists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
