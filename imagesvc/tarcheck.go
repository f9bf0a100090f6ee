package imagesvc

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"moss/engine/compress"
	"moss/engine/fault"
	"moss/engine/tarfile"
	"moss/engine/tree"
)

// Limits bound what an archive may hold. Zero fields take the defaults.
type Limits struct {
	Entries   int64 // number of entries, with the folders that they imply
	HeaderLen int   // bytes of one entry's headers, extended ones included
	NameLen   int   // bytes of a name or of a link's target
	Depth     int   // folders in a name
	Sparse    int64 // bytes that sparse entries may pretend to
	Free      int64 // bytes that may come out whatever went in
	Ratio     int64 // bytes that may come out for each that went in, beyond Free
}

func (l Limits) withDefaults() Limits {
	set := func(field *int64, value int64) {
		if *field == 0 {
			*field = value
		}
	}
	setInt := func(field *int, value int) {
		if *field == 0 {
			*field = value
		}
	}
	set(&l.Entries, 1<<20) // the largest images known hold about half of it
	setInt(&l.HeaderLen, 4<<20)
	setInt(&l.NameLen, 4096) // PATH_MAX
	setInt(&l.Depth, 512)
	set(&l.Sparse, 1<<30)
	set(&l.Free, 512<<20)
	set(&l.Ratio, 500) // real file systems reach ten
	return l
}

// checker passes an archive on and looks at every entry before the first byte of it is passed on: what comes out may be
// given to an unpacker that trusts it. Every byte comes through, also those behind the archive's end mark.
//
// Headers are read by the standard library's tar reader, as the unpacker's are. The content of entries goes straight from
// the source to who reads, since it is nearly all of an archive.
type checker struct {
	limits  Limits
	read    func() int64 // bytes that went into the decompressor so far
	src     io.Reader
	tar     *tar.Reader
	pending bytes.Buffer // checked bytes that nobody has read yet, or those of the header under way
	scratch []byte       // for what the tar reader must see of an entry's content
	head    bool         // a header is under way
	body    int64        // bytes of the present entry's content, with what fills its last block, that are left in src
	mapped  bool         // the present entry is sparse: the tar reader alone knows how much there is of it
	tail    bool         // the end mark is behind
	entries int64        // seen so far, the present one included
	budget  *tree.Budget
	names   *tree.Names
	out     int64 // bytes taken from src
	err     error // what ended it
}

// newChecker returns a reader of the plain archive src. read says how many bytes came in before decompression.
func newChecker(src io.Reader, limits Limits, read func() int64) *checker {
	budget := tree.NewBudget(tree.Limits{Entries: limits.Entries, Free: limits.Free, Ratio: limits.Ratio, Sparse: limits.Sparse})
	c := &checker{limits: limits, read: read, src: src, budget: budget, names: tree.NewNames(budget)}
	c.tar = tar.NewReader(readerFunc(c.readPending))
	return c
}

type readerFunc func(p []byte) (int, error)

// Read calls f.
func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// Read returns checked bytes. Errors are fault.Invalid for what the archive holds, otherwise those of the source.
func (c *checker) Read(p []byte) (int, error) {
	for c.pending.Len() == 0 && c.err == nil {
		if c.body > 0 {
			if n := c.passContent(p); n > 0 || len(p) == 0 {
				return n, nil
			}
			continue
		}
		c.err = c.advance()
	}
	if c.pending.Len() > 0 {
		return c.pending.Read(p)
	}
	return 0, c.err
}

// passContent hands the present entry's content on.
func (c *checker) passContent(p []byte) int {
	if int64(len(p)) > c.body {
		p = p[:c.body]
	}
	n, err := c.src.Read(p)
	c.out += int64(n)
	c.body -= int64(n)
	if bomb := c.budget.Bytes(c.out, c.read()); bomb != nil {
		c.err = bomb
		return 0
	}
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		if c.body > 0 {
			c.err = compress.Truncated()
		}
	default:
		c.err = c.tarError(err)
	}
	return n
}

// readPending is where the tar reader gets its bytes from: they are kept until they are checked.
func (c *checker) readPending(p []byte) (int, error) {
	n, err := c.src.Read(p)
	c.out += int64(n)
	if err := c.budget.Bytes(c.out, c.read()); err != nil {
		return 0, err
	}
	if c.head && c.pending.Len()+n > c.limits.HeaderLen {
		return 0, fault.Invalid("an entry's headers have more than %d bytes", c.limits.HeaderLen)
	}
	c.pending.Write(p[:n])
	return n, err
}

// advance moves on by a header, or by a piece of a sparse entry.
func (c *checker) advance() error {
	if c.tail {
		return c.passTail()
	}
	if c.mapped {
		_, err := c.tar.Read(c.scratch)
		if errors.Is(err, io.EOF) {
			c.mapped = false
			return nil
		}
		if err != nil {
			return c.tarError(err)
		}
		return nil
	}
	c.head = true
	header, err := c.tar.Next()
	c.head = false
	if errors.Is(err, tar.ErrInsecurePath) {
		err = nil // checkEntry knows more
	}
	if errors.Is(err, io.EOF) {
		return c.handleEnd()
	}
	if err == nil {
		c.entries++
		err = c.checkEntry(header)
	}
	if err != nil {
		c.pending.Reset() // what is not right is not passed on
		return c.tarError(err)
	}
	c.prepareContent(header)
	return nil
}

