package storage

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// topdirFlag is EXT4_TOPDIR_FL of the kernel: the folders in a folder with it have nothing to do with each other.
const topdirFlag = 0x20000

// spreadStaging has ext4 put each staged layer into another part of the disk. A file system that removed thousands of files a
// moment ago does not use their inodes again for minutes, and looks at each of them again for every file that is made
// beside them: layers that follow on removed ones take ten times as long without this. Other file systems know no such
// flag, and nothing depends on it.
func spreadStaging(root string) {
	dir := filepath.Join(root, driverOverlay, "staging")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return // the library makes it, or says why it cannot
	}
	f, err := os.Open(dir)
	if err != nil {
		return
	}
	defer f.Close() //nolint:errcheck // opened for reading
	flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err != nil || flags&topdirFlag != 0 {
		return
	}
	_ = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(flags|topdirFlag))
}
