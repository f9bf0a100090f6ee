package tree

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// maxOpen is how many folders of one tree are open at a time. Hardly any real tree is deeper.
const maxOpen = 16

// ErrMoved is the error for a folder that was moved elsewhere while the files below it were looked at.
var ErrMoved = errors.New("a folder was moved meanwhile")

// inode names a file whatever its name.
type inode struct{ dev, ino uint64 }

func inodeOf(st *unix.Stat_t) inode { return inode{dev: st.Dev, ino: st.Ino} }

// Ladder is the way from a root folder down to the current one. Only the lowest levels are open; those above are opened
// again by "..", which must lead to the folder that was left. The zero value has no level.
type Ladder struct {
	levels []rung
	first  int // index of the first open level; all below it are open as well
}

type rung struct {
	id inode
	fd int
}

// Current returns the descriptor of the lowest level.
func (l *Ladder) Current() int { return l.levels[len(l.levels)-1].fd }

// Down makes an open folder the lowest level, which the ladder closes from then on.
func (l *Ladder) Down(fd int) error {
	var st unix.Stat_t
	return l.pushLevel(fd, &st)
}

// pushLevel is Down, and tells what the folder is.
func (l *Ladder) pushLevel(fd int, st *unix.Stat_t) error {
	if err := unix.Fstat(fd, st); err != nil {
		unix.Close(fd) //nolint:errcheck // only read
		return err
	}
	l.levels = append(l.levels, rung{id: inodeOf(st), fd: fd})
	if len(l.levels)-l.first > maxOpen {
		unix.Close(l.levels[l.first].fd) //nolint:errcheck // only read
		l.levels[l.first].fd = -1
		l.first++
	}
	return nil
}

// openAbove returns the descriptor of the level above the lowest one, and whether it had to be opened again.
func (l *Ladder) openAbove() (fd int, again bool, err error) {
	at := len(l.levels) - 2
	if at >= l.first {
		return l.levels[at].fd, false, nil
	}
	fd, err = unix.Openat(l.Current(), "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, false, fmt.Errorf("open the folder above: %w", err)
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	if err == nil && inodeOf(&st) != l.levels[at].id {
		err = ErrMoved
	}
	if err != nil {
		unix.Close(fd) //nolint:errcheck // only read
		return -1, false, err
	}
	l.levels[at].fd, l.first = fd, at
	return fd, true, nil
}

// Up leaves the lowest level for the one above.
func (l *Ladder) Up() error {
	if len(l.levels) > 1 {
		if _, _, err := l.openAbove(); err != nil {
			return err
		}
	}
	l.popLevel()
	return nil
}

// popLevel leaves the lowest level. The level above must be open, see openAbove, unless it is the last one.
func (l *Ladder) popLevel() {
	last := len(l.levels) - 1
	unix.Close(l.levels[last].fd) //nolint:errcheck // only read
	l.levels = l.levels[:last]
}

// Close leaves all levels.
func (l *Ladder) Close() {
	for _, r := range l.levels[l.first:] {
		unix.Close(r.fd) //nolint:errcheck // only read
	}
	l.levels, l.first = nil, 0
}

const folderFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC

// openFolder opens a folder in an open one; unless mounts says so, none that another file system is mounted on (EXDEV).
func openFolder(dir int, name string, mounts bool) (int, error) {
	resolve := uint64(unix.RESOLVE_NO_SYMLINKS)
	if !mounts {
		resolve |= unix.RESOLVE_NO_XDEV
	}
	return Openat2(dir, name, folderFlags, resolve)
}

// maxShown is how many bytes of a name or path an error shows.
const maxShown = 128

// Short returns a name or path as an error shows it: containers make paths of any length.
func Short(path string) string {
	if len(path) <= maxShown {
		return path
	}
	return path[:maxShown/2] + "…" + path[len(path)-maxShown/2:]
}
