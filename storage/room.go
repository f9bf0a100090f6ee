package storage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/docker/go-units"
	"golang.org/x/sys/unix"

	"moss/engine/fault"
)

const (
	reserveBytes = 8 << 20 // left for records, logs and the like, in bytes
	reserveFiles = 64

	ballastFile  = "moss-ballast"
	ballastSize  = 4 << 20 // bytes: the library writes all its records anew to delete one
	ballastPiece = 1 << 20
	ballastFiles = 16      // beside it, without bytes: the library moves what it deletes into new folders with locks
	scarceBytes  = 1 << 20 // less than this and records may not be written
	scarceFiles  = 16
)

// Room reports whether so many more bytes and files fit; an error says what is missing and what to do.
func (d *disk) Room(bytes int64, files int64) error {
	if d.checkRoom(bytes, files) == nil {
		return nil
	}
	if err := d.trash.Drain(); err != nil {
		return err
	}
	return d.checkRoom(bytes, files)
}

// checkRoom is Room for what is free at this moment: files of removed layers may still lie about.
func (d *disk) checkRoom(bytes int64, files int64) error {
	var st unix.Statfs_t
	if err := unix.Statfs(d.root, &st); err != nil {
		return fmt.Errorf("look for room in %s: %w", d.root, err)
	}
	const advice = "remove images or containers that are not needed, or make room on the file system of %s"
	free := int64(st.Bavail)*st.Bsize - reserveBytes
	if bytes > free {
		return fault.Internal("no space left on device: %s are needed, %s are free; "+advice,
			formatBytes(bytes), formatBytes(max(free, 0)), d.root)
	}
	if freeFiles := int64(st.Ffree) - reserveFiles; st.Files > 0 && files > freeFiles {
		return fault.Internal("no space left on device: room for %d files is needed, for %d there is; "+advice, files,
			max(freeFiles, 0), d.root)
	}
	return nil
}

// formatBytes shows a number of bytes as clients do.
func formatBytes(n int64) string {
	return units.CustomSize("%.4g %s", float64(n), 1000, []string{"B", "kB", "MB", "GB", "TB"})
}

// ballast is files that only take up room. They are given up, the large one piece by piece, when there is none left, so
// that something can be deleted: that takes room as well.
type ballast struct {
	path  string
	mu    sync.Mutex // held while the files are changed; guards size and files
	size  int64      // bytes
	files bool       // those without bytes are there
}

// newBallast takes up room, or none if there is little.
func newBallast(root string) *ballast {
	b := &ballast{path: filepath.Join(root, ballastFile)}
	if info, err := os.Stat(b.path); err == nil {
		b.size = info.Size()
	}
	_, err := os.Stat(b.filePath(ballastFiles - 1))
	b.files = err == nil
	b.restore()
	return b
}

// ballastNames returns the names of the files without bytes.
func ballastNames() []string {
	names := make([]string, ballastFiles)
	for i := range names {
		names[i] = fmt.Sprintf("%s.%02d", ballastFile, i)
	}
	return names
}

// filePath returns the path of one of the files without bytes.
func (b *ballast) filePath(i int) string { return fmt.Sprintf("%s.%02d", b.path, i) }

// releaseIfScarce gives a piece of the ballast up if there is hardly any room.
func (b *ballast) releaseIfScarce() {
	free, files := b.freeSpace()
	if free >= scarceBytes && files >= scarceFiles {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if files < scarceFiles {
		b.dropFiles()
	}
	if free < scarceBytes && b.size > 0 {
		b.shrinkLocked()
	}
}

// dropFiles is called with b.mu held. What stays goes with the next call.
func (b *ballast) dropFiles() {
	for i := range ballastFiles {
		_ = os.Remove(b.filePath(i))
	}
	b.files = false
}

// shrinkLocked is called with b.mu held.
func (b *ballast) shrinkLocked() {
	left := max(b.size-ballastPiece, 0)
	var err error
	if left == 0 {
		err = os.Remove(b.path)
	} else {
		err = os.Truncate(b.path, left)
	}
	if err == nil {
		b.size = left
	}
}

// freeSpace returns the bytes and the files that there is room for.
func (b *ballast) freeSpace() (bytes, files int64) {
	var st unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(b.path), &st); err != nil {
		return 0, 0
	}
	files = int64(st.Ffree)
	if st.Files == 0 {
		files = scarceFiles // the file system does not count them
	}
	return int64(st.Bavail) * st.Bsize, files
}

// restore takes the room again that was given up, if there is plenty.
func (b *ballast) restore() {
	b.mu.Lock()
	defer b.mu.Unlock()
	free, files := b.freeSpace()
	if b.size != ballastSize && free >= 4*ballastSize {
		b.size = 0
		if preallocateFile(b.path, ballastSize) == nil {
			b.size = ballastSize
		}
	}
	if b.files || files < 4*ballastFiles {
		return
	}
	for i := range ballastFiles {
		if err := os.WriteFile(b.filePath(i), nil, 0o600); err != nil {
			b.dropFiles()
			return
		}
	}
	b.files = true
}

func preallocateFile(path string, size int64) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = unix.Fallocate(int(file.Fd()), 0, 0, size)
	if errors.Is(err, unix.EOPNOTSUPP) {
		_, err = file.Write(make([]byte, size))
	}
	if err = errors.Join(err, file.Close()); err != nil {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}
