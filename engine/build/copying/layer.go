package copying

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"moss/engine/build/source"
	"moss/engine/fault"
	trees "moss/engine/tree"
)

// layer is one that is being written.
type layer struct {
	plan  *Plan
	tree  *tree
	like  made // what folders are like that are made on the way to the destination
	whose ids  // --chown
	*writer

	archives []*archive // in the order in which they are unpacked
	kept     int        // bytes of theirs that are in memory
}

func (p *Plan) writeLayer(ctx context.Context, base source.Source, w io.Writer) error {
	l := &layer{plan: p, writer: newWriter(w)}
	var err error
	if l.whose, err = p.owner.resolveIDs(ctx, base); err != nil {
		return err
	}
	if p.req.Link {
		base = nil
	}
	l.like = made{mode: p.chmod.folderMode(), ids: l.whose, time: p.req.Created}
	l.tree = newTree(base)
	for _, m := range p.matches {
		if err := l.putMatch(ctx, m); err != nil {
			return err
		}
	}
	for _, a := range l.archives {
		if err := l.unpackArchive(ctx, a); err != nil {
			return err
		}
	}
	if err := l.flushTree(ctx); err != nil {
		return err
	}
	return l.close()
}

// withDefaultMode returns a copy for folders that --chmod does not apply to.
func (m made) withDefaultMode() made {
	m.mode = fs.ModeDir | 0o755
	return m
}

// flushTree writes what is not yet written of the tree: parents before what is in them, names in order.
func (l *layer) flushTree(ctx context.Context) error {
	return l.flushKids(ctx, l.tree.root, "")
}

func (l *layer) flushKids(ctx context.Context, dir *node, prefix string) error {
	if dir.kids == nil {
		for i := range dir.rest {
			if err := l.flushFile(ctx, &dir.rest[i], dir.restOf, prefix); err != nil {
				return err
			}
		}
		return nil
	}
	dir.expandDeferred()
	for _, name := range slices.Sorted(maps.Keys(dir.kids)) {
		n := dir.kids[name]
		if !n.changed && !n.above {
			continue
		}
		if !n.written {
			if err := l.writeNode(ctx, prefix+name, n); err != nil {
				return err
			}
		}
		if n.above {
			if err := l.flushKids(ctx, n, prefix+name+"/"); err != nil {
				return err
			}
		}
	}
	return nil
}

// flushFile writes a file that nothing was in the way of.
func (l *layer) flushFile(ctx context.Context, f *file, m *match, prefix string) error {
	if err := l.writeFile(ctx, prefix+f.name, f.entry, m); err != nil {
		return err
	}
	prefix += f.name + "/"
	for i := range f.kids {
		if err := l.flushFile(ctx, &f.kids[i], m, prefix); err != nil {
			return err
		}
	}
	return nil
}

// writeNode writes a node.
func (l *layer) writeNode(ctx context.Context, name string, n *node) error {
	n.written = true
	if c := n.stored; c != nil {
		if c.first != "" {
			e := n.entry
			if n.from != nil {
				e = l.finalizeEntry(e, n.from)
			}
			return l.writeHeader(e, name, c.first)
		}
		c.first = name
	}
	if err := l.writeFile(ctx, name, n.entry, n.from); err != nil || !n.opaque {
		return err
	}
	return l.writeHeader(&source.Entry{ModTime: n.entry.ModTime}, name+"/"+whiteout+whiteout+".opq", "")
}

// writeFile writes a file of a source, or one of the image below as it is.
func (l *layer) writeFile(ctx context.Context, name string, e *source.Entry, m *match) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	src := l.tree.base
	if m != nil {
		src = m.src
		if e.Inode != 0 && e.Mode.IsRegular() {
			key := linked{m, e.Inode}
			if first, ok := l.links[key]; ok {
				return l.writeHeader(l.finalizeEntry(e, m), name, first)
			}
			l.links[key] = name
		}
		e = l.finalizeEntry(e, m)
	}
	if err := l.writeHeader(e, name, ""); err != nil || !e.Mode.IsRegular() || e.Size == 0 {
		return err
	}
	content, err := src.Open(ctx, e)
	if err != nil {
		return err
	}
	err = l.writeContent(ctx, name, content, e.Size)
	return errors.Join(err, content.Close())
}

