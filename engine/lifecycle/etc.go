package lifecycle

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	pathrs "github.com/cyphar/filepath-securejoin/pathrs-lite"
	"golang.org/x/sys/unix"

	"moss/engine/container"
	"moss/engine/network"
	"moss/engine/tree"
)

// writeEtc writes the three files of /etc that the engine manages for a container. They lie outside its root filesystem
// and are mounted over it.
func writeEtc(r *container.Record, spec *container.Spec, p *parts, hostname string) error {
	hosts, err := hostsFile(spec, p, hostname)
	if err != nil {
		return err
	}
	resolv, err := resolvFile(spec, &p.sandbox)
	if err != nil {
		return err
	}
	for path, content := range map[string][]byte{
		r.HostnamePath: []byte(hostname + "\n"), r.HostsPath: hosts, r.ResolvConf: resolv,
	} {
		if err := writeOwn(path, content); err != nil {
			return err
		}
	}
	return nil
}

// placeEtc notes where the container's managed files lie: with those of another container if it uses that one's network.
func (m *Manager) placeEtc(c *ctr, with *joined) *container.Record {
	dir, r := m.dataDir(c.id), c.record()
	hostname, hosts, resolv := filepath.Join(dir, "hostname"), filepath.Join(dir, "hosts"), filepath.Join(dir, "resolv.conf")
	if n := with.network; n != nil {
		hostname, hosts, resolv = n.HostnamePath, n.HostsPath, n.ResolvConf
	}
	if r.HostnamePath != hostname || r.HostsPath != hosts || r.ResolvConf != resolv {
		c.update(func(r *container.Record) { r.HostnamePath, r.HostsPath, r.ResolvConf = hostname, hosts, resolv })
	}
	return c.record()
}

// etcAtRest returns the record of a container that does not run, with the places of its managed files. Before the first
// start they are made with what is known then: neither its networks nor its links are.
func (m *Manager) etcAtRest(c *ctr) (*container.Record, error) {
	c.hosts.Lock()
	defer c.hosts.Unlock()
	r := *c.record()
	if !r.StartedAt.IsZero() || r.Build {
		return &r, nil
	}
	if id, shared := strings.CutPrefix(r.Host.NetworkMode, container.JoinMode("")); shared {
		if other, err := m.index.find(id); err == nil {
			o := other.record()
			r.HostnamePath, r.HostsPath, r.ResolvConf = o.HostnamePath, o.HostsPath, o.ResolvConf
		}
		return &r, nil
	}
	if _, err := os.Lstat(r.HostsPath); err == nil {
		return &r, nil
	}
	hostName, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	spec, err := container.SpecOf(&r)
	if err != nil {
		return &r, nil // the start will say so
	}
	spec.Hosts = slices.DeleteFunc(slices.Clone(spec.Hosts), func(h container.HostIP) bool { return !h.IP.IsValid() })
	p := parts{sandbox: network.Sandbox{Mode: networkMode(&spec), DNS: spec.Host.DNS}}
	return &r, writeEtc(&r, &spec, &p, spec.Hostname(r.ID, hostName))
}

// workFolder is the working folder of a container that has never run, as its first start will make it.
func (m *Manager) workFolder(r *container.Record, rootfs string) (path string, owner container.UserIDs) {
	if !r.StartedAt.IsZero() {
		return "", container.UserIDs{}
	}
	ids, err := lookupUser(rootfs, r.Config.User, r.Host.GroupAdd)
	if err == nil {
		owner, err = outside(m.idMap(&r.Host), ids)
	}
	if err != nil {
		owner = container.UserIDs{} // the start will say so
	}
	return r.Config.WorkingDir, owner
}

// lookupUser resolves the user inside the root filesystem. The files are the container's to write, so they are opened
// inside the root, must be regular, and are read up to a bound.
func lookupUser(rootfs, user string, groups []string) (container.UserIDs, error) {
	passwd, err := readInRoot(rootfs, "/etc/passwd")
	if err != nil {
		return container.UserIDs{}, err
	}
	group, err := readInRoot(rootfs, "/etc/group")
	if err != nil {
		return container.UserIDs{}, err
	}
	return container.ResolveUser(user, groups, passwd, group)
}

// maxAccounts bounds what is read of passwd and group, in bytes.
const maxAccounts = 1 << 20

// readInRoot reads a regular file inside the root filesystem; a missing one is empty.
func readInRoot(rootfs, name string) ([]byte, error) {
	handle, err := handleInRoot(rootfs, name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open %s of the container: %w", name, err)
	}
	defer handle.Close() //nolint:errcheck // only read
	info, err := handle.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil
	}
	f, err := os.OpenFile(tree.PathOf(int(handle.Fd())), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s of the container: %w", name, err)
	}
	defer f.Close() //nolint:errcheck // only read
	return io.ReadAll(io.LimitReader(f, maxAccounts))
}

// handleInRoot is a handle to what a path leads to inside the root filesystem. The kernel keeps links inside it.
func handleInRoot(rootfs, name string) (*os.File, error) {
	root, err := os.OpenFile(rootfs, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // only a handle
	fd, err := openInRoot(int(root.Fd()), name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// makeWorkingDir makes the working folder inside the root filesystem if it is missing.
func makeWorkingDir(rootfs, dir string, ids container.UserIDs) error {
	if dir == "" || dir == "/" {
		return nil
	}
	if handle, err := handleInRoot(rootfs, dir); err == nil {
		return handle.Close()
	}
	root, err := os.OpenFile(rootfs, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // only a handle
	made, err := pathrs.MkdirAllHandle(root, dir, 0o755)
	if err != nil {
		return fmt.Errorf("make working directory %s: %w", dir, err)
	}
	defer made.Close() //nolint:errcheck // only a handle
	if ids.UID == 0 && ids.GID == 0 {
		return nil
	}
	if err := made.Chown(int(ids.UID), int(ids.GID)); err != nil {
		return fmt.Errorf("make working directory %s: %w", dir, err)
	}
	return nil
}
