package tree

import (
	"bytes"
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"
)

// listBuffer is how many bytes of a folder's listing are read at once: some hundred entries.
const listBuffer = 32 << 10

// listed is an entry of a folder's listing.
type listed struct {
	name string
	kind uint8 // unix.DT_UNKNOWN where the file system does not tell
}

// Offsets of linux_dirent64: inode (8), offset (8), length of the record (2), kind (1), name.
const (
	direntLength = 16
	direntKind   = 18
	direntName   = 19
)

// readListing appends the next part of an open folder's listing to entries; nothing at its end.
func readListing(fd int, buf []byte, entries []listed) ([]listed, error) {
	before := len(entries)
	for {
		n, err := unix.Getdents(fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if errors.Is(err, unix.ENOENT) {
			n, err = 0, nil // the folder itself was removed
		}
		if err != nil || n <= 0 {
			return entries, err
		}
		entries = appendListed(entries, buf[:n])
		if len(entries) > before { // not only "." and ".."
			return entries, nil
		}
	}
}

func appendListed(entries []listed, raw []byte) []listed {
	for len(raw) > direntName {
		size := int(binary.NativeEndian.Uint16(raw[direntLength:]))
		if size <= direntName || size > len(raw) {
			break // the kernel writes whole records
		}
		name := raw[direntName:size]
		if end := bytes.IndexByte(name, 0); end >= 0 {
			name = name[:end]
		}
		if string(name) != "." && string(name) != ".." {
			entries = append(entries, listed{name: string(name), kind: raw[direntKind]})
		}
		raw = raw[size:]
	}
	return entries
}
