package volume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/prune"
)

// Usage is what one volume takes on the disk, and how many containers use it, running or not.
type Usage struct {
	Volume *Volume
	Size   int64 // bytes of its files, one with several names counted once
	Users  int
}

// Usage returns what every volume takes, by name. What is mounted in a volume's place counts nothing: it is not its own.
func (s *Store) Usage(ctx context.Context) ([]Usage, error) {
	volumes, err := s.List(nil)
	if err != nil {
		return nil, err
	}
	list := make([]Usage, 0, len(volumes))
	for _, v := range volumes {
		size, err := diskSize(ctx, v.Mountpoint)
		if errors.Is(err, os.ErrNotExist) {
			continue // removed since it was listed
		}
		if err != nil {
			return nil, fmt.Errorf("size of volume %s: %w", v.Name, err)
		}
		list = append(list, Usage{Volume: v, Size: size, Users: s.users(v.Name)})
	}
	return list, nil
}

func (s *Store) users(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[name]; e != nil {
		return len(e.users)
	}
	return 0
}

// Prune removes the volumes that no container uses, with label and label! among the filters, and returns their names and the
// bytes that they took. One that got a user meanwhile stays.
//
// What was done before an error is in the answer. Errors are fault.Invalid (a filter) or internal.
func (s *Store) Prune(ctx context.Context, filters map[string][]string) (removed []string, reclaimed int64, err error) {
	f, err := prune.New(filters, time.Now(), prune.Label, prune.NotLabel)
	if err != nil {
		return nil, 0, err
	}
	volumes, err := s.List(map[string][]string{"dangling": {"true"}})
	if err != nil {
		return nil, 0, err
	}
	for _, v := range volumes {
		if !f.Takes(v.Labels, v.CreatedAt) {
			continue
		}
		size, sizeErr := diskSize(ctx, v.Mountpoint)
		if err := ctx.Err(); err != nil {
			return removed, reclaimed, err
		}
		err := s.Remove(ctx, v.Name)
		switch {
		case fault.Is(err, fault.Conflict), fault.Is(err, fault.NotFound):
			continue
		case err != nil:
			return removed, reclaimed, err
		}
		removed = append(removed, v.Name)
		if sizeErr == nil { // a volume whose files cannot be read goes all the same
			reclaimed += size
		}
	}
	return removed, reclaimed, nil
}

// diskSize returns the bytes of the files below a volume's folder. It follows no link and enters no mount: containers may
// change the files meanwhile.
func diskSize(ctx context.Context, dir string) (int64, error) {
	folder, err := os.OpenFile(dir, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer folder.Close() //nolint:errcheck // only read
	var home unix.Stat_t
	if err := unix.Lstat(dir+"/..", &home); err != nil {
		return 0, err
	}
	m := &measure{dev: home.Dev, seen: map[uint64]bool{}}
	err = m.folder(ctx, folder, 0)
	return m.total, err
}

// measure adds up files.
type measure struct {
	dev   uint64
	seen  map[uint64]bool // inodes of files with several names
	total int64
}

func (m *measure) folder(ctx context.Context, dir *os.File, depth int) error {
	var own unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &own); err != nil {
		return err
	}
	if own.Dev != m.dev {
		return nil
	}
	if depth > maxDepth {
		return fmt.Errorf("%s: folders nest more than %d deep", dir.Name(), maxDepth)
	}
	for {
		names, err := dir.Readdirnames(256)
		for _, name := range names {
			if err := errors.Join(ctx.Err(), m.entry(ctx, dir, name, depth)); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (m *measure) entry(ctx context.Context, dir *os.File, name string, depth int) error {
	var st unix.Stat_t
	err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil // removed meanwhile
	}
	if err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		if st.Nlink > 1 && m.seen[st.Ino] {
			return nil
		}
		if st.Nlink > 1 {
			m.seen[st.Ino] = true
		}
		m.total += st.Size
		return nil
	}
	below, err := openAt(dir, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil // replaced meanwhile
	}
	if err != nil {
		return err
	}
	defer below.Close() //nolint:errcheck // only read
	return m.folder(ctx, below, depth+1)
}
