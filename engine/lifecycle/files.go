package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"moss/engine/container"
	"moss/engine/id"
	"moss/engine/task"
	"moss/engine/thread"
	"moss/engine/tree"
)

// differences tells what containers have changed of their images' files. skip names mount points: what was made only to be
// mounted over is left out.
type differences interface {
	Changes(ctx context.Context, containerID string, skip []string) ([]container.Change, error)
}

// Files shows the files of containers, of those that run and of those that do not.
type Files struct {
	index       *index
	layers      *layers
	volumes     volumeMounts
	images      *imageMounts
	userns      *userNamespaces
	etc         *etcFiles
	differences differences
}

// OpenFiles opens a view on what a container sees as its files: of a running one through its own mounts, of one at rest
// those that a start would make, but for file systems in memory. Nothing is mounted into a running container. The caller
// closes the view; it lasts through starts, stops and a removal, after which its files are gone. fault.NotFound if there
// is no such container, or it is being removed.
func (f *Files) OpenFiles(ctx context.Context, ref string) (*container.Files, error) {
	return f.openView(ctx, ref, func(c *ctr, dir string, back *undo) (root, space *os.File, err error) {
		if t, running := c.runningTask(); running {
			status, err := t.Status(ctx)
			if errors.Is(err, task.ErrSilent) { // the view shows whether it is still that process
				status, err = task.Status{Pid: c.record().Pid}, nil
			}
			if err == nil && status.Exit == nil && status.Pid > 0 {
				root, space, err = runningView(status.Pid, dir)
			}
			if err == nil && root != nil {
				return root, space, nil
			}
			// It has ended meanwhile, or its first process has left its root for another one.
		}
		r, err := f.etc.etcAtRest(c)
		if err != nil {
			return nil, nil, err
		}
		v := view{dir: dir, readOnly: r.Host.ReadonlyRootfs}
		if v.points, err = f.viewPoints(ctx, r, back); err != nil {
			return nil, nil, err
		}
		if v.maker, err = toEngineIDs(f.userns.idMap(&r.Host), container.UserIDs{}); err != nil {
			v.maker = container.UserIDs{} // the one user that exists
		}
		v.work, v.worker = f.workFolder(r, dir)
		return v.open()
	})
}

// OpenLayer opens a view on a container's own file system, without what is mounted over it. The rest is as of OpenFiles.
func (f *Files) OpenLayer(ctx context.Context, ref string) (*container.Files, error) {
	return f.openView(ctx, ref, func(_ *ctr, dir string, _ *undo) (root, space *os.File, err error) {
		root, err = rootHandle(dir)
		return root, nil, err
	})
}

// openView holds the layer of a container and opens a view on it. It takes no token: verbs go on meanwhile. What open
// pushes is undone when the view is closed.
func (f *Files) openView(
	ctx context.Context, ref string, open func(c *ctr, dir string, back *undo) (root, space *os.File, err error),
) (_ *container.Files, err error) {
	c, err := f.index.find(ref)
	if err != nil {
		return nil, err
	}
	var back undo
	defer func() {
		back.run(ctx, &err)
		if err != nil && c.isRemoved() {
			err = noSuch(ref)
		}
	}()
	// What is made in a view on a layer that is being removed would land where the mount was, and keep the rest from going.
	c.layer.removal.RLock()
	defer c.layer.removal.RUnlock()
	if c.record().State == container.Removing {
		return nil, noSuch(ref)
	}
	dir, err := f.layers.holdLayer(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("open files of %s: %w", c.record().Name, err)
	}
	back.push(func(ctx context.Context) error { return f.layers.dropLayer(ctx, c) })
	root, space, err := open(c, dir, &back)
	if err != nil {
		return nil, fmt.Errorf("open files of %s: %w", c.record().Name, err)
	}
	r := c.record()
	user := func() (container.UserIDs, error) { return lookupUser(tree.PathOf(int(root.Fd())), r.Config.User, nil) }
	return &container.Files{Record: r, Root: root, IDs: f.userns.idMap(&r.Host), User: user, Done: func() error {
		root.Close() //nolint:errcheck // only a handle
		if space != nil {
			space.Close() //nolint:errcheck // only a handle
		}
		return back.runAll(ctx)
	}}, nil
}

