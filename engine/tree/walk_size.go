package tree

import (
	"context"
	"os"

	"golang.org/x/sys/unix"
)

// Size returns the bytes of the files below a folder, one with several names counted once, and none for folders. The
// folder is opened by its path: nobody else may shape that. It enters no mount.
func Size(ctx context.Context, path string) (total int64, err error) {
	fd, err := unix.Open(path, folderFlags, 0)
	if err != nil {
		return 0, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd) //nolint:errcheck // only read
	seen := map[inode]struct{}{}
	err = Walk(ctx, fd, Options{}, Visitor{Entry: func(e *Entry) (bool, error) {
		if e.IsDir() {
			return true, nil
		}
		if e.Stat.Nlink > 1 {
			id := inodeOf(&e.Stat)
			if _, known := seen[id]; known {
				return false, nil
			}
			seen[id] = struct{}{}
		}
		total += e.Stat.Size
		return false, nil
	}})
	return total, err
}
