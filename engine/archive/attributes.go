package archive

import (
	"archive/tar"
	"bytes"
	"iter"
	"strings"

	"golang.org/x/sys/unix"
)

// xattrRecord begins the names of pax records that hold extended attributes.
const xattrRecord = "SCHILY.xattr."

// maxXattr is the most that the kernel gives of an attribute, and of the list of their names, in bytes.
const maxXattr = 64 << 10

// attributes adds the extended attributes that mean something elsewhere. What cannot be read is not there.
func (p *packer) attributes(fd int, h *tar.Header) {
	if p.names == nil {
		p.names, p.value = make([]byte, maxXattr), make([]byte, maxXattr)
	}
	n, err := unix.Flistxattr(fd, p.names)
	if err != nil || n == 0 {
		return
	}
	for name := range splitNames(p.names[:n]) {
		if !carried(name) {
			continue
		}
		size, err := unix.Fgetxattr(fd, name, p.value)
		if err != nil {
			continue
		}
		if h.PAXRecords == nil {
			h.PAXRecords = map[string]string{}
		}
		h.PAXRecords[xattrRecord+name] = string(p.value[:size])
	}
}

// capabilities is the attribute with the privileges that a program gets.
const capabilities = "security.capability"

// carried reports whether an extended attribute goes into archives and out of them: what users set, and file
// capabilities. The rest belongs to the machine, or to the file system that keeps the container's layers.
func carried(name string) bool {
	return name == capabilities || strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, "user.overlay.") &&
		!strings.HasPrefix(name, "user.fuseoverlayfs.") && !strings.HasPrefix(name, "user.containers.")
}

// splitNames yields the names of a list in which each ends with a zero byte.
func splitNames(list []byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		for len(list) > 0 {
			name, rest, _ := bytes.Cut(list, []byte{0})
			if !yield(string(name)) {
				return
			}
			list = rest
		}
	}
}
