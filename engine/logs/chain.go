package logs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"moss/engine/fault"
)

// A rotation renames several files. chainPause is how long to wait for its end, chainTries how often: a crash can leave
// a gap in the names for good.
const (
	chainPause = time.Millisecond
	chainTries = 50
)

// openChain opens the files of a log that are newer than the one of the inode after (0: all), the oldest first, as they
// are at one moment between two rotations. The caller closes them.
func openChain(ctx context.Context, path string, after uint64) ([]logFile, error) {
	for try := 1; ; try++ {
		chain, whole, err := openFiles(path, after)
		if err != nil {
			return nil, err
		}
		if whole && isUnchanged(chain) || try == chainTries {
			slices.Reverse(chain)
			return closeDuplicates(chain), nil
		}
		closeFiles(chain)
		select {
		case <-time.After(chainPause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// openFiles opens what is there, the newest first, until it meets the file after. whole is false if a name is missing
// between others.
func openFiles(path string, after uint64) (chain []logFile, whole bool, err error) {
	whole = true
	missing := 0
	for n := 0; missing < 2; n++ { // a rotation and a crash each leave a gap of one name
		f, err := openLogFile(path, n)
		if errors.Is(err, fs.ErrNotExist) {
			missing++
			continue
		}
		if err != nil {
			closeFiles(chain)
			return nil, false, fmt.Errorf("read log: %w", err)
		}
		if missing > 0 {
			whole = false
		}
		missing = 0
		if after != 0 && f.inode == after {
			closeFiles([]logFile{f})
			return chain, whole, nil
		}
		chain = append(chain, f)
	}
	if len(chain) == 0 {
		if _, err := os.Stat(filepath.Dir(path)); errors.Is(err, fs.ErrNotExist) {
			return nil, false, fault.NotFound("no log %s", path)
		}
	}
	return chain, whole, nil
}

// isUnchanged reports whether the names still stand for the opened files.
func isUnchanged(chain []logFile) bool {
	for _, f := range chain {
		opened, err := f.file.Stat()
		if err != nil {
			return false
		}
		now, err := os.Stat(f.name)
		if err != nil || !os.SameFile(opened, now) {
			return false
		}
	}
	return true
}

// closeDuplicates closes files that were met twice because a rotation went on under the last try.
func closeDuplicates(chain []logFile) []logFile {
	var seen []fs.FileInfo
	return slices.DeleteFunc(chain, func(f logFile) bool {
		info, err := f.file.Stat()
		if err != nil || slices.ContainsFunc(seen, func(s fs.FileInfo) bool { return os.SameFile(s, info) }) {
			_ = f.file.Close() // only read from
			return true
		}
		seen = append(seen, info)
		return false
	})
}

func closeFiles(files []logFile) {
	for _, f := range files {
		_ = f.file.Close() // only read from
	}
}
