package tree

import (
	"archive/tar"
	"encoding/binary"
	"hash/maphash"
	"path"
	"strings"

	"moss/engine/fault"
	"moss/engine/tarfile"
)

// maxText bounds what the links of an archive say together, in bytes.
const maxText = 64 << 20

// Names goes over an archive's names before somebody else writes it, into an empty folder and by path, and spends what that
// will cost: the folders that are implied, and the links that names lead through. What it remembers is a number for each
// folder and the text of each link.
type Names struct {
	budget  *Budget
	seed    maphash.Seed
	folders map[uint64]uint32 // by entryKey: a number that no other folder has or had
	links   map[uint64]string // by entryKey: what it says
	newest  uint32            // number
	text    int               // bytes of links
	last    string            // the folder of the entry before, to which no link may lead; empty: unknown
	at      []uint32          // its numbers, from the root's
	other   []uint32          // as at, for the targets of hard links
	scratch []byte            // for entryKey
}

// NewNames returns what spends a budget on an archive.
func NewNames(budget *Budget) *Names {
	return &Names{budget: budget, seed: maphash.MakeSeed(), folders: map[uint64]uint32{}, links: map[uint64]string{}}
}

// entryKey returns the key of a name in a folder. Two names that have one by chance are counted once.
func (n *Names) entryKey(dir uint32, name string) uint64 {
	n.scratch = append(binary.LittleEndian.AppendUint32(n.scratch[:0], dir), name...)
	return maphash.Bytes(n.seed, n.scratch)
}

// Enter spends what an entry with a clean name costs. kind is that of its header: a folder, a symbolic link, of which link is
// what it says, a hard link, of which link is another entry's clean name, or anything else, in which nothing is. Errors are
// fault.Invalid.
func (n *Names) Enter(name string, kind byte, link string) error {
	if err := n.budget.Entry(); err != nil {
		return err
	}
	if name == "." {
		return nil
	}
	if kind == tar.TypeLink { // one of a symbolic link is a symbolic link
		at, err := n.walkFolders(path.Dir(link), n.other[:0])
		if err != nil {
			return err
		}
		n.other = at
		if text, ok := n.links[n.entryKey(at[len(at)-1], path.Base(link))]; ok {
			kind, link = tar.TypeSymlink, text
		}
	}
	if dir := path.Dir(name); dir != n.last || dir == "." {
		n.last = ""
		at, err := n.walkFolders(dir, n.at[:0])
		if err != nil {
			return err
		}
		n.at, n.last = at, dir
	}
	return n.noteEntry(n.entryKey(n.at[len(n.at)-1], path.Base(name)), kind, link)
}

// noteEntry notes what an entry is. What was there before is gone, unless both are folders: numbers of folders are not used
// again, so nothing that was below it is known any more.
func (n *Names) noteEntry(key uint64, kind byte, link string) error {
	if _, ok := n.links[key]; ok {
		delete(n.links, key)
		n.last = ""
	}
	if kind == tar.TypeDir {
		if _, ok := n.folders[key]; !ok {
			n.newest++
			n.folders[key] = n.newest
		}
		return nil
	}
	if _, ok := n.folders[key]; ok {
		delete(n.folders, key)
		n.last = ""
	}
	if kind == tar.TypeSymlink {
		if n.text += len(link); n.text > maxText {
			return fault.Invalid("the symbolic links of %s say more than %d bytes", n.budget.limits.Whole, maxText)
		}
		n.links[key] = strings.Clone(link)
		n.last = ""
	}
	return nil
}

// walkFolders returns the numbers of the folders on the way to one, links followed, beginning with the root's. Those that no
// entry told of are made.
func (n *Names) walkFolders(name string, at []uint32) ([]uint32, error) {
	at = append(at, 0)
	links := 0
	for rest := name; rest != ""; {
		var part string
		part, rest, _ = strings.Cut(rest, "/")
		if links > 0 {
			if err := n.budget.Step(1); err != nil {
				return nil, err
			}
		}
		switch part {
		case "", ".":
			continue
		case "..":
			at = at[:max(len(at)-1, 1)]
			continue
		}
		key := n.entryKey(at[len(at)-1], part)
		if link, ok := n.links[key]; ok {
			if links++; links > MaxLinks || len(link)+len(rest) > tarfile.MaxName {
				return nil, Looped(name)
			}
			if path.IsAbs(link) {
				at = at[:1]
			}
			rest = link + "/" + rest
			continue
		}
		id, ok := n.folders[key]
		if !ok {
			if err := n.budget.Folder(); err != nil {
				return nil, err
			}
			n.newest++
			id = n.newest
			n.folders[key] = id
		}
		at = append(at, id)
		if err := n.budget.Depth(len(at) - 1); err != nil {
			return nil, err
		}
	}
	return at, nil
}
