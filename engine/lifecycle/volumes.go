package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/container"
	"moss/engine/event"
	"moss/engine/fault"
	"moss/engine/id"
	"moss/engine/tree"
	"moss/engine/volume"
)

// volumes keeps the data that outlives containers, whose ids name its users.
type volumes interface {
	Hold(ctx context.Context, opt volume.CreateOptions, containerID string) (v *volume.Volume, made bool, err error)
	Join(ctx context.Context, name, containerID string) (*volume.Volume, error)
	Settle(name string) error
	Persist(ctx context.Context, name string) error
	Release(name, containerID string)
	Remove(ctx context.Context, name string) error
	volumeMounts
}

// volumeMounts is what running containers need of volumes.
type volumeMounts interface {
	Fill(ctx context.Context, name, containerID string, open func() (*os.File, error)) error
	Mount(ctx context.Context, name, containerID, subpath string) (volume.Source, error)
	Unmount(ctx context.Context, name, containerID string) error
	Restore(ctx context.Context, users map[string][]string, running func(containerID string) bool) error
}

// addVolumes gives a container that is being made, or made anew from old, the volumes it asks for: taken over from other
// containers, found by name or made, and filled with what the image has in their places. The container's layer must be
// there. old are the mounts it has now: its anonymous volumes stay where it still asks for one.
func (m *Manager) addVolumes(ctx context.Context, r *container.Record, spec *container.Spec, old []container.Mount, back *undo) error {
	if err := checkSources(spec.Binds); err != nil {
		return err
	}
	if len(spec.Volumes)+len(spec.VolumesFrom) == 0 {
		return nil
	}
	taken, err := m.takeOver(r, spec)
	if err != nil {
		return err
	}
	for i := range spec.Volumes {
		v := &spec.Volumes[i]
		if v.Name == "" {
			v.Name = anonymousName(v.Destination, old)
		}
		hold := m.holdVolume
		if taken[v.Name] {
			hold = m.joinVolume
		}
		release, err := hold(ctx, v, r.ID)
		if err != nil {
			return fmt.Errorf("volume at %s: %w", v.Destination, err)
		}
		if !slices.ContainsFunc(old, func(m container.Mount) bool { return m.Name == v.Name }) {
			back.push(release)
		}
	}
	return m.fillVolumes(ctx, r.ID, spec)
}

// takeOver adds the mounts that VolumesFrom asks for. It returns the names of the volumes among them: they must be there.
func (m *Manager) takeOver(r *container.Record, spec *container.Spec) (names map[string]bool, err error) {
	var mounts []container.Mount
	names = map[string]bool{}
	for _, from := range spec.VolumesFrom {
		ref := strings.TrimPrefix(from.Container, "/")
		c, err := m.index.find(ref)
		if ref == r.Name || err == nil && c.id == r.ID {
			return nil, fault.Invalid("VolumesFrom: a container cannot take over its own volumes: %s", from.Container)
		}
		if err != nil {
			return nil, asInvalid(err)
		}
		for _, mount := range from.Take(c.record().Mounts) {
			mounts = append(mounts, mount)
			names[mount.Name] = true
		}
	}
	spec.TakeOver(mounts)
	return names, nil
}

// anonymousName is the name of the anonymous volume that was at a destination, else a new one.
func anonymousName(destination string, old []container.Mount) string {
	for _, m := range old {
		if m.Destination == destination && m.Anonymous {
			return m.Name
		}
	}
	return id.New()
}

// holdVolume makes the container a user of a volume, which is made if there is none. release takes both back.
func (m *Manager) holdVolume(
	ctx context.Context, v *container.VolumeMount, containerID string,
) (release func(context.Context) error, err error) {
	name := v.Name
	found, made, err := m.opt.Volumes.Hold(ctx, volumeFor(v), containerID)
	if err != nil {
		return nil, err
	}
	v.Source = found.Mountpoint
	return func(ctx context.Context) error {
		m.opt.Volumes.Release(name, containerID)
		if made {
			return m.removeVolume(ctx, name)
		}
		return nil
	}, nil
}

// volumeFor is the volume that a mount asks for where there is none yet.
func volumeFor(v *container.VolumeMount) volume.CreateOptions {
	return volume.CreateOptions{Name: v.Name, Driver: v.Driver, Options: v.Options, Labels: v.Labels}
}

// joinVolume makes the container a user of a volume that another one brings. It is not made anew if it has gone with that.
func (m *Manager) joinVolume(
	ctx context.Context, v *container.VolumeMount, containerID string,
) (release func(context.Context) error, err error) {
	name := v.Name
	found, err := m.opt.Volumes.Join(ctx, name, containerID)
	if err != nil {
		return nil, err
	}
	v.Source = found.Mountpoint
	return func(context.Context) error { m.opt.Volumes.Release(name, containerID); return nil }, nil
}

// removeVolume removes a volume unless others use it.
func (m *Manager) removeVolume(ctx context.Context, name string) error {
	err := m.opt.Volumes.Remove(ctx, name)
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Conflict) {
		return nil
	}
	return err
}

// fillVolumes copies the image's content into the container's empty volumes. The layer is mounted only if there are such.
func (m *Manager) fillVolumes(ctx context.Context, containerID string, spec *container.Spec) (err error) {
	rootfs := ""
	defer func() {
		if rootfs != "" {
			err = errors.Join(err, m.opt.Layers.Unmount(context.WithoutCancel(ctx), containerID))
		}
	}()
	for _, v := range spec.Volumes {
		if v.NoCopy {
			continue
		}
		open := func() (_ *os.File, err error) {
			if rootfs == "" {
				if rootfs, err = m.opt.Layers.Mount(ctx, containerID); err != nil {
					return nil, err
				}
			}
			return openFolder(rootfs, v.Destination)
		}
		if err := m.opt.Volumes.Fill(ctx, v.Name, containerID, open); err != nil {
			return err
		}
	}
	return nil
}

