package archive

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"moss/engine/compress"
	"moss/engine/container"
	"moss/engine/fault"
	trees "moss/engine/tree"
)

// maxEntries bounds an archive's entries, with the folders that they imply. Its headers are bounded by the tar reader itself: a
// megabyte each.
const maxEntries = 4 << 20

// target is where an archive goes.
type target struct {
	tree
	place place
	dest  *os.File           // O_PATH
	free  int64              // bytes that may come out whatever went in
	ids   *container.IDMap   // nil: owners are the same numbers to the engine
	owner *container.UserIDs // of all that is unpacked, as the container counts; nil: those of the archive
	opt   UnpackOptions
}

// unpackArchive unpacks an archive and reads it to its end.
func unpackArchive(ctx context.Context, src io.Reader, t target) error {
	in := compress.From(contextReader{ctx, src})
	plain, err := compress.Plain(in)
	if err != nil {
		return err
	}
	defer plain.Close() //nolint:errcheck // the archive has been read to its end, or an error is known
	ahead := compress.Ahead(plain, piecesAhead, piece)
	defer ahead.Close() //nolint:errcheck // likewise
	u := &unpacker{target: t, ctx: ctx, in: in, src: ahead, budget: trees.NewBudget(trees.Limits{Entries: maxEntries, Free: t.free})}
	u.tar = tar.NewReader(u)
	u.writer = trees.NewWriter(trees.WriterOptions{
		Root: t.root, Dest: t.dest, At: t.place.path, Budget: u.budget, Owner: t.newOwnerMapper(), Foreign: systemFS,
		KeepKinds: t.opt.NoOverwriteDirNonDir,
	})
	defer u.writer.Close()
	if err := u.unpackEntries(); err != nil {
		return u.translateError(err)
	}
	u.writer.Settle()
	// What follows the archive's end is the client's to send and means nothing; left unread it would break the connection.
	if _, err := io.CopyBuffer(io.Discard, struct{ io.Reader }{u}, make([]byte, piece)); err != nil {
		return u.translateError(err)
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

// newOwnerMapper returns a function that maps an entry's owner to ids of the engine; nil: they are the same.
func (t target) newOwnerMapper() func(uid, gid int) (engineUID, engineGID int, same bool) {
	if t.owner != nil {
		archived := target{ids: t.ids}.newOwnerMapper()
		return func(uid, gid int) (engineUID, engineGID int, same bool) {
			engineUID, engineGID, same = int(t.owner.UID), int(t.owner.GID), true
			own := uid == engineUID && gid == engineGID
			if archived != nil {
				engineUID, engineGID, same = archived(engineUID, engineGID)
			}
			return engineUID, engineGID, own && same
		}
	}
	if t.ids == nil {
		return nil
	}
	return func(uid, gid int) (engineUID, engineGID int, same bool) {
		engineUID, engineGID = t.ids.Owner(uid, gid)
		if uid >= 0 && uid < math.MaxUint32 && gid >= 0 && gid < math.MaxUint32 {
			_, err := t.ids.Outside(container.UserIDs{UID: uint32(uid), GID: uint32(gid)})
			same = err == nil
		}
		return engineUID, engineGID, same
	}
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
	budget  *trees.Budget
	writer  *trees.Writer
}

// Read is where the tar reader gets its bytes from.
func (u *unpacker) Read(p []byte) (int, error) {
	n, err := u.src.Read(p)
	u.out += int64(n)
	if err := u.budget.Bytes(u.out, u.in.Count()); err != nil {
		return 0, err
	}
	return n, err
}

// unpackEntries unpacks every entry of the archive.
func (u *unpacker) unpackEntries() error {
	for {
		h, err := u.tar.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, tar.ErrInsecurePath): // judged below
		case err != nil:
			return err
		}
		u.entries++
		if err := u.writer.Write(u.ctx, h, u.tar); err != nil {
			return err
		}
	}
}

// translateError turns an error into the one that the client gets.
func (u *unpacker) translateError(err error) error {
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
	case isSwapped(err):
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

// isSwapped reports whether an error says that a file was not what it had been a moment before.
func isSwapped(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) ||
		errors.Is(err, unix.ENOTEMPTY)
}
