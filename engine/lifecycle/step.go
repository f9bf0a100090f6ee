package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/image"
	"moss/engine/record"
	"moss/engine/tree"
)

// Steps makes and gives up the containers that run the steps of builds.
type Steps struct {
	index   *index
	maker   *maker
	remover *remover
	layers  *layers
	commits *Commits
}

// CreateStep makes a container that runs one step of a build and returns its id and the warnings for the client. Clients see
// it like any other, but nothing of it outlives the engine: the next one ends and removes it. The errors are those of Create.
func (s *Steps) CreateStep(ctx context.Context, step container.Step) (containerID string, warnings []string, err error) {
	step.Config.Image = step.ImageID
	if err := checkSources(step.Binds); err != nil {
		return "", nil, err
	}
	return s.maker.makeContainer(ctx, "", step.Config, step.Host, nil, &image.Image{ID: step.ImageID}, &step)
}

// Surrender removes a container of CreateStep that is at rest, after take has had its writable layer, which nobody has
// mounted then. skip are the paths that are there only because something was mounted over them. The container goes
// whatever take says, whose error is returned, and whatever becomes of ctx, which is take's.
//
// fault.NotFound if there is no such container, fault.Conflict if it runs or is no container of a build.
func (s *Steps) Surrender(ctx context.Context, ref string, take func(ctx context.Context, skip []string) error) error {
	c, err := s.acquireStep(ctx, ref)
	if err != nil {
		return err
	}
	defer c.release()
	outlive := context.WithoutCancel(ctx)
	var taken error
	err = s.remover.removeGiving(outlive, c, container.RemoveOptions{}, func() error {
		if err := s.layers.bareLayer(outlive, c); err != nil {
			return err
		}
		taken = take(ctx, c.mountPoints())
		return nil
	})
	return errors.Join(taken, err)
}

// Keep makes a container of CreateStep one like any other: it has a record from now on. The errors are those of Surrender.
// One that was kept before is no error.
func (s *Steps) Keep(ctx context.Context, ref string) error {
	if c, err := s.index.find(ref); err == nil && !c.record().Build {
		return nil
	}
	c, err := s.acquireStep(ctx, ref)
	if err != nil {
		return err
	}
	defer c.release()
	if err := s.layers.settleLayer(context.WithoutCancel(ctx), c); err != nil {
		return fmt.Errorf("keep container %s: %w", c.id, err)
	}
	c.update(func(r *container.Record) { r.Build = false })
	if err := c.saveOrUndo(func(r *container.Record) { r.Build = true }); err != nil {
		return errors.Join(err, record.Remove(filepath.Join(c.dir, recordName))) // a step has none
	}
	c.setStep(nil) // it has secrets in it
	return nil
}

// Layer opens what a container of CreateStep has written, as a plain archive without what is there only because something
// was mounted over it. The caller closes it. The errors are those of Surrender.
func (s *Steps) Layer(ctx context.Context, ref string) (io.ReadCloser, error) {
	c, err := s.acquireStep(ctx, ref)
	if err != nil {
		return nil, err
	}
	defer c.release()
	return s.commits.stillLayer(ctx, c, false)
}

// acquireStep finds a container of CreateStep that is at rest and takes its token, which the caller gives back.
func (s *Steps) acquireStep(ctx context.Context, ref string) (*ctr, error) {
	c, err := s.index.acquire(ctx, ref)
	if err != nil {
		return nil, err
	}
	switch r := c.record(); {
	case c.isRemoved():
		err = noSuch(ref) // while this waited
	case !r.Build:
		err = fault.Conflict("container %s does not belong to a build", r.ID)
	case !r.State.AtRest():
		err = fault.Conflict("container %s of a build is %s", r.ID, r.State)
	}
	if err != nil {
		c.release()
		return nil, err
	}
	return c, nil
}

// addStep adds to the spec of a start what is not in the record, and finds where things will be mounted below rootfs. A
// container that is no step's is left alone.
func (c *ctr) addStep(spec *container.Spec, rootfs string) {
	step := c.buildStep()
	if step == nil {
		return
	}
	for _, entry := range step.Env {
		name, _, _ := strings.Cut(entry, "=")
		spec.Env = slices.DeleteFunc(slices.Clone(spec.Env), func(have string) bool { return strings.HasPrefix(have, name+"=") })
		spec.Env = append(spec.Env, entry)
	}
	spec.Binds, spec.Tmpfs = slices.Concat(spec.Binds, step.Binds), slices.Concat(spec.Tmpfs, step.Tmpfs)
	points := mountPoints(c.record())
	for _, b := range step.Binds {
		points = append(points, b.Destination)
	}
	for _, t := range step.Tmpfs {
		points = append(points, t.Destination)
	}
	c.setPoints(resolvePoints(rootfs, points))
}

// mountPoints are the paths in the container's root where something is mounted.
func (c *ctr) mountPoints() []string {
	if points := c.foundPoints(); points != nil {
		return points
	}
	return mountPoints(c.record())
}

// resolvePoints follows the links on the way to mount points as the runtime will: once the root is not mounted any more
// nobody can.
func resolvePoints(rootfs string, points []string) []string {
	root, err := unix.Open(rootfs, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return points // the start will say so
	}
	defer unix.Close(root) //nolint:errcheck // only a handle
	own, err := nameOf(root)
	if err != nil {
		return points
	}
	for i, point := range points {
		points[i] = resolvePoint(root, own, path.Clean("/"+point))
	}
	slices.Sort(points)
	return slices.Compact(points)
}

// resolvePoint follows the links in as much of a path as there is. own is the name of the root.
func resolvePoint(root int, own, point string) string {
	fd, err := openInRoot(root, point)
	if err != nil {
		if point == "/" {
			return point
		}
		return path.Join(resolvePoint(root, own, path.Dir(point)), path.Base(point))
	}
	defer unix.Close(fd) //nolint:errcheck // only a handle
	name, err := nameOf(fd)
	if err != nil {
		return point
	}
	if inside, ok := strings.CutPrefix(name, own); ok {
		return path.Clean("/" + inside)
	}
	return point
}

// nameOf is the path by which the kernel knows what a handle stands for.
func nameOf(fd int) (string, error) {
	name := make([]byte, unix.PathMax)
	n, err := unix.Readlink(tree.PathOf(fd), name)
	return string(name[:max(n, 0)]), err
}
