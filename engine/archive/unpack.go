package archive

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/compress"
	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/tarfile"
)

// What an archive may hold. Its headers are bounded by the tar reader itself: a megabyte each.
const (
	maxEntries = 4 << 20
	maxSparse  = 16 << 30  // bytes that its sparse entries may pretend to; they take no place on the disk
	freeOut    = 512 << 20 // bytes that may come out whatever went in, unless Options say otherwise
	maxRatio   = 500       // bytes that may come out for each that went in, beyond those; real files reach ten
)

// target is where an archive goes.
type target struct {
	tree
	place place
	dest  *os.File         // O_PATH
	free  int64            // bytes that may come out whatever went in
	ids   *container.IDMap // nil: owners are the same numbers to the engine
	opt   UnpackOptions
}

// unpack reads an archive to its end and unpacks it.
func unpack(ctx context.Context, src io.Reader, t target) error {
	in := compress.From(contextReader{ctx, src})
	plain, err := compress.Plain(in)
	if err != nil {
		return err
	}
	defer plain.Close() //nolint:errcheck // the archive has been read to its end, or an error is known
	ahead := compress.Ahead(plain, piecesAhead, piece)
	defer ahead.Close() //nolint:errcheck // likewise
	u := &unpacker{target: t, ctx: ctx, in: in, src: ahead, folders: map[string]*parent{}, buf: make([]byte, piece)}
	defer u.forget()
	u.tar = tar.NewReader(u)
	if err := u.all(); err != nil {
		return u.word(err)
	}
	u.settle()
	// What follows the archive's end is the client's to send and means nothing; left unread it would break the connection.
	if _, err := io.CopyBuffer(io.Discard, struct{ io.Reader }{u}, u.buf); err != nil {
		return u.word(err)
	}
	return nil
}

// contextReader ends with its context.
type contextReader struct {
	ctx context.Context //nolint:containedctx // of the one call that the reader lives for
	src io.Reader
}

// Read reads from the source.
func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.src.Read(p)
}

// unpacker unpacks one archive.
type unpacker struct {
	target
	ctx     context.Context //nolint:containedctx // of the one call that the unpacker lives for
	in      *compress.Source
	src     io.Reader
	tar     *tar.Reader
	out     int64 // plain bytes so far
	entries int
	sparse  int64
	folders map[string]*parent // open ones, by cleaned name in the archive
	times   []folderTime
	stale   bool // a folder was replaced: names may mean other folders than those that are open
	buf     []byte
}

// folderTime is when a folder says that it was changed. It is set last: what is unpacked into the folder changes it.
type folderTime struct {
	name string
	at   time.Time
}

// Read is where the tar reader gets its bytes from.
func (u *unpacker) Read(p []byte) (int, error) {
	n, err := u.src.Read(p)
	u.out += int64(n)
	if u.out > u.free && (u.out-u.free)/maxRatio > u.in.Count() {
		return 0, fault.Invalid("the archive unpacks to more than %d times its size", maxRatio)
	}
	return n, err
}

func (u *unpacker) all() error {
	for {
		h, err := u.tar.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, tar.ErrInsecurePath): // judged below
		case err != nil:
			return err
		}
		if u.entries++; u.entries > maxEntries {
			return fault.Invalid("the archive has more than %d entries", maxEntries)
		}
		if err := u.ctx.Err(); err != nil {
			return err
		}
		if err := u.entry(h); err != nil {
			return err
		}
	}
}

// word turns an error into what the client is told.
func (u *unpacker) word(err error) error {
	switch {
	case u.ctx.Err() != nil:
		return fmt.Errorf("unpack: %w", context.Cause(u.ctx))
	case errors.Is(err, unix.ENOSPC):
		return fault.Internal("copy to %s: no space left on device", u.place.asked)
	case errors.Is(err, unix.EDQUOT):
		return fault.Internal("copy to %s: disk quota exceeded", u.place.asked)
	case errors.Is(err, unix.EROFS):
		return readOnly(false)
	case fault.KindOf(err) != fault.KindInternal:
		return err
	case swapped(err):
		return fault.Invalid("copy to %s: the container replaces it meanwhile: %w", u.place.asked, err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return compress.Truncated()
	case errors.Is(err, tar.ErrHeader) && u.entries == 0:
		return fault.Invalid("this is not a tar archive: %w", err)
	case errors.Is(err, tar.ErrHeader), errors.Is(err, tar.ErrFieldTooLong):
		return fault.Invalid("entry %d of the archive: %w", u.entries+1, err)
	default:
		return fmt.Errorf("copy to %s: %w", u.place.asked, err)
	}
}

// swapped reports whether something was not what it had been a moment before.
func swapped(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTEMPTY)
}

// entry unpacks one entry.
func (u *unpacker) entry(h *tar.Header) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := tarfile.CleanName("name", h.Name, "destination")
	if err != nil {
		return err
	}
	if name == "." {
		if h.Typeflag != tar.TypeDir {
			return fault.Invalid("entry %q would take the place of the destination", h.Name)
		}
		return nil // the destination stays as it is
	}
	if u.stale {
		u.forget()
		u.stale = false
	}
	at, err := u.parent(path.Dir(name), true)
	if err != nil {
		return err
	}
	where := spot{dir: at.fd, base: path.Base(name), name: name}
	switch h.Typeflag {
	case tar.TypeDir:
		return u.folder(where, h)
	case tar.TypeReg, tar.TypeRegA, tar.TypeGNUSparse, tar.TypeCont: //nolint:staticcheck // old archives have TypeRegA
		if err := u.checkSparse(h); err != nil {
			return err
		}
		return u.file(where, h)
	case tar.TypeSymlink:
		return u.symlink(where, h)
	case tar.TypeLink:
		return u.hardlink(where, h)
	case tar.TypeFifo:
		return u.fifo(where, h)
	case tar.TypeChar, tar.TypeBlock:
		return nil // a user cannot make them
	default:
		return fault.Invalid("entry %q has an unknown type %q", h.Name, h.Typeflag)
	}
}

// checkSparse adds up what sparse entries pretend to: it is all read, if not written.
func (u *unpacker) checkSparse(h *tar.Header) error {
	if !tarfile.IsSparse(h) {
		return nil
	}
	if h.Size > maxSparse-u.sparse {
		return fault.Invalid("sparse entry %q: the archive's sparse entries pretend to more than %d bytes", h.Name, int64(maxSparse))
	}
	u.sparse += h.Size
	return nil
}

// settle gives the folders their times. One that is gone or replaced meanwhile has none to get.
func (u *unpacker) settle() {
	for _, t := range u.times {
		at, err := u.parent(t.name, false)
		if err != nil {
			continue
		}
		setTimes(at.fd, ".", t.at) //nolint:errcheck // see above
	}
}
