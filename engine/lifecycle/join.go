package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"moss/engine/container"
	"moss/engine/container/life"
	"moss/engine/fault"
	"moss/engine/network"
	"moss/engine/ocispec"
	"moss/engine/thread"
	"moss/engine/tree"
)

// needError is what a container lacks to start that is not its own: another container, or a network.
type needError struct{ error }

func (e needError) Unwrap() error { return e.error }

func isNeedMissing(err error) bool {
	_, ok := errors.AsType[needError](err)
	return ok
}

// resolveReferences finds the containers that a new or reconfigured one names, puts their ids into its settings and returns its
// links. fault.Invalid for a missing one and for the container itself.
func resolveReferences(x *index, selfID, selfName string, spec *container.Spec) ([]container.Link, error) {
	find := func(verb, ref string) (*container.Record, error) {
		c, err := x.find(ref)
		if ref == selfID || strings.TrimPrefix(ref, "/") == selfName || err == nil && c.id == selfID {
			return nil, fault.Invalid("cannot %s itself: %s", verb, ref)
		}
		if err != nil {
			return nil, asInvalid(err)
		}
		return c.record(), nil
	}
	for _, j := range []struct {
		verb      string
		ref, mode *string
	}{
		{"join the network of a container to", &spec.Join.Network, &spec.Host.NetworkMode},
		{"join the processes of a container to", &spec.Join.Pid, &spec.Host.PidMode},
		{"join the shared memory of a container to", &spec.Join.Ipc, &spec.Host.IpcMode},
	} {
		if *j.ref == "" {
			continue
		}
		other, err := find(j.verb, *j.ref)
		if err != nil {
			return nil, err
		}
		if j.ref == &spec.Join.Ipc && !other.Host.SharesIpc() {
			return nil, notShared(other)
		}
		*j.ref, *j.mode = other.ID, container.JoinMode(other.ID)
		if j.ref == &spec.Join.Network {
			spec.Config.Hostname, spec.Config.Domainname = other.Config.Hostname, other.Config.Domainname
		}
	}
	var links []container.Link
	for _, l := range spec.Links {
		other, err := find("link a container to", l.Container)
		if err != nil {
			return nil, fmt.Errorf("could not get container for %s: %w", l.Container, err)
		}
		if other.Host.NetworkMode == container.NetworkHost {
			return nil, fault.Invalid("Conflicting options: host type networking can't be used with links. This would result in undefined behavior")
		}
		links = append(links, container.Link{Container: other.ID, Alias: l.Alias})
	}
	return links, nil
}

func notShared(other *container.Record) error {
	return fault.Conflict("cannot join IPC of container %s: non-shareable IPC (hint: use IpcMode:shareable for the donor container)", other.ID)
}

// namespaces opens what containers share: namespaces of other ones and their shared memory.
type namespaces struct {
	index *index
	// shmDir has a folder for each container that starts, where another one's shared memory is mounted meanwhile. It lies outside
	// the folders of tasks, which are deleted with all that is in them.
	shmDir string
	log    zerolog.Logger
}

// joined are the namespaces of other containers that one enters. They are held open until closeJoined: nobody else gets them
// meanwhile, even if the other container ends.
type joined struct {
	oci     ocispec.Join
	network *container.Record // whose network it is; nil: not another's
	sandbox network.Sandbox   // in its place
	files   []*os.File
	shm     string // mounted here; empty: nothing is
}

// closeJoined gives back what a start has borrowed. What cannot be is logged: the start itself has come to its end.
func (n *namespaces) closeJoined(containerID string, j *joined) {
	err := dropShm(j.shm)
	for _, f := range j.files {
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		n.log.Warn().Err(err).Str("container", containerID).Msg("namespaces of another container not given back")
	}
}

// openNamespaces opens the namespaces that spec takes from other containers, and makes spec say the host's where the others have
// those. One that does not run is fault.Conflict. The result must be closed after the start, also after an error.
func (n *namespaces) openNamespaces(containerID string, spec *container.Spec) (j joined, err error) {
	if ref := spec.Join.Network; ref != "" {
		other, f, err := n.openNamespace(&j, "network", ref, "net")
		if err != nil {
			return j, err
		}
		j.network = other
		if j.sandbox.Mode = network.Host; !sameAsOurs(f, "net") {
			j.sandbox.Mode, j.oci.Network = network.Container, pathOf(f)
		}
		spec.Config.Hostname, spec.Config.Domainname = other.Config.Hostname, other.Config.Domainname
	}
	if ref := spec.Join.Pid; ref != "" {
		_, f, err := n.openNamespace(&j, "PID", ref, "pid")
		if err != nil {
			return j, err
		}
		if spec.PidHost = sameAsOurs(f, "pid"); !spec.PidHost {
			j.oci.Pid = pathOf(f)
		}
	}
	if ref := spec.Join.Ipc; ref != "" {
		return j, n.joinIpc(&j, containerID, ref, spec)
	}
	return j, nil
}

func (n *namespaces) joinIpc(j *joined, containerID, ref string, spec *container.Spec) error {
	other, f, err := n.openNamespace(j, "IPC", ref, "ipc")
	if err != nil {
		return err
	}
	if !other.Host.SharesIpc() {
		return needError{notShared(other)}
	}
	if sameAsOurs(f, "ipc") {
		spec.Ipc = container.IpcHost
		return nil
	}
	_, mounts, err := n.openNamespace(j, "IPC", ref, "mnt")
	if err != nil {
		return err
	}
	dir := filepath.Join(n.shmDir, containerID)
	if err := showShm(mounts, dir); err != nil {
		return fmt.Errorf("share memory with container %s: %w", other.ID, err)
	}
	j.shm, j.oci.Ipc, j.oci.Shm = dir, pathOf(f), dir
	return nil
}

