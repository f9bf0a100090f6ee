package tree

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/tarfile"
)

const (
	maxTimes = 50_000    // folders whose times wait for the end; those of later ones are set at once
	pieceLen = 256 << 10 // bytes written at once
)

// WriterOptions say where a Writer writes, and how. Root, Dest and Budget are needed.
type WriterOptions struct {
	Root   *os.File // O_PATH: what no name and no link leads out of
	Dest   *os.File // O_PATH: the folder that names begin in, in Root
	At     string   // where Dest is in Root: absolute and clean
	Budget *Budget

	// Owner returns what an entry's owner is to the engine, and whether that is the same user and group; nil: the same
	// numbers, and those that there are not stay the root's.
	Owner func(uid, gid int) (engineUID, engineGID int, same bool)
	// Foreign reports whether an open file lies where there is no data, such as proc: nothing is written there. It may be nil.
	Foreign   func(fd int) (bool, error)
	KeepKinds bool // refuse to replace a folder by something else, or something else by a folder
}

// Writer creates entries below an open folder, in which others may change every name meanwhile. Names are resolved in the
// root, so that links that are there already are followed, and no link leads out. What an entry names takes the place of
// what is there; a folder keeps what else is in it. Devices are left out: a user cannot make them.
type Writer struct {
	opt     WriterOptions
	folders map[string]*parent // open ones, by clean name
	times   []folderTime
	stale   bool // a folder was replaced: names may mean other folders than those that are open
	buf     []byte
}

// folderTime is when a folder says that it was changed. It is set last: what is written into the folder changes it.
type folderTime struct {
	name string
	at   time.Time
}

// NewWriter returns a writer. Its Close ends it.
func NewWriter(opt WriterOptions) *Writer {
	return &Writer{opt: opt, folders: map[string]*parent{}, buf: make([]byte, pieceLen)}
}

// Close closes what the writer keeps open. Folders that were written get their times from Settle alone.
func (w *Writer) Close() { w.closeFolders() }

// Write creates an entry. Errors are fault.Invalid (the entry, the budget, what must not be replaced), those of content and of
// ctx, and the kernel's.
func (w *Writer) Write(ctx context.Context, h *tar.Header, content io.Reader) error {
	if err := w.opt.Budget.Entry(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := tarfile.CleanName("name", h.Name, "destination")
	if err != nil {
		return err
	}
	if name == "." {
		if h.Typeflag != tar.TypeDir {
			return fault.Invalid("entry %.64q would take the place of the destination", h.Name)
		}
		return nil // the destination stays as it is
	}
	if w.stale {
		w.closeFolders()
		w.stale = false
	}
	at, err := w.parentFolder(path.Dir(name), true)
	if err != nil {
		return err
	}
	where := spot{dir: at.fd, base: path.Base(name), name: name}
	switch h.Typeflag {
	case tar.TypeDir:
		if err := w.opt.Budget.Depth(at.depth + 1); err != nil {
			return err
		}
		return w.writeFolder(where, h)
	case tar.TypeReg, tar.TypeRegA, tar.TypeGNUSparse, tar.TypeCont: //nolint:staticcheck // old archives have TypeRegA
		if tarfile.IsSparse(h) {
			if err := w.opt.Budget.Sparse(h.Name, h.Size); err != nil {
				return err
			}
		}
		return w.writeFile(ctx, where, h, content)
	case tar.TypeSymlink:
		return w.writeSymlink(where, h)
	case tar.TypeLink:
		return w.writeHardlink(where, h)
	case tar.TypeFifo:
		return w.writeFifo(where, h)
	case tar.TypeChar, tar.TypeBlock:
		return nil // a user cannot make them
	default:
		return fault.Invalid("entry %.64q has an unknown type %q", h.Name, h.Typeflag)
	}
}

// Settle gives the folders their times. One that is gone or replaced meanwhile has none to get.
func (w *Writer) Settle() {
	for _, t := range w.times {
		at, err := w.parentFolder(t.name, false)
		if err != nil {
			continue
		}
		setTimes(at.fd, ".", t.at) //nolint:errcheck // see above
	}
}

func (w *Writer) isForeign(fd int) (bool, error) {
	if w.opt.Foreign == nil {
		return false, nil
	}
	return w.opt.Foreign(fd)
}

// isSwapped reports whether something was not what it had been a moment before.
func isSwapped(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) ||
		errors.Is(err, unix.ENOTEMPTY)
}

// depthOf returns how many folders a clean name leads through, itself included.
func depthOf(name string) int {
	if name = strings.Trim(name, "/"); name == "" || name == "." {
		return 0
	}
	return strings.Count(name, "/") + 1
}