// prepareContent prepares for the content of the entry whose header was read.
func (c *checker) prepareContent(h *tar.Header) {
	switch {
	case tarfile.IsSparse(h):
		c.mapped = true
		if c.scratch == nil {
			c.scratch = make([]byte, 32<<10)
		}
	case h.Size > 0 && (h.Typeflag == tar.TypeReg || h.Typeflag == tar.TypeRegA): //nolint:staticcheck // as in checkEntry
		c.body = (h.Size + blockSize - 1) / blockSize * blockSize
		// The tar reader never sees the content. A new one for the next header has nothing to skip, and is all the same:
		// extended headers hold for one entry, and global ones come as entries.
		c.tar = tar.NewReader(readerFunc(c.readPending))
	}
}

// tarError words an error of the tar reader.
func (c *checker) tarError(err error) error {
	switch {
	case fault.Is(err, fault.Invalid):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return compress.Truncated()
	case errors.Is(err, tar.ErrHeader) && c.entries == 0:
		return fault.Invalid("this is not a tar archive: %w", err)
	case errors.Is(err, tar.ErrHeader), errors.Is(err, tar.ErrFieldTooLong):
		return fault.Invalid("entry %d of the archive: %w", c.entries+1, err)
	default:
		return fmt.Errorf("read the archive: %w", err)
	}
}

// handleEnd handles the end that the tar reader has found: the source's end instead of the archive's means that something
// is missing.
func (c *checker) handleEnd() error {
	padding := c.pending.Len() % blockSize // of the last entry, a sparse one
	mark := c.pending.Bytes()[padding:]
	if len(mark) == 0 || len(bytes.Trim(mark, "\x00")) > 0 {
		c.pending.Reset()
		if c.out == 0 {
			return fault.Invalid("the archive is empty")
		}
		return compress.Truncated()
	}
	c.tail = true
	return nil
}

// passTail passes on what follows the end mark: padding mostly. No unpacker looks at it, but it counts for the digest.
func (c *checker) passTail() error {
	if c.scratch == nil {
		c.scratch = make([]byte, 32<<10)
	}
	_, err := c.readPending(c.scratch)
	if err != nil && !errors.Is(err, io.EOF) {
		c.pending.Reset()
		return c.tarError(err)
	}
	return err
}

const blockSize = 512 // of tar

// checkEntry refuses an entry that reaches out of the archive's root, that no file system takes, or that is a trap.
func (c *checker) checkEntry(h *tar.Header) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return c.budget.Entry()
	}
	if err := c.checkName("name", h.Name); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeRegA, tar.TypeSymlink, tar.TypeDir, tar.TypeChar, tar.TypeBlock, tar.TypeFifo, tar.TypeGNUSparse: //nolint:staticcheck // old archives have TypeRegA
	case tar.TypeLink:
		if err := c.checkName("link target", h.Linkname); err != nil {
			return err
		}
	default:
		return fault.Invalid("entry %q has an unknown type %q", h.Name, h.Typeflag)
	}
	if len(h.Linkname) > c.limits.NameLen {
		return fault.Invalid("the link of entry %.64q has more than %d bytes", h.Name, c.limits.NameLen)
	}
	if inRoot(h.Name) == "." && h.Typeflag != tar.TypeDir {
		return fault.Invalid("entry %q would take the place of the root folder", h.Name)
	}
	if hidden, ok := strings.CutPrefix(path.Base(h.Name), ".wh."); ok && (hidden == "" || hidden == "." || hidden == "..") {
		return fault.Invalid("entry %q hides what is not inside", h.Name)
	}
	if tarfile.IsSparse(h) { // an unpacker may write it all
		if err := c.budget.Sparse(h.Name, h.Size); err != nil {
			return err
		}
	}
	return c.accountEntry(h)
}

// accountEntry tells the budget what the unpacker will do with an entry.
func (c *checker) accountEntry(h *tar.Header) error {
	link := h.Linkname
	if h.Typeflag == tar.TypeLink {
		link = inRoot(link)
	}
	return c.names.Enter(inRoot(h.Name), h.Typeflag, link)
}

func (c *checker) checkName(what, name string) error {
	switch {
	case len(name) > c.limits.NameLen:
		return fault.Invalid("the %s of an entry has more than %d bytes: %.64q…", what, c.limits.NameLen, name)
	case name == "":
		return fault.Invalid("the %s of an entry is empty", what)
	case strings.ContainsRune(name, 0):
		return fault.Invalid("the %s %q holds a zero byte", what, name)
	case strings.Count(name, "/") > c.limits.Depth:
		return fault.Invalid("the %s %.64q… is more than %d folders deep", what, name, c.limits.Depth)
	}
	if clean := inRoot(name); clean == ".." || strings.HasPrefix(clean, "../") {
		return fault.Invalid("the %s %q leads out of the archive's root", what, name)
	}
	return nil
}

// inRoot returns a name as it is meant below the root: absolute names count from there.
func inRoot(name string) string {
	return path.Clean("./" + strings.TrimLeft(name, "/"))
}