// finalizeEntry returns an entry with the owner and the mode that the instruction gives it.
func (l *layer) finalizeEntry(e *source.Entry, m *match) *source.Entry {
	out := *e
	switch {
	case l.plan.owner.text != "":
		out.UID, out.GID = l.whose.uid, l.whose.gid
	case !m.keep:
		out.UID, out.GID = 0, 0
	}
	if l.plan.chmod.text != "" {
		out.Mode = e.Mode.Type() | goMode(int64(l.plan.chmod.applyTo(e.Mode)))
	}
	return &out
}

// writer writes a layer's archive.
type writer struct {
	out   *bufio.Writer
	tar   *tar.Writer
	buf   []byte
	links map[linked]string // the first names of files that have several
}

// linked is a file that may have several names.
type linked struct {
	from  *match
	inode uint64
}

func newWriter(w io.Writer) *writer {
	out := bufio.NewWriterSize(w, 256<<10)
	return &writer{out: out, tar: tar.NewWriter(out), links: map[linked]string{}}
}

func (w *writer) close() error {
	if err := w.tar.Close(); err != nil {
		return err
	}
	return w.out.Flush()
}

// writeHeader writes the header of a name; link makes it another name of that one.
func (w *writer) writeHeader(e *source.Entry, name, link string) error {
	h := tar.Header{Name: name, Mode: int64(unixMode(e.Mode)), Uid: e.UID, Gid: e.GID, ModTime: wholeSeconds(e.ModTime)}
	switch {
	case link != "":
		h.Typeflag, h.Linkname = tar.TypeLink, link
	case e.Mode.IsRegular():
		h.Typeflag, h.Size = tar.TypeReg, e.Size
	case e.Mode.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
	case e.Mode&fs.ModeSymlink != 0:
		h.Typeflag, h.Linkname = tar.TypeSymlink, e.Link
	case e.Mode&fs.ModeNamedPipe != 0:
		h.Typeflag = tar.TypeFifo
	case e.Mode&fs.ModeDevice != 0:
		h.Typeflag = tar.TypeBlock
		if e.Mode&fs.ModeCharDevice != 0 {
			h.Typeflag = tar.TypeChar
		}
		h.Devmajor, h.Devminor = int64(e.Major), int64(e.Minor)
		if e.Major == 0 && e.Minor == 0 {
			return noDevice(name)
		}
	default:
		return fault.Invalid("%s is of a type that layers do not hold", name)
	}
	if link == "" {
		for key, value := range e.Xattrs {
			if !isLayerXattr(key) {
				continue
			}
			if h.PAXRecords == nil {
				h.PAXRecords = map[string]string{}
			}
			h.PAXRecords[trees.XattrRecord+key] = value
		}
	}
	if err := w.tar.WriteHeader(&h); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// noDevice is what is said of a device that would be taken for a removal.
func noDevice(name string) error {
	return fault.Invalid("%s: the device 0:0 means in layers that a file is removed", name)
}

// writeContent writes the bytes of a file.
func (w *writer) writeContent(ctx context.Context, name string, src io.Reader, size int64) error {
	if w.buf == nil {
		w.buf = make([]byte, 128<<10)
	}
	for size > 0 {
		n, err := src.Read(w.buf[:min(size, int64(len(w.buf)))])
		if n > 0 {
			if _, err := w.tar.Write(w.buf[:n]); err != nil {
				return fmt.Errorf("write %s: %w", name, err)
			}
			size -= int64(n)
		}
		if err != nil && size > 0 {
			if errors.Is(err, io.EOF) {
				return fault.Invalid("%s became shorter while it was read", name)
			}
			return fmt.Errorf("read %s: %w", name, err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// isLayerXattr reports whether layers hold an extended attribute.
func isLayerXattr(name string) bool {
	return trees.Carried(name) && !strings.ContainsAny(name, "=\x00") // no archive can hold those
}

// wholeSeconds returns a time as every archive can hold it.
func wholeSeconds(t time.Time) time.Time {
	const most = 1<<33 - 1 // eleven octal digits
	return time.Unix(min(max(t.Unix(), 0), most), 0)
}
