package tree

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
)

// tries is how often something may appear where something was just removed.
const tries = 8

// makeEntry makes an entry, after what is there was removed if it must be. The error of what cannot be made is Go's or, of what
// must not be replaced, fault.Invalid.
func (w *Writer) makeEntry(at spot, folder bool, try func() error) error {
	for range tries {
		err := try()
		if err == nil {
			return nil
		}
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if errors.Is(err, unix.ENAMETOOLONG) {
			return fault.Invalid("the name %.64q… is too long", at.name)
		}
		if !errors.Is(err, unix.EEXIST) {
			return &os.PathError{Op: "make", Path: at.name, Err: err}
		}
		if err := w.clearSpot(at, folder); err != nil {
			return err
		}
	}
	return fault.Internal("make %.64q: it is made again and again", at.name)
}

// clearSpot removes what is in the place of an entry; folder says whether the entry is one.
func (w *Writer) clearSpot(at spot, folder bool) error {
	var st unix.Stat_t
	err := unix.Fstatat(at.dir, at.base, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "look at", Path: at.name, Err: err}
	}
	there := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if w.opt.KeepKinds && there != folder {
		if there {
			return fault.Invalid("cannot overwrite directory %.64q with non-directory", at.name)
		}
		return fault.Invalid("cannot overwrite non-directory %.64q with directory", at.name)
	}
	if there {
		w.stale = true
		err = Remover{}.Remove(at.dir, at.base)
	} else {
		err = unix.Unlinkat(at.dir, at.base, 0)
	}
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return &os.PathError{Op: "remove", Path: at.name, Err: err}
	}
	return nil
}
