package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/image"
	"moss/engine/ocispec"
)

// Commits makes images of containers.
type Commits struct {
	index   *index
	freezer *freezer
	layers  *layers
	store   layerStore
	images  images
	events  events
}

// Commit makes an image of the container's writable layer and its configuration, and returns the image's id. With Pause
// the processes of a running container stand still while the layer is read.
//
// fault.NotFound if there is no such container, fault.Conflict while it is being removed, fault.Invalid for a bad name or
// change. On error there is no image, and the processes run on either way.
func (cm *Commits) Commit(ctx context.Context, ref string, opt container.CommitOptions) (imageID string, err error) {
	c, err := cm.index.acquire(ctx, ref)
	if err != nil {
		return "", err
	}
	defer c.release()
	r := c.record()
	switch {
	case c.isRemoved():
		return "", noSuch(ref) // while this waited
	case r.State == container.Removing || r.State == container.Dead:
		return "", fault.Conflict("You cannot commit container %s which is %s", r.ID, r.State)
	}
	config, err := r.Config.Committed(opt.Config)
	if err != nil {
		return "", err
	}
	made, err := json.Marshal(r.Config)
	if err != nil {
		return "", fmt.Errorf("encode configuration of %s: %w", r.ID, err)
	}
	imageID, name, err := cm.images.Commit(ctx, image.Commit{
		Repo: opt.Repo, Tag: opt.Tag, Author: opt.Author, Comment: opt.Comment, Changes: opt.Changes,
		Config: config, Parent: r.ImageID, ContainerID: r.ID,
		CreatedBy:       strings.Join(append([]string{r.Path}, r.Args...), " "),
		ContainerConfig: made,
	}, func(ctx context.Context) (io.ReadCloser, error) { return cm.stillLayer(ctx, c, opt.Pause) })
	if err != nil {
		return "", err
	}
	publishEvent(cm.events, "commit", c.record(), "comment", opt.Comment, "imageID", imageID, "imageRef", name)
	return imageID, nil
}

// stillLayer opens what the container has changed. With pause its processes are frozen until that has been read or is
// closed, should anything of it go wrong too. The caller holds the token.
func (cm *Commits) stillLayer(ctx context.Context, c *ctr, pause bool) (_ io.ReadCloser, err error) {
	var back undo
	defer func() { back.run(ctx, &err) }()
	thaw := func() error { return nil }
	if pause && c.record().State == container.Running {
		outlive := context.WithoutCancel(ctx) // a client that hangs up must not leave the processes frozen
		thaw = func() error {
			if err := cm.freezer.unpauseContainer(outlive, c); !fault.Is(err, fault.Conflict) {
				return err
			}
			return nil // it is not paused any more: a kill has thawed it, or it has ended
		}
		err := cm.freezer.freezeForNow(outlive, c)
		switch {
		case err == nil:
			back.push(func(context.Context) error { return thaw() })
		case c.record().State == container.Running && !fault.Is(err, fault.Conflict): // then it has ended, or is about to be seen so
			return nil, err
		}
	}
	drop := func() error { return cm.layers.dropLayer(context.WithoutCancel(ctx), c) }
	_, err = cm.layers.holdLayer(ctx, c) // links on the way to mount points are followed where it is mounted
	if err != nil {
		return nil, fmt.Errorf("read layer of %s: %w", c.id, err)
	}
	back.push(func(context.Context) error { return drop() })
	layer, err := cm.store.Diff(ctx, c.id, c.mountPoints())
	if err != nil {
		return nil, fmt.Errorf("read layer of %s: %w", c.id, err)
	}
	return &frozen{layer: layer, end: sync.OnceValue(func() error { return errors.Join(layer.Close(), drop(), thaw()) })}, nil
}

// mountPoints are the paths in the container's root where something is mounted, whose folders and files the runtime has
// made: they are no change of the container's.
func mountPoints(r *container.Record) []string {
	points := append(make([]string, 0, 16+len(r.Mounts)),
		"/dev", "/proc", "/sys", "/dev/console", "/dev/pts", "/dev/shm", "/dev/mqueue", "/sys/fs/cgroup",
		"/etc/hosts", "/etc/hostname", "/etc/resolv.conf", ocispec.AptConf)
	for _, mount := range r.MountPoints() {
		points = append(points, mount.Destination)
	}
	for dest := range r.Host.Tmpfs {
		points = append(points, dest)
	}
	for _, device := range r.Host.Devices {
		points = append(points, device.PathInContainer)
	}
	slices.Sort(points)
	return points
}

// frozen is a layer that is being read while its container stands still.
type frozen struct {
	layer io.Reader
	end   func() error // closes the layer and lets the container go on; only the first call does
}

// Read reads the layer. At its end the container goes on: what is done with the layer later takes time. The end is told
// only if all went well.
func (f *frozen) Read(p []byte) (int, error) {
	n, err := f.layer.Read(p)
	if errors.Is(err, io.EOF) {
		if endErr := f.end(); endErr != nil {
			return n, endErr
		}
	}
	return n, err
}

// Close ends the reading.
func (f *frozen) Close() error { return f.end() }
