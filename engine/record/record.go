// Package record keeps one object in one JSON file. A file is replaced, never edited: a reader, a crash or a full disk
// meets either the old content or the new one, whole. It knows nothing of what the objects mean.
package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"moss/engine/damage"
	"moss/engine/fault"
)

// tempPrefix and tempSuffix mark files of a Put that did not come to its end; Sweep removes them.
const (
	tempPrefix = ".record-"
	tempSuffix = ".tmp"
)

// Put replaces the record at path with v as JSON and returns once it would survive a power loss. The folder must exist;
// the file is readable by its owner only. On error the old record stays as it was and nothing else is left behind,
// except for an error that says "sync folder": the new record is then in place, but a power loss may bring the old one
// back. Callers that report the change as not done have to write the old one. Two Puts on one path at the same time are safe;
// one of them wins.
func Put(path string, v any) error { return writeRecord(path, v, true) }

// PutVolatile is Put without waiting for the disk: for state that a power loss ends anyway. It is still replaced as a
// whole for every reader and for a crash of the engine.
func PutVolatile(path string, v any) error { return writeRecord(path, v, false) }

// Get reads the record at path into v. A missing file gives fault.NotFound; a file that does not hold the JSON of v, and
// whatever else is in its place, a plain error that names the path, and v is then undefined. Links are not followed.
func Get(path string, v any) error {
	raw, err := damage.Read(path, maxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return fault.NotFound("no record %s", path)
	}
	if err != nil {
		return fmt.Errorf("read record: %w", err)
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("record %s is damaged: %w", path, err)
	}
	return nil
}

// maxSize bounds a record, in bytes.
const maxSize = 64 << 20

// Remove deletes the record at path and returns once that would survive a power loss. Removing an absent record is not
// an error.
func Remove(path string) error {
	if err := os.Remove(path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("remove record: %w", err)
	}
	return SyncDir(filepath.Dir(path))
}

// Sweep deletes what unfinished Puts left in dir; it does not descend. It must not run beside a Put in the same folder,
// whose file it would take. A missing folder is not an error.
func Sweep(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("sweep records: %w", err)
	}
	var all []error
	for _, e := range entries {
		name := e.Name()
		if !e.Type().IsRegular() || !strings.HasPrefix(name, tempPrefix) || !strings.HasSuffix(name, tempSuffix) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			all = append(all, fmt.Errorf("sweep records: %w", err))
		}
	}
	return errors.Join(all...)
}

func writeRecord(path string, v any, durable bool) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode record %s: %w", path, err)
	}
	dir := filepath.Dir(path)
	temp, err := writeTemp(dir, buf.Bytes(), durable)
	if err != nil {
		return fmt.Errorf("write record %s: %w", path, err)
	}
	if err := os.Rename(temp, path); err != nil {
		_ = os.Remove(temp) // the rename's error says more
		return fmt.Errorf("replace record: %w", err)
	}
	if !durable {
		return nil
	}
	return SyncDir(dir)
}

// writeTemp writes a new file in dir and returns its path; on error the file is gone again. os.CreateTemp makes it with
// mode 0600.
func writeTemp(dir string, content []byte, durable bool) (path string, err error) {
	f, err := os.CreateTemp(dir, tempPrefix+"*"+tempSuffix)
	if err != nil {
		return "", err
	}
	_, err = f.Write(content)
	if err == nil && durable {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error says more
		return "", err
	}
	return f.Name(), nil
}

// SyncDir returns once the names in dir would survive a power loss.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("sync folder %s: %w", dir, err)
	}
	return nil
}