// Changes returns what a container has changed of its image's files, in order. fault.NotFound if there is no such
// container.
func (f *Files) Changes(ctx context.Context, ref string) ([]container.Change, error) {
	c, err := f.index.find(ref)
	if err != nil {
		return nil, err
	}
	var changes []container.Change
	if _, err = f.layers.holdLayer(ctx, c); err == nil { // links on the way to mount points are followed where it is mounted
		changes, err = f.differences.Changes(ctx, c.id, c.mountPoints())
		err = errors.Join(err, f.layers.dropLayer(context.WithoutCancel(ctx), c))
	}
	if err != nil && c.isRemoved() {
		return nil, noSuch(ref)
	}
	return changes, err
}

// viewPoints lists what is mounted into a container from outside, outer mounts first. Sources that a start would make are
// made. What it readies for that is taken back by back.
func (f *Files) viewPoints(ctx context.Context, r *container.Record, back *undo) ([]viewPoint, error) {
	var points []viewPoint
	taken := map[string]bool{}
	user := id.New() // of the volumes, beside the container itself
	for _, mount := range r.Mounts {
		p := viewPoint{mount.Source, path.Clean(mount.Destination), !mount.RW}
		switch {
		case mount.Image.ImageID != "":
			source, release, err := f.images.openImage(ctx, mount.Image)
			if err != nil {
				return nil, err
			}
			back.push(func(context.Context) error { return release() })
			p.source = source
		case mount.Name != "":
			src, err := f.volumes.Mount(ctx, mount.Name, user, mount.Volume.Subpath)
			if err != nil {
				return nil, err
			}
			back.push(func(ctx context.Context) error { return f.volumes.Unmount(ctx, mount.Name, user) })
			p.source, p.readOnly = src.Dir, p.readOnly || src.ReadOnly
		default:
			if err := readySource(mount.Source, mount.Bind); err != nil {
				return nil, err
			}
		}
		points = append(points, p)
		taken[p.destination] = true
	}
	for destination, source := range map[string]string{
		"/etc/hosts": r.HostsPath, "/etc/hostname": r.HostnamePath, "/etc/resolv.conf": r.ResolvConf,
	} {
		if _, err := os.Stat(source); err == nil && !taken[destination] { // one that has never run has none
			points = append(points, viewPoint{source, destination, r.Host.ReadonlyRootfs})
		}
	}
	slices.SortStableFunc(points, func(a, b viewPoint) int {
		if order := strings.Count(a.destination, "/") - strings.Count(b.destination, "/"); order != 0 {
			return order
		}
		return strings.Compare(a.destination, b.destination)
	})
	return points, nil
}

// workFolder is the working folder of a container that has never run, as its first start will make it.
func (f *Files) workFolder(r *container.Record, rootfs string) (path string, owner container.UserIDs) {
	if !r.StartedAt.IsZero() {
		return "", container.UserIDs{}
	}
	ids, err := lookupUser(rootfs, r.Config.User, r.Host.GroupAdd)
	if err == nil {
		owner, err = toEngineIDs(f.userns.idMap(&r.Host), ids)
	}
	if err != nil {
		owner = container.UserIDs{} // the start will say so
	}
	return r.Config.WorkingDir, owner
}

// runningView opens the root that a container's first process was given, and the mount namespace that it lies in. dir is
// where the engine has that root: a process that lives in another one gives no view and no error.
func runningView(pid int, dir string) (root, space *os.File, err error) {
	space, err = os.OpenFile(filepath.Join("/proc", strconv.Itoa(pid), "ns", "mnt"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	err = thread.Apart(func() error {
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return err
		}
		if err := unix.Setns(int(space.Fd()), unix.CLONE_NEWNS); err != nil {
			return err
		}
		root, err = rootHandle("/")
		return err
	})
	var inside, outside unix.Stat_t
	if err == nil {
		err = errors.Join(unix.Fstat(int(root.Fd()), &inside), unix.Stat(dir, &outside))
	}
	// The process id may be another process's by now; what is not the container's root is never shown as that.
	if err != nil || inside.Dev != outside.Dev || inside.Ino != outside.Ino {
		space.Close() //nolint:errcheck // only a handle
		if root != nil {
			root.Close() //nolint:errcheck // only a handle
		}
		return nil, nil, err
	}
	return root, space, nil
}
