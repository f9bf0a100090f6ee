package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"moss/engine/container"
	"moss/engine/event"
	"moss/engine/fault"
	"moss/engine/id"
	"moss/engine/tree"
	"moss/engine/volume"
)

// volumeStore keeps the data that outlives containers, whose ids name its users.
type volumeStore interface {
	Hold(ctx context.Context, opt volume.CreateOptions, containerID string) (v *volume.Volume, made bool, err error)
	Join(ctx context.Context, name, containerID string) (*volume.Volume, error)
	Settle(name string) error
	Persist(ctx context.Context, name string) error
	Release(name, containerID string)
	Remove(ctx context.Context, name string) error
}

// volumeMounts is what running containers need of volumes.
type volumeMounts interface {
	Fill(ctx context.Context, name, containerID string, open func() (*os.File, error)) error
	Mount(ctx context.Context, name, containerID, subpath string) (volume.Source, error)
	Unmount(ctx context.Context, name, containerID string) error
	Restore(ctx context.Context, users map[string][]string, running func(containerID string) bool) error
}

// volumes makes containers users of volumes, and mounts these for them.
type volumes struct {
	store  volumeStore
	mounts volumeMounts
	layers layerMounts // for what the image has in the volumes' places
	index  *index
	dir    string // in which each container has a folder
	events events
	log    zerolog.Logger
}

// addVolumes gives a container that is being made, or made anew from old, the volumes it asks for: taken over from other
// containers, found by name or made, and filled with what the image has in their places. The container's layer must be
// there. old are the mounts it has now: its anonymous volumes stay where it still asks for one.
func (vs *volumes) addVolumes(ctx context.Context, r *container.Record, spec *container.Spec, old []container.Mount,
	back *undo,
) error {
	if err := checkSources(spec.Binds); err != nil {
		return err
	}
	if len(spec.Volumes)+len(spec.VolumesFrom) == 0 {
		return nil
	}
	taken, err := vs.takeOver(r, spec)
	if err != nil {
		return err
	}
	for i := range spec.Volumes {
		v := &spec.Volumes[i]
		if v.Name == "" {
			v.Name = anonymousName(v.Destination, old)
		}
		release, err := vs.holdVolume(ctx, v, r.ID, taken[v.Name])
		if err != nil {
			return fmt.Errorf("volume at %s: %w", v.Destination, err)
		}
		if !slices.ContainsFunc(old, func(m container.Mount) bool { return m.Name == v.Name }) {
			back.push(release)
		}
	}
	return vs.fillVolumes(ctx, r.ID, spec)
}

