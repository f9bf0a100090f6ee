package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/record"
)

// Hold makes a container a user of a volume, and makes the volume if there is none. made tells whether it did: it is then
// the caller's to remove again, or to Settle. Holding twice is no error; one Release is enough.
//
// The error kinds are those of Create.
func (s *Store) Hold(ctx context.Context, opt CreateOptions, containerID string) (v *Volume, made bool, err error) {
	return s.createFor(ctx, opt, containerID)
}

// Join makes a container a user of a volume that is there. fault.NotFound if it is not.
func (s *Store) Join(ctx context.Context, name, containerID string) (*Volume, error) {
	e, err := s.acquireName(ctx, name)
	if err != nil {
		return nil, err
	}
	defer s.releaseName(name, e)
	if v := s.holdVolume(e, containerID); v != nil {
		return v, nil
	}
	return nil, NoSuch(name)
}

// Settle says that the container a volume was made for is there for good: a crash leaves the volume alone from now on.
func (s *Store) Settle(name string) error {
	err := os.Remove(filepath.Join(s.opt.Dir, name, pendingName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("settle volume %s: %w", name, err)
	}
	return nil
}

// isSoft reports whether a new volume can be made again from what is known of a container, which is that nobody named it, too.
func isSoft(v *Volume, containerID string) bool {
	known := 0
	if _, ok := v.Labels[LabelAnonymous]; ok {
		known = 1
	}
	return containerID != "" && len(v.Options)+len(v.Labels) == known
}

// Persist brings a volume to the disk that was made for a container which is about to go: nobody would make it again then.
// One that is gone is no error.
func (s *Store) Persist(ctx context.Context, name string) error {
	e, err := s.acquireName(ctx, name)
	if err != nil {
		return err
	}
	defer s.releaseName(name, e)
	s.mu.Lock()
	v, soft := e.volume, e.soft
	s.mu.Unlock()
	if v == nil || !soft {
		return nil
	}
	if err := errors.Join(record.Put(filepath.Join(s.opt.Dir, name, recordName), v), record.SyncDir(s.opt.Dir)); err != nil {
		return fmt.Errorf("bring volume %s to the disk: %w", name, err)
	}
	s.mu.Lock()
	e.soft = false
	s.mu.Unlock()
	return nil
}

// Release ends a container's use of a volume. Releasing what is not held is no error.
func (s *Store) Release(name, containerID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[name]
	if e == nil {
		return
	}
	delete(e.users, containerID)
	if e.waiting == 0 && e.volume == nil && len(e.users) == 0 {
		delete(s.entries, name)
	}
}

// Mount readies a volume, or the file or folder of it that subpath names, for a container that starts, and returns what to
// bind. A volume of tmpfs is filled with nothing the first time and stays mounted until the last of its containers has ended.
//
// fault.NotFound if there is no such volume, fault.Invalid if what its options name or the subpath is not there.
func (s *Store) Mount(ctx context.Context, name, containerID, subpath string) (Source, error) {
	e, err := s.acquireName(ctx, name)
	if err != nil {
		return Source{}, err
	}
	defer s.releaseName(name, e)
	v := s.holdVolume(e, "")
	if v == nil {
		return Source{}, NoSuch(name)
	}
	src := Source{Dir: v.Mountpoint, ReadOnly: v.backing.readOnly, Flags: v.backing.flags}
	switch v.backing.kind {
	case kindFolder:
	case kindBind:
		src.Dir = v.backing.device
		_, err := os.Stat(src.Dir)
		if errors.Is(err, fs.ErrNotExist) {
			return Source{}, fault.Invalid("mount volume %s: its device %s does not exist", name, src.Dir)
		}
		if err != nil {
			return Source{}, fault.Invalid("mount volume %s: its device: %v", name, err)
		}
	case kindTmpfs:
		if err := mountTmpfs(v); err != nil {
			return Source{}, fmt.Errorf("mount volume %s: %w", name, err)
		}
	}
	if subpath != "" {
		if src.Dir, err = s.mountPart(v, src.Dir, containerID, subpath); err != nil {
			return Source{}, fmt.Errorf("mount volume %s: %w", name, err)
		}
	}
	s.mu.Lock()
	e.mounted[containerID] = true
	s.mu.Unlock()
	return src, nil
}

func mountTmpfs(v *Volume) error {
	mounted, err := isMounted(v.Mountpoint)
	if err != nil || mounted {
		return err
	}
	err = unix.Mount(v.backing.device, v.Mountpoint, "tmpfs", 0, v.backing.data)
	if errors.Is(err, unix.EINVAL) { // such as a uid that the user does not have
		return fault.Invalid("the kernel does not take its options %q", v.backing.data)
	}
	return err
}

// isMounted reports whether something is mounted on a folder.
func isMounted(dir string) (bool, error) {
	var inside, outside unix.Stat_t
	if err := errors.Join(unix.Lstat(dir, &inside), unix.Lstat(filepath.Dir(dir), &outside)); err != nil {
		return false, err
	}
	return inside.Dev != outside.Dev, nil
}

// Unmount says that a container has ended. What no running container uses is taken down. It need not have been mounted.
func (s *Store) Unmount(ctx context.Context, name, containerID string) error {
	e, err := s.acquireName(ctx, name)
	if err != nil {
		return err
	}
	defer s.releaseName(name, e)
	s.mu.Lock()
	delete(e.mounted, containerID)
	v, left := e.volume, len(e.mounted)
	s.mu.Unlock()
	if v == nil {
		return nil
	}
	err = s.leaveParts(v, func(id string) bool { return id != containerID })
	if left == 0 {
		err = errors.Join(err, s.unmountTmpfs(v))
	}
	if err != nil {
		return fmt.Errorf("unmount volume %s: %w", name, err)
	}
	return nil
}

// unmountTmpfs unmounts a volume in memory that no container runs with any more; it does nothing for other volumes.
func (s *Store) unmountTmpfs(v *Volume) error {
	if v.backing.kind != kindTmpfs {
		return nil
	}
	mounted, err := isMounted(v.Mountpoint)
	if err != nil || !mounted {
		return err
	}
	return unix.Unmount(v.Mountpoint, unix.MNT_DETACH)
}

// Restore tells a store that was just opened what containers there are: the volumes that each one uses, by its id, and
// which of them run. Volumes made for a container that never came into being go.
func (s *Store) Restore(ctx context.Context, users map[string][]string, running func(containerID string) bool) error {
	s.mu.Lock()
	for containerID, names := range users {
		for _, name := range names {
			e := s.entries[name]
			if e == nil { // lost; the container's next start makes it again
				e = newEntry(nil)
				s.entries[name] = e
			}
			e.users[containerID] = true
			if running(containerID) {
				e.mounted[containerID] = true
			}
		}
	}
	var all []*Volume
	idle := map[string]bool{}
	for name, e := range s.entries {
		if e.volume != nil {
			all = append(all, e.volume)
			idle[name] = len(e.mounted) == 0
		}
	}
	s.mu.Unlock()
	var errs []error
	for _, v := range all {
		errs = append(errs, s.leaveParts(v, running))
		if idle[v.Name] {
			errs = append(errs, s.unmountTmpfs(v))
		}
		errs = append(errs, s.restorePending(ctx, v.Name, users))
	}
	return errors.Join(errs...)
}

// restorePending settles a volume whose container is there, or one that others use, and removes the rest.
func (s *Store) restorePending(ctx context.Context, name string, users map[string][]string) error {
	raw, err := os.ReadFile(filepath.Join(s.opt.Dir, name, pendingName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("restore volume %s: %w", name, err)
	}
	if _, known := users[string(raw)]; !known {
		err := s.Remove(ctx, name)
		if !fault.Is(err, fault.Conflict) {
			return err
		}
	}
	return s.Settle(name)
}
