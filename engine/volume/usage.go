package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"moss/engine/fault"
	"moss/engine/prune"
	"moss/engine/tree"
)

// Usage is what one volume takes on the disk, and how many containers use it, running or not.
type Usage struct {
	Volume *Volume
	Size   int64 // bytes of its files, one with several names counted once; -1: not known
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
		if stop := ctx.Err(); stop != nil {
			return nil, fmt.Errorf("size of volume %s: %w", v.Name, stop)
		}
		if err != nil {
			s.opt.Log.Error().Err(err).Str("volume", v.Name).Msg("size of volume not known")
			size = -1
		}
		list = append(list, Usage{Volume: v, Size: size, Users: s.countUsers(v.Name)})
	}
	return list, nil
}

func (s *Store) countUsers(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[name]; e != nil {
		return len(e.users)
	}
	return 0
}

// Prune removes the volumes that no container uses, with label and label! among the filters, and returns their names and the
// bytes that they took. One that got a user meanwhile stays, and so does one with options: its files lie elsewhere, and the
// options are all that leads to them.
//
// One that cannot be removed holds no other back: the error names it, and what went is in the answer beside it. Errors are
// fault.Invalid (a filter) or internal.
func (s *Store) Prune(ctx context.Context, filters map[string][]string) (removed []string, reclaimed int64, err error) {
	f, err := prune.New(filters, time.Now(), prune.Label, prune.NotLabel)
	if err != nil {
		return nil, 0, err
	}
	volumes, err := s.List(map[string][]string{"dangling": {"true"}})
	if err != nil {
		return nil, 0, err
	}
	var failed []error
	for _, v := range volumes {
		if len(v.Options) > 0 || !f.Takes(v.Labels, v.CreatedAt) {
			continue
		}
		size, sizeErr := diskSize(ctx, v.Mountpoint)
		if err := ctx.Err(); err != nil {
			return removed, reclaimed, errors.Join(append(failed, err)...)
		}
		err := s.Remove(ctx, v.Name)
		switch {
		case fault.Is(err, fault.Conflict), fault.Is(err, fault.NotFound):
			continue
		case err != nil:
			failed = append(failed, err)
			continue
		}
		removed = append(removed, v.Name)
		if sizeErr == nil { // a volume whose files cannot be read goes all the same
			reclaimed += size
		}
	}
	return removed, reclaimed, errors.Join(failed...)
}

// diskSize returns the bytes of the files below a volume's folder. It follows no link and enters no mount: containers may
// change the files meanwhile.
func diskSize(ctx context.Context, dir string) (int64, error) {
	if mounted, err := isMounted(dir); err != nil || mounted {
		return 0, err
	}
	return tree.Size(ctx, dir)
}
