package rootless

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// RunDir returns the folder for what lives no longer than this boot, made and checked: owned by the caller and closed
// to everybody else. want is the configured one; if it is empty the chain is $XDG_RUNTIME_DIR/moss, /run/user/UID/moss,
// $TMPDIR/moss-UID, /tmp/moss-UID. why says which link was taken when it is not the first.
func RunDir(want string, environ func(string) string) (dir, why string, err error) {
	if want != "" {
		return want, "", secureRunDir(want)
	}
	uid := strconv.Itoa(os.Geteuid())
	switch base := environ("XDG_RUNTIME_DIR"); {
	case base == "":
		why = "XDG_RUNTIME_DIR is not set; "
	case !filepath.IsAbs(base):
		why = "XDG_RUNTIME_DIR is not an absolute path; "
	default:
		problem := ownedPrivate(base)
		if problem == nil {
			dir = filepath.Join(base, "moss")
			return dir, "", secureRunDir(dir)
		}
		why = fmt.Sprintf("XDG_RUNTIME_DIR: %v; ", problem)
	}
	if base := filepath.Join("/run/user", uid); ownedPrivate(base) == nil {
		dir = filepath.Join(base, "moss")
		return dir, why + "using " + dir, secureRunDir(dir)
	}
	base := environ("TMPDIR")
	if !filepath.IsAbs(base) {
		base = "/tmp"
	}
	if err := keptApart(base); err != nil {
		return "", "", fmt.Errorf("%stemporary folder: %w", why, err)
	}
	dir = filepath.Join(base, "moss-"+uid)
	return dir, why + "using " + dir, secureRunDir(dir)
}

// maxRunDir is how long in bytes the path of the folder of this boot may be: the kernel lets that of a socket have 107.
const maxRunDir = 107 - len("/rootlesskit/.ports.sock")

// secureRunDir is secureDir for the folder of this boot.
func secureRunDir(dir string) error {
	if len(dir) > maxRunDir {
		return fmt.Errorf("the path %s has %d bytes: with more than %d there is no room for the sockets in it", dir, len(dir),
			maxRunDir)
	}
	return secureDir(dir)
}

// keptApart refuses a folder in which another user could put something in the place of what is ours.
func keptApart(dir string) error {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: dir, Err: err}
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return fmt.Errorf("%s is not a folder", dir)
	case st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to uid %d, neither to root nor to uid %d", dir, st.Uid, os.Geteuid())
	case st.Mode&0o022 != 0 && st.Mode&unix.S_ISVTX == 0:
		return fmt.Errorf("%s has mode %04o; others can rename what is in it (chmod +t)", dir, st.Mode&0o7777)
	}
	return nil
}

// secureDir makes dir (mode 0700) unless it is there, and refuses one that somebody else owns or can enter. The last
// part is never followed through a link, since the parent may be /tmp.
func secureDir(dir string) error {
	if !filepath.IsAbs(dir) {
		return fmt.Errorf("folder %s: must be an absolute path", dir)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return ownedPrivate(dir)
}

// ownedPrivate reports why dir is not a folder that only the caller can enter; nil if it is one.
func ownedPrivate(dir string) error {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: dir, Err: err}
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return fmt.Errorf("%s is not a folder", dir)
	case int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to uid %d, not to uid %d", dir, st.Uid, os.Geteuid())
	case st.Mode&0o077 != 0:
		return fmt.Errorf("%s has mode %04o; others must not enter it (chmod 700)", dir, st.Mode&0o7777)
	}
	return nil
}
