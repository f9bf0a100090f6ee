package source

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"moss/engine/compress"
	"moss/engine/fault"
	"moss/engine/tarfile"
	trees "moss/engine/tree"
)

// maxAfter is how much may follow the archive's end, in bytes: padding. It means nothing, but left unread it would break the
// client's connection.
const maxAfter = 64 << 20

// Intake reads an archive, plain or compressed with gzip, bzip2, xz or zstd, to its end. Nothing at all is an empty tree.
// Devices are left out, as they are where a user unpacks; owners that cannot be are root. The caller closes the tree.
//
// Errors are fault.Invalid (no archive, a broken one, one that is too much), those of src, of ctx and of Room, and internal.
func Intake(ctx context.Context, src io.Reader, opt Options) (*Tree, error) {
	in := compress.From(contextReader{ctx, src})
	plain, err := compress.Plain(in)
	if err != nil {
		return nil, err
	}
	defer plain.Close() //nolint:errcheck // the archive has been read to its end, or an error is known
	ahead := compress.Ahead(plain, pieces, piece)
	defer ahead.Close() //nolint:errcheck // likewise
	b, err := newBuilder(ctx, opt)
	if err != nil {
		return nil, err
	}
	t := &taker{builder: b, ctx: ctx, in: in, src: ahead}
	t.tar = tar.NewReader(t)
	if err := t.addEntries(); err != nil {
		b.abandonTree()
		return nil, t.translateError(err)
	}
	tree, err := b.finishTree()
	if err != nil {
		return nil, t.translateError(err)
	}
	return tree, nil
}

// contextReader ends with its context.
type contextReader struct {
	ctx context.Context //nolint:containedctx // of the one call that the reader lives for
	src io.Reader
}

// Read reads from the source.
func (r contextReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.src.Read(p)
}

// taker takes in one archive.
type taker struct {
	*builder
	ctx   context.Context //nolint:containedctx // of the one call that the taker lives for
	in    *compress.Source
	src   io.Reader
	tar   *tar.Reader
	out   int64 // plain bytes so far
	seen  int   // entries of the archive
	broke error // why no more came, if that was not the archive's end
}

// Read is where the tar reader gets its bytes from.
func (t *taker) Read(p []byte) (int, error) {
	n, err := t.src.Read(p)
	t.out += int64(n)
	if err := t.budget.Bytes(t.out, t.in.Count()); err != nil {
		return 0, err
	}
	if err != nil && !errors.Is(err, io.EOF) {
		t.broke = err
	}
	return n, err
}

// addEntries adds every entry of the archive to the tree.
func (t *taker) addEntries() error {
	for {
		h, err := t.tar.Next()
		switch {
		case errors.Is(err, io.EOF):
			return t.drainTrailer()
		case errors.Is(err, tar.ErrInsecurePath): // judged below
		case err != nil:
			return err
		}
		if t.seen++; t.seen > 4*t.limit { // an entry may come again, but not for ever
			return fault.Invalid("the archive of the build context has more than %d entries", 4*t.limit)
		}
		if err := t.addEntry(h); err != nil {
			return err
		}
	}
}