// openNamespace opens one namespace of a running container. what names it for people, kind for the kernel.
func (n *namespaces) openNamespace(j *joined, what, ref, kind string) (*container.Record, *os.File, error) {
	c, err := n.index.find(ref)
	if err != nil {
		return nil, nil, needError{err}
	}
	r := c.record()
	if !r.State.HasProcess() {
		return nil, nil, needError{fault.Conflict("cannot join %s of a non running container: %s", what, r.ID)}
	}
	f, err := os.Open(filepath.Join("/proc", strconv.Itoa(r.Pid), "ns", kind))
	if now := c.record(); err != nil || now.Pid != r.Pid || !now.State.HasProcess() || now.End != nil {
		if err == nil {
			err = f.Close()
		}
		// It ended meanwhile, and the number may be another process's.
		return nil, nil, needError{errors.Join(fault.Conflict("cannot join %s of a non running container: %s", what, r.ID), err)}
	}
	j.files = append(j.files, f)
	return r, f, nil
}

// pathOf is a path by which the runtime, another process of this user, opens what the engine holds open.
func pathOf(f *os.File) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd()) }

// sameAsOurs reports whether a namespace is the one the engine is in, which is what moss calls the host's.
func sameAsOurs(f *os.File, kind string) bool {
	var theirs, ours unix.Stat_t
	return unix.Fstat(int(f.Fd()), &theirs) == nil && unix.Stat("/proc/self/ns/"+kind, &ours) == nil &&
		theirs.Dev == ours.Dev && theirs.Ino == ours.Ino
}

// asInvalid turns the lack of another container that settings name into a bad parameter: clients take fault.NotFound of a
// create for a missing image, and pull it.
func asInvalid(err error) error {
	if fault.Is(err, fault.NotFound) {
		return fault.Invalid("%w", err)
	}
	return err
}

// showShm mounts the /dev/shm of the mount namespace mounts at dir, which is made. On error nothing is left.
func showShm(mounts *os.File, dir string) (err error) {
	shm := -1
	if err := thread.Apart(func() error { shm, err = cloneShm(mounts); return err }); err != nil {
		return err
	}
	defer unix.Close(shm) //nolint:errcheck // mounted, or of no use
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := unix.MoveMount(shm, "", unix.AT_FDCWD, dir, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return errors.Join(fmt.Errorf("mount at %s: %w", dir, err), os.Remove(dir))
	}
	return nil
}

// cloneShm spoils the calling thread: it stays in the other mount namespace. The container may have put anything in the
// place of /dev/shm, so that links are not followed; a folder of its own is all it can offer.
func cloneShm(mounts *os.File) (shm int, err error) {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return -1, fmt.Errorf("leave the file system state of the other threads: %w", err)
	}
	if err := unix.Setns(int(mounts.Fd()), unix.CLONE_NEWNS); err != nil {
		return -1, fmt.Errorf("enter mount namespace: %w", err)
	}
	dir, err := tree.Openat2(unix.AT_FDCWD, "/dev/shm", unix.O_PATH|unix.O_DIRECTORY, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return -1, fmt.Errorf("open /dev/shm: %w", err)
	}
	defer unix.Close(dir) //nolint:errcheck // only a handle
	shm, err = unix.OpenTree(dir, "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("copy the mount /dev/shm: %w", err)
	}
	return shm, nil
}

// dropShm undoes showShm. An empty path, or one where nothing is, is no error.
func dropShm(dir string) error {
	if dir == "" {
		return nil
	}
	err := unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount %s: %w", dir, err)
	}
	if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) { // never with what may still be mounted there
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	return nil
}

// dropShmDir removes the folder of all these mounts if nothing is in it.
func (n *namespaces) dropShmDir() {
	unix.Rmdir(n.shmDir) //nolint:errcheck // absent, or of use to a start that goes on
}

// sweepShm drops what an engine that died in the middle of a start has left mounted.
func (n *namespaces) sweepShm() error {
	entries, err := os.ReadDir(n.shmDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, entry := range entries {
		errs = append(errs, dropShm(filepath.Join(n.shmDir, entry.Name())))
	}
	return errors.Join(errs...)
}

// needPatience bounds how long a container that starts with the engine waits for those it needs.
const needPatience = 30 * time.Second

// startSignals makes a channel for each container that starts with the engine, to be closed when that was tried.
func startSignals(all []*ctr) map[string]chan struct{} {
	begun := map[string]chan struct{}{}
	for _, c := range all {
		if life.StartsWithEngine(c.record()) {
			begun[c.id] = make(chan struct{})
		}
	}
	return begun
}

// waitNeeds waits until the start was tried of all containers that r cannot start without. False means that the engine
// ends. Those that need each other wait in vain and then fail.
func waitNeeds(ctx context.Context, r *container.Record, begun map[string]chan struct{}) bool {
	timer := time.NewTimer(needPatience)
	defer timer.Stop()
	for _, id := range neededContainers(r) {
		ready := begun[id]
		if ready == nil || id == r.ID {
			continue
		}
		select {
		case <-ready:
		case <-timer.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// neededContainers lists the containers whose namespaces or address another one takes at its start, by id.
func neededContainers(r *container.Record) []string {
	var ids []string
	for _, mode := range []string{r.Host.NetworkMode, r.Host.PidMode, r.Host.IpcMode} {
		if id, ok := strings.CutPrefix(mode, container.JoinMode("")); ok {
			ids = append(ids, id)
		}
	}
	for _, l := range linksOf(r) {
		ids = append(ids, l.Container)
	}
	return ids
}
