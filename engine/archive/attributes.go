package archive

import (
	"archive/tar"
	"bytes"
	"iter"

	"golang.org/x/sys/unix"

	trees "moss/engine/tree"
)

// maxXattr is the most that the kernel gives of an attribute, and of the list of their names, in bytes.
const maxXattr = 64 << 10

// addXattrs adds the extended attributes that mean something elsewhere. What cannot be read is not there.
func (p *packer) addXattrs(fd int, h *tar.Header) {
	if p.names == nil {
		p.names, p.value = make([]byte, maxXattr), make([]byte, maxXattr)
	}
	n, err := unix.Flistxattr(fd, p.names)
	if err != nil || n == 0 {
		return
	}
	for name := range splitNames(p.names[:n]) {
		if !trees.Carried(name) {
			continue
		}
		size, err := unix.Fgetxattr(fd, name, p.value)
		if err != nil {
			continue
		}
		if h.PAXRecords == nil {
			h.PAXRecords = map[string]string{}
		}
		h.PAXRecords[trees.XattrRecord+name] = string(p.value[:size])
	}
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