// openFolder opens a folder inside the root filesystem; fs.ErrNotExist if there is none. A link leads nowhere else, and
// something that is no folder is fault.Invalid: no volume can be mounted there.
func openFolder(rootfs, name string) (*os.File, error) {
	handle, err := tree.HandleIn(rootfs, name)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil, fault.Invalid("cannot mount volume at %s: %v", name, err)
	}
	if err != nil {
		return nil, err
	}
	defer handle.Close() //nolint:errcheck // only a handle
	info, err := handle.Stat()
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fault.Invalid("cannot mount volume over existing file, file exists %s", name)
	}
	return os.OpenFile(tree.PathOf(int(handle.Fd())), unix.O_RDONLY|unix.O_DIRECTORY, 0)
}

// settleVolumes says that the container which the volumes were made for is saved.
func (m *Manager) settleVolumes(r *container.Record) {
	for _, name := range r.VolumeNames() {
		if err := m.opt.Volumes.Settle(name); err != nil { // the next engine does
			m.opt.Log.Warn().Err(err).Str("container", r.ID).Msg("volume not settled")
		}
	}
}

// replaceVolumes gives up the volumes that a container no longer has. An anonymous one is removed if the container never
// ran: nothing can be in it. One that may hold data stays for a person to remove.
func (m *Manager) replaceVolumes(ctx context.Context, before, after *container.Record) {
	kept := after.VolumeNames()
	for _, mount := range before.Mounts {
		if mount.Name == "" || slices.Contains(kept, mount.Name) {
			continue
		}
		m.opt.Volumes.Release(mount.Name, before.ID)
		if !mount.Anonymous || !before.StartedAt.IsZero() {
			continue
		}
		if err := m.removeVolume(ctx, mount.Name); err != nil {
			m.opt.Log.Warn().Err(err).Str("container", before.ID).Msg("volume that was replaced not removed")
		}
	}
}

// dropVolumes ends the use that a container makes of volumes, for good, and removes the anonymous ones if that was asked.
func (m *Manager) dropVolumes(ctx context.Context, r *container.Record) error {
	var errs []error
	for _, mount := range r.Mounts {
		if mount.Name == "" {
			continue
		}
		goes := mount.Anonymous && r.RemoveVolumes
		if !goes {
			if err := m.opt.Volumes.Persist(ctx, mount.Name); err != nil { // the removal goes on, as on a full disk
				m.opt.Log.Warn().Err(err).Str("container", r.ID).Msg("a power cut may take a volume")
			}
		}
		m.opt.Volumes.Release(mount.Name, r.ID)
		if goes {
			errs = append(errs, m.removeVolume(ctx, mount.Name))
		}
	}
	return errors.Join(errs...)
}

// mountVolumes turns the volumes of a container that starts into binds. One that is gone is made again, empty.
func (m *Manager) mountVolumes(ctx context.Context, containerID string, spec *container.Spec, back *undo) error {
	for _, v := range spec.Volumes {
		src, err := m.opt.Volumes.Mount(ctx, v.Name, containerID, v.Subpath)
		if fault.Is(err, fault.NotFound) {
			m.opt.Log.Warn().Str("container", containerID).Str("volume", v.Name).Msg("volume is gone: an empty one takes its place")
			if _, _, err := m.opt.Volumes.Hold(ctx, volumeFor(&v), containerID); err != nil {
				return err
			}
			if err := m.opt.Volumes.Settle(v.Name); err != nil {
				return err
			}
			src, err = m.opt.Volumes.Mount(ctx, v.Name, containerID, v.Subpath)
		}
		if err != nil {
			return err
		}
		back.push(func(ctx context.Context) error { return m.opt.Volumes.Unmount(ctx, v.Name, containerID) })
		spec.Binds = append(spec.Binds, container.Bind{
			Source: src.Dir, Destination: v.Destination, ReadOnly: v.ReadOnly || src.ReadOnly, Propagation: "rprivate", Mode: v.Mode,
			Flags: src.Flags,
		})
	}
	return nil
}

// unmountVolumes says that the container has ended.
func (m *Manager) unmountVolumes(ctx context.Context, r *container.Record) error {
	names := r.VolumeNames()
	errs := make([]error, 0, len(names))
	for _, name := range names {
		errs = append(errs, m.opt.Volumes.Unmount(ctx, name, r.ID))
	}
	return errors.Join(errs...)
}

// restoreVolumes tells the store of volumes who uses what. A folder without a readable record counts as a container too:
// what was made for it is not to be lost.
func (m *Manager) restoreVolumes(ctx context.Context, all []*ctr, running func(containerID string) bool) error {
	users := map[string][]string{}
	entries, err := os.ReadDir(filepath.Join(m.opt.Root, "containers"))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		users[entry.Name()] = nil
	}
	for _, c := range all {
		users[c.id] = c.record().VolumeNames()
	}
	return m.opt.Volumes.Restore(ctx, users, running)
}

// publishVolumes tells that a container's volumes were mounted, or no longer are.
func (m *Manager) publishVolumes(action string, r *container.Record) {
	for _, mount := range r.Mounts {
		if mount.Name == "" {
			continue
		}
		attributes := map[string]string{"container": r.ID, "driver": mount.Driver}
		if action == "mount" {
			attributes["destination"], attributes["propagation"] = mount.Destination, mount.Propagation
			attributes["read/write"] = strconv.FormatBool(mount.RW)
		}
		m.opt.Events.Publish(event.Event{
			Type: event.TypeVolume, Action: action, ID: mount.Name, Attributes: attributes, Time: time.Now(),
		})
	}
}