// drainTrailer reads all that follows the archive's end.
func (t *taker) drainTrailer() error {
	n, err := io.CopyN(io.Discard, struct{ io.Reader }{t}, maxAfter)
	if err == nil && n == maxAfter {
		return fault.Invalid("more than %d bytes follow the archive of the build context", maxAfter)
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// translateError turns an error into the one that the client gets.
func (t *taker) translateError(err error) error {
	switch {
	case t.ctx.Err() != nil:
		return fmt.Errorf("read the build context: %w", context.Cause(t.ctx))
	case fault.KindOf(err) != fault.KindInternal:
		return err
	case t.broke != nil:
		return fmt.Errorf("receive the build context: %w", t.broke)
	case t.seen == 0 && (errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF)):
		return fault.Invalid("the build context is not a tar archive: %w", err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return compress.Truncated()
	case errors.Is(err, tar.ErrHeader), errors.Is(err, tar.ErrFieldTooLong):
		return fault.Invalid("entry %d of the build context: %w", t.seen+1, err)
	default:
		return fmt.Errorf("read the build context: %w", err)
	}
}

// addEntry adds one entry to the tree.
func (t *taker) addEntry(h *tar.Header) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := tarfile.CleanName("name", h.Name, "build context")
	if err != nil {
		return err
	}
	if h.Typeflag == tar.TypeLink {
		target, err := tarfile.CleanName("link target", h.Linkname, "build context")
		if err != nil {
			return err
		}
		return t.addLink(name, target)
	}
	node := &inode{mode: tarfile.Permissions(h.Mode)}
	node.setOwnerAndTime(h.Uid, h.Gid, h.ModTime)
	if !hasKnownOwner(h) { // what was meant for another owner is not for root
		node.mode &^= fs.ModeSetuid | fs.ModeSetgid
	}
	switch h.Typeflag {
	case tar.TypeDir:
		node.mode |= fs.ModeDir
	case tar.TypeReg, tar.TypeRegA, tar.TypeGNUSparse, tar.TypeCont: //nolint:staticcheck // old archives have TypeRegA
		if name == "." {
			return t.putRoot(node)
		}
		if err := t.addContent(node, h); err != nil {
			return err
		}
	case tar.TypeSymlink:
		if h.Linkname == "" || len(h.Linkname) > tarfile.MaxName || strings.ContainsRune(h.Linkname, 0) {
			return fault.Invalid("the link of entry %.64q has %d bytes, want 1 to %d without a zero", name, len(h.Linkname),
				tarfile.MaxName)
		}
		node.mode = fs.ModeSymlink | 0o777
		node.ensureMore().link = strings.Clone(h.Linkname)
	case tar.TypeFifo:
		node.mode |= fs.ModeNamedPipe
	case tar.TypeChar, tar.TypeBlock:
		return nil
	default:
		return fault.Invalid("entry %q has an unknown type %q", h.Name, h.Typeflag)
	}
	if err := t.chargeText(len(node.linkTarget())); err != nil {
		return err
	}
	if err := t.addXattrs(node, h); err != nil {
		return err
	}
	return t.putNode(name, node)
}

// hasKnownOwner reports whether an entry's owner has possible ids.
func hasKnownOwner(h *tar.Header) bool {
	return int64(idOrRoot(h.Uid)) == int64(h.Uid) && int64(idOrRoot(h.Gid)) == int64(h.Gid)
}

// addContent reads the content of a regular file. The sizes of sparse files are added up: all of them is read, if not written.
func (t *taker) addContent(node *inode, h *tar.Header) error {
	sparse := tarfile.IsSparse(h)
	if sparse {
		if err := t.budget.Sparse(h.Name, h.Size); err != nil {
			return err
		}
	}
	return t.readContent(node, t.tar, sparse)
}

// addXattrs adds the extended attributes that belong in a layer.
func (t *taker) addXattrs(node *inode, h *tar.Header) error {
	for key, value := range h.PAXRecords {
		name, ok := strings.CutPrefix(key, trees.XattrRecord)
		if !ok || !trees.Carried(name) || node.mode&fs.ModeSymlink != 0 {
			continue
		}
		if name == trees.Capabilities && !hasKnownOwner(h) {
			continue
		}
		if len(value) > maxXattr {
			return fault.Invalid("entry %q: the attribute %.64q has more than %d bytes", h.Name, name, maxXattr)
		}
		if err := t.chargeText(len(name) + len(value)); err != nil {
			return err
		}
		if node.ensureMore().xattrs == nil {
			node.more.xattrs = map[string]string{}
		}
		node.more.xattrs[strings.Clone(name)] = strings.Clone(value)
	}
	return nil
}
