package copying

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"

	"moss/engine/build/source"
	"moss/engine/compress"
	"moss/engine/fault"
	"moss/engine/tarfile"
	trees "moss/engine/tree"
)

// unpacker puts the entries of one archive below a folder, which is the root for all that they say.
type unpacker struct {
	*layer
	*archive
	top  *node
	last string // the folder of the entry before; empty: unknown
	into *node  // that folder
}

// indexArchive puts the entries of an archive into the tree.
func (l *layer) indexArchive(ctx context.Context, m *match, top *node) error {
	u := &unpacker{layer: l, archive: &archive{match: m, budget: l.tree.budget}, top: top}
	keep := &some{most: maxKept - l.kept}
	err := u.forEachHeader(ctx, keep, func(_ *tar.Reader, h *tar.Header, number int64) error { return u.putEntry(ctx, h, number) })
	if err != nil {
		return fmt.Errorf("unpack %s: %w", m.name, err)
	}
	if !keep.over {
		u.plain = keep.kept
		l.kept += len(u.plain)
	}
	l.archives = append(l.archives, u.archive)
	return nil
}

// unpackArchive writes the files of an archive that the tree still has.
func (l *layer) unpackArchive(ctx context.Context, a *archive) error {
	next := a.stored
	err := a.forEachHeader(ctx, nil, func(r *tar.Reader, h *tar.Header, number int64) error {
		if len(next) == 0 || next[0].number != number {
			return nil
		}
		c := next[0]
		next = next[1:]
		return l.extractContent(ctx, r, h, c)
	})
	if err != nil {
		return fmt.Errorf("unpack %s: %w", a.name, err)
	}
	a.plain = nil
	return nil
}

// extractContent writes the content of an entry under the first of its names that the tree still has. The others become
// links to it.
func (l *layer) extractContent(ctx context.Context, r io.Reader, h *tar.Header, c *stored) error {
	at := slices.IndexFunc(c.nodes, (*node).isInTree)
	if at < 0 {
		return nil
	}
	n := c.nodes[at]
	if h.Size != n.entry.Size {
		return fault.Invalid("%q changed while it was read", h.Name)
	}
	if err := l.writeAbove(ctx, n.parent); err != nil {
		return err
	}
	n.written, c.first = true, n.path()
	if err := l.writeHeader(n.entry, c.first, ""); err != nil {
		return err
	}
	err := l.writeContent(ctx, c.first, r, h.Size)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return compress.Truncated()
	}
	return err
}

// writeAbove writes a folder, after those that it is in.
func (l *layer) writeAbove(ctx context.Context, dir *node) error {
	if dir.parent == nil || dir.written {
		return nil
	}
	if err := l.writeAbove(ctx, dir.parent); err != nil {
		return err
	}
	return l.writeNode(ctx, dir.path(), dir)
}

// putEntry puts one entry into the tree.
func (u *unpacker) putEntry(ctx context.Context, h *tar.Header, number int64) error {
	if err := u.tree.budget.Entry(); err != nil {
		return err
	}
	name, err := cleanEntryName("name", h.Name)
	if err != nil {
		return err
	}
	if tarfile.IsSparse(h) { // all of it is written
		if err := u.tree.budget.Sparse(h.Name, h.Size); err != nil {
			return err
		}
	}
	if name == "." {
		if h.Typeflag != tar.TypeDir {
			return fault.Invalid("the entry %q would take the place of the folder that it is unpacked into", h.Name)
		}
		return nil // the folder stays as it is
	}
	dir, err := u.makeParent(ctx, name)
	if err != nil {
		return err
	}
	base := path.Base(name)
	there, err := u.tree.lookUpChild(ctx, dir, base)
	if err != nil {
		return err
	}
	if h.Typeflag == tar.TypeLink {
		return u.addLink(ctx, h, dir, there, base)
	}
	entry, err := u.entryOf(h)
	if err != nil {
		return err
	}
	if entry.Mode.IsDir() && there != nil && there.isDir() {
		there.entry, there.from = entry, nil
		there.markChanged()
		return nil
	}
	n := u.replaceNode(dir, there, base, &node{entry: entry})
	if entry.Mode.IsRegular() {
		n.stored = &stored{number: number, nodes: []*node{n}}
		u.stored = append(u.stored, n.stored)
	}
	return nil
}

// cleanEntryName returns a name of an archive as a clean path below the folder that the archive is unpacked into.
func cleanEntryName(what, name string) (string, error) {
	switch {
	case name == "":
		return "", fault.Invalid("the %s of an entry is empty", what)
	case len(name) > tarfile.MaxName:
		return "", fault.Invalid("the %s of an entry has more than %d bytes: %.64q…", what, tarfile.MaxName, name)
	case strings.ContainsRune(name, 0):
		return "", fault.Invalid("the %s %q holds a zero byte", what, name)
	case strings.Count(name, "/") > tarfile.MaxDepth:
		return "", fault.Invalid("the %s %.64q… is more than %d folders deep", what, name, tarfile.MaxDepth)
	}
	clean := path.Clean("./" + strings.TrimLeft(name, "/"))
	if clean == ".." || strings.HasPrefix(clean, "../") {
		return "", fault.Invalid("the %s %q leads out of the folder that the archive is unpacked into", what, name)
	}
	if strings.HasPrefix(clean, whiteout) || strings.Contains(clean, "/"+whiteout) {
		return "", noWhiteout(name)
	}
	return clean, nil
}