// takeOver adds the mounts that VolumesFrom asks for. It returns the names of the volumes among them: they must be there.
func (vs *volumes) takeOver(r *container.Record, spec *container.Spec) (names map[string]bool, err error) {
	var mounts []container.Mount
	names = map[string]bool{}
	for _, from := range spec.VolumesFrom {
		ref := strings.TrimPrefix(from.Container, "/")
		c, err := vs.index.find(ref)
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

// holdVolume makes the container a user of a volume, which is made if there is none, unless another container brings it: then it
// must be there. release takes both back.
func (vs *volumes) holdVolume(
	ctx context.Context, v *container.VolumeMount, containerID string, brought bool,
) (release func(context.Context) error, err error) {
	var found *volume.Volume
	name, made := v.Name, false
	if brought {
		found, err = vs.store.Join(ctx, name, containerID)
	} else {
		found, made, err = vs.store.Hold(ctx, volumeFor(v), containerID)
	}
	if err != nil {
		return nil, err
	}
	v.Source = found.Mountpoint
	return func(ctx context.Context) error {
		vs.store.Release(name, containerID)
		if made {
			return vs.removeVolume(ctx, name)
		}
		return nil
	}, nil
}

// volumeFor is the volume that a mount asks for where there is none yet.
func volumeFor(v *container.VolumeMount) volume.CreateOptions {
	return volume.CreateOptions{Name: v.Name, Driver: v.Driver, Options: v.Options, Labels: v.Labels, Anonymous: v.Anonymous}
}

// removeVolume removes a volume unless others use it.
func (vs *volumes) removeVolume(ctx context.Context, name string) error {
	err := vs.store.Remove(ctx, name)
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Conflict) {
		return nil
	}
	return err
}

// fillVolumes copies the image's content into the container's empty volumes. The layer is mounted only if there are such.
func (vs *volumes) fillVolumes(ctx context.Context, containerID string, spec *container.Spec) (err error) {
	rootfs := ""
	defer func() {
		if rootfs != "" {
			err = errors.Join(err, vs.layers.Unmount(context.WithoutCancel(ctx), containerID))
		}
	}()
	for _, v := range spec.Volumes {
		if v.NoCopy {
			continue
		}
		open := func() (_ *os.File, err error) {
			if rootfs == "" {
				if rootfs, err = vs.layers.Mount(ctx, containerID); err != nil {
					return nil, err
				}
			}
			return openFolder(rootfs, v.Destination)
		}
		if err := vs.mounts.Fill(ctx, v.Name, containerID, open); err != nil {
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
func (vs *volumes) settleVolumes(r *container.Record) {
	for _, name := range r.VolumeNames() {
		if err := vs.store.Settle(name); err != nil { // the next engine does
			vs.log.Warn().Err(err).Str("container", r.ID).Msg("volume not settled")
		}
	}
}

// replaceVolumes gives up the volumes that a container no longer has. An anonymous one is removed if the container never
// ran: nothing can be in it. One that may hold data stays for a person to remove.
func (vs *volumes) replaceVolumes(ctx context.Context, before, after *container.Record) {
	kept := after.VolumeNames()
	for _, mount := range before.Mounts {
		if mount.Name == "" || slices.Contains(kept, mount.Name) {
			continue
		}
		vs.store.Release(mount.Name, before.ID)
		if !mount.Anonymous || !before.StartedAt.IsZero() {
			continue
		}
		if err := vs.removeVolume(ctx, mount.Name); err != nil {
			vs.log.Warn().Err(err).Str("container", before.ID).Msg("volume that was replaced not removed")
		}
	}
}

// dropVolumes ends the use that a container makes of volumes, for good, and removes the anonymous ones if that was asked.
func (vs *volumes) dropVolumes(ctx context.Context, r *container.Record) error {
	var errs []error
	for _, mount := range r.Mounts {
		if mount.Name == "" {
			continue
		}
		goes := mount.Anonymous && r.RemoveVolumes
		if !goes {
			if err := vs.store.Persist(ctx, mount.Name); err != nil { // the removal goes on, as on a full disk
				vs.log.Warn().Err(err).Str("container", r.ID).Msg("a power cut may take a volume")
			}
		}
		vs.store.Release(mount.Name, r.ID)
		if goes {
			errs = append(errs, vs.removeVolume(ctx, mount.Name))
		}
	}
	return errors.Join(errs...)
}

// mountVolumes turns the volumes of a container that starts into binds. One that is gone is made again, empty.
func (vs *volumes) mountVolumes(ctx context.Context, containerID string, spec *container.Spec, back *undo) error {
	for _, v := range spec.Volumes {
		src, err := vs.mounts.Mount(ctx, v.Name, containerID, v.Subpath)
		if fault.Is(err, fault.NotFound) {
			if err := vs.remakeVolume(ctx, &v, containerID); err != nil {
				return err
			}
			src, err = vs.mounts.Mount(ctx, v.Name, containerID, v.Subpath)
		}
		if err != nil {
			return err
		}
		back.push(func(ctx context.Context) error { return vs.mounts.Unmount(ctx, v.Name, containerID) })
		spec.Binds = append(spec.Binds, container.Bind{
			Source: src.Dir, Destination: v.Destination, ReadOnly: v.ReadOnly || src.ReadOnly, Propagation: "rprivate", Mode: v.Mode,
			Flags: src.Flags,
		})
	}
	return nil
}

// unmountVolumes says that the container has ended.
func (vs *volumes) unmountVolumes(ctx context.Context, r *container.Record) error {
	names := r.VolumeNames()
	errs := make([]error, 0, len(names))
	for _, name := range names {
		errs = append(errs, vs.mounts.Unmount(ctx, name, r.ID))
	}
	return errors.Join(errs...)
}

// restoreVolumes tells the store of volumes who uses what. A folder without a readable record counts as a container too:
// what was made for it is not to be lost.
func (vs *volumes) restoreVolumes(ctx context.Context, all []*ctr, running func(containerID string) bool) error {
	users := map[string][]string{}
	entries, err := os.ReadDir(vs.dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		users[entry.Name()] = nil
	}
	for _, c := range all {
		users[c.id] = c.record().VolumeNames()
	}
	err = vs.mounts.Restore(ctx, users, running)
	vs.remakeVolumes(ctx, all)
	return err
}

// remakeVolumes makes the volumes of containers anew that a power cut has taken. Nothing is in them.
func (vs *volumes) remakeVolumes(ctx context.Context, all []*ctr) {
	for _, c := range all {
		spec := keptSpec(c)
		if spec == nil {
			continue
		}
		for _, mount := range spec.Volumes {
			if err := vs.remakeVolume(ctx, &mount, c.id); err != nil {
				vs.log.Error().Err(err).Str("container", c.id).Str("volume", mount.Name).Msg("volume not made anew")
			}
		}
	}
}

// remakeVolume makes a volume that a container has been given, if it is not there any more.
func (vs *volumes) remakeVolume(ctx context.Context, v *container.VolumeMount, containerID string) error {
	_, made, err := vs.store.Hold(ctx, volumeFor(v), containerID)
	if err == nil && made {
		vs.log.Warn().Str("container", containerID).Str("volume", v.Name).Msg("volume is gone: an empty one takes its place")
		err = vs.store.Settle(v.Name)
	}
	return err
}

// publishVolumes tells that a container's volumes were mounted, or no longer are.
func (vs *volumes) publishVolumes(action string, r *container.Record) {
	for _, mount := range r.Mounts {
		if mount.Name == "" {
			continue
		}
		attributes := map[string]string{"container": r.ID, "driver": mount.Driver}
		if action == "mount" {
			attributes["destination"], attributes["propagation"] = mount.Destination, mount.Propagation
			attributes["read/write"] = strconv.FormatBool(mount.RW)
		}
		vs.events.Publish(event.Event{
			Type: event.TypeVolume, Action: action, ID: mount.Name, Attributes: attributes, Time: time.Now(),
		})
	}
}
