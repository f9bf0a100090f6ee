package copying

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"

	"moss/engine/build/source"
	"moss/engine/compress"
	"moss/engine/fault"
	trees "moss/engine/tree"
)

// maxEntries bounds the headers of one archive, and what all archives of an instruction come to.
const maxEntries = 1 << 20

// newBudget returns what the archives of an instruction may cost together.
func newBudget() *trees.Budget {
	return trees.NewBudget(trees.Limits{Entries: maxEntries, Sparse: 1 << 30}) // sparse files are written whole
}

// isArchive reports whether a file is a tar archive, plain or compressed, by what it begins with.
func isArchive(ctx context.Context, src source.Source, e *source.Entry) (bool, error) {
	f, err := src.Open(ctx, e)
	if err != nil {
		return false, err
	}
	defer f.Close() //nolint:errcheck // only read
	in := compress.From(f)
	plain, err := compress.Plain(in)
	if err == nil {
		defer plain.Close() //nolint:errcheck // only read
		_, err = tar.NewReader(&bounded{ctx: ctx, plain: plain, in: in, budget: newBudget()}).Next()
	}
	if errors.Is(err, tar.ErrInsecurePath) {
		err = nil
	}
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	return err == nil, nil
}

// bounded reads what comes out of a decompressor, no more than is sane for what went in.
type bounded struct {
	ctx    context.Context //nolint:containedctx // of the one call that reads
	plain  io.Reader
	in     *compress.Source
	out    int64
	budget *trees.Budget
}

// Read returns plain bytes. Errors are fault.Invalid for too many of them.
func (b *bounded) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := b.plain.Read(p)
	b.out += int64(n)
	if err := b.budget.Bytes(b.out, b.in.Count()); err != nil {
		return 0, err
	}
	return n, err
}

// stored is content that several nodes may have.
type stored struct {
	number int64   // of the archive's entry that has it; 0: it is the node's own
	nodes  []*node // that had it once, for content of an archive
	first  string  // the path under which the layer has it; empty: not yet
}

// archive is one that is unpacked. It is read twice, since no layer may say of one path two things: first its headers, to
// know what comes out, then what is in the files that are left.
type archive struct {
	*match
	budget *trees.Budget
	plain  []byte    // of a small one
	stored []*stored // in the order in which they come
}

// maxKept is how much of what comes out of archives is kept for the second reading, in bytes.
const maxKept = 16 << 20

// forEachHeader calls do with every header of an archive. All that is read goes to keep as well.
func (a *archive) forEachHeader(
	ctx context.Context, keep io.Writer, do func(r *tar.Reader, h *tar.Header, number int64) error,
) error {
	plain, free, err := a.openPlain(ctx)
	if err != nil {
		return err
	}
	defer free()
	if keep != nil {
		plain = io.TeeReader(plain, keep)
	}
	r := tar.NewReader(plain)
	for number := int64(1); ; number++ {
		h, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err == nil, errors.Is(err, tar.ErrInsecurePath): // putEntry knows more
		case errors.Is(err, io.ErrUnexpectedEOF):
			return compress.Truncated()
		case errors.Is(err, tar.ErrHeader), errors.Is(err, tar.ErrFieldTooLong):
			return fault.Invalid("entry %d of the archive: %w", number, err)
		default:
			return err
		}
		if number > maxEntries {
			return fault.Invalid("the archive has more than %d entries", maxEntries)
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		if err := do(r, h, number); err != nil {
			return err
		}
	}
}

// openPlain opens the archive without its compression. The caller calls the function that it returns.
func (a *archive) openPlain(ctx context.Context) (io.Reader, func(), error) {
	if a.plain != nil {
		return bytes.NewReader(a.plain), func() {}, nil
	}
	f, err := a.src.Open(ctx, a.file.entry)
	if err != nil {
		return nil, nil, err
	}
	in := compress.From(f)
	plain, err := compress.Plain(in)
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	free := func() {
		plain.Close() //nolint:errcheck // only read
		f.Close()     //nolint:errcheck // likewise
	}
	return &bounded{ctx: ctx, plain: plain, in: in, budget: a.budget}, free, nil
}

// some keeps bytes up to a bound, otherwise none.
type some struct {
	kept []byte
	most int
	over bool
}

// Write implements io.Writer.
func (s *some) Write(p []byte) (int, error) {
	if s.over = s.over || len(s.kept)+len(p) > s.most; s.over {
		s.kept = nil
	} else {
		s.kept = append(s.kept, p...)
	}
	return len(p), nil
}