// makeParent returns the folder that an entry goes into. Links on the way are followed, folders that are missing are made.
func (u *unpacker) makeParent(ctx context.Context, name string) (*node, error) {
	dir := path.Dir(name)
	if dir == u.last {
		return u.into, nil
	}
	at, missing, err := u.tree.walkPath(ctx, u.top, dir, true)
	if err != nil {
		return nil, fmt.Errorf("entry %.64q: %w", name, err)
	}
	if err := u.tree.budget.Depth(at.depth() + len(missing)); err != nil {
		return nil, err
	}
	for range missing {
		if err := u.tree.budget.Folder(); err != nil {
			return nil, err
		}
	}
	at, err = u.tree.mkdirAll(at, missing, made{mode: fs.ModeDir | 0o755, time: u.like.time})
	if err != nil {
		return nil, fmt.Errorf("entry %.64q: %w", name, err)
	}
	u.last, u.into = dir, at
	return at, nil
}

// replaceNode puts a node into a folder, in the place of what is there.
func (u *unpacker) replaceNode(dir, there *node, base string, n *node) *node {
	if there != nil {
		u.last = "" // what is replaced may have been on the way there
		n.hides = there.hides || there.lower != nil
	}
	if n.isDir() {
		n.opaque = n.hides
	}
	dir.addChild(base, n)
	n.markChanged()
	return n
}

// addLink gives a file that is there one more name. A symbolic link is linked itself.
func (u *unpacker) addLink(ctx context.Context, h *tar.Header, dir, there *node, base string) error {
	name, err := cleanEntryName("link target", h.Linkname)
	if err != nil {
		return err
	}
	at, missing, err := u.tree.walkPath(ctx, u.top, name, false)
	if err != nil {
		return fmt.Errorf("entry %q: the target of the link: %w", h.Name, err)
	}
	if len(missing) > 0 || at.isDir() {
		return fault.Invalid("the entry %q cannot be a link to %q: there is no such file", h.Name, h.Linkname)
	}
	if at == there {
		return nil
	}
	n := u.replaceNode(dir, there, base, &node{entry: at.entry, from: at.from})
	if at.entry.Mode&fs.ModeSymlink != 0 {
		return nil
	}
	if at.stored == nil { // of a source, or of the image below: it comes up as it is
		at.stored = &stored{}
		at.markChanged()
	}
	n.stored = at.stored
	if n.stored.number > 0 {
		n.stored.nodes = append(n.stored.nodes, n)
	}
	return nil
}

// entryOf returns the entry that a header describes.
func (u *unpacker) entryOf(h *tar.Header) (*source.Entry, error) {
	if len(h.Linkname) > tarfile.MaxName {
		return nil, fault.Invalid("the link of entry %.64q has more than %d bytes", h.Name, tarfile.MaxName)
	}
	if h.Uid < 0 || h.Gid < 0 || h.Uid >= math.MaxUint32 || h.Gid >= math.MaxUint32 {
		return nil, fault.Invalid("the entry %q belongs to %d:%d, which nobody is", h.Name, h.Uid, h.Gid)
	}
	e := &source.Entry{Mode: goMode(h.Mode), UID: h.Uid, GID: h.Gid, ModTime: h.ModTime}
	if u.plan.owner.text != "" {
		e.UID, e.GID = u.whose.uid, u.whose.gid
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeRegA, tar.TypeGNUSparse: //nolint:staticcheck // old archives have TypeRegA
		e.Size = h.Size
	case tar.TypeDir:
		e.Mode |= fs.ModeDir
	case tar.TypeSymlink:
		e.Mode |= fs.ModeSymlink
		e.Link = h.Linkname
		if e.Link == "" || strings.ContainsRune(e.Link, 0) {
			return nil, fault.Invalid("the link of entry %q leads to %q", h.Name, e.Link)
		}
	case tar.TypeFifo:
		e.Mode |= fs.ModeNamedPipe
	case tar.TypeChar, tar.TypeBlock:
		if err := setDevice(e, h); err != nil {
			return nil, err
		}
	default:
		return nil, fault.Invalid("the entry %q has an unknown type %q", h.Name, h.Typeflag)
	}
	for key, value := range h.PAXRecords {
		if attr, ok := strings.CutPrefix(key, trees.XattrRecord); ok && isLayerXattr(attr) {
			if e.Xattrs == nil {
				e.Xattrs = map[string]string{}
			}
			e.Xattrs[attr] = value
		}
	}
	return e, nil
}

// setDevice makes an entry the device that a header describes.
func setDevice(e *source.Entry, h *tar.Header) error {
	if h.Devmajor < 0 || h.Devminor < 0 || h.Devmajor > math.MaxUint32 || h.Devminor > math.MaxUint32 {
		return fault.Invalid("the entry %q is the device %d:%d, which cannot be", h.Name, h.Devmajor, h.Devminor)
	}
	if h.Devmajor == 0 && h.Devminor == 0 {
		return noDevice(h.Name)
	}
	e.Mode |= fs.ModeDevice
	if h.Typeflag == tar.TypeChar {
		e.Mode |= fs.ModeCharDevice
	}
	e.Major, e.Minor = uint32(h.Devmajor), uint32(h.Devminor)
	return nil
}
