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

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"moss/engine/container"
	"moss/engine/network"
	"moss/engine/ocispec"
	"moss/engine/tree"
)

// etcFiles keeps the files of /etc that the engine manages for containers.
type etcFiles struct {
	index      *index
	emulateIDs bool // as in Options
	log        zerolog.Logger
}

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
func (e *etcFiles) placeEtc(c *ctr, with *joined) {
	dir, r := c.dir, c.record()
	hostname, hosts, resolv := filepath.Join(dir, "hostname"), filepath.Join(dir, "hosts"), filepath.Join(dir, "resolv.conf")
	if n := with.network; n != nil {
		hostname, hosts, resolv = n.HostnamePath, n.HostsPath, n.ResolvConf
	}
	if r.HostnamePath != hostname || r.HostsPath != hosts || r.ResolvConf != resolv {
		c.update(func(r *container.Record) { r.HostnamePath, r.HostsPath, r.ResolvConf = hostname, hosts, resolv })
	}
}

// aptConf keeps apt from changing to a user of its own: it looks afterwards whether it has become that, and fails.
const aptConf = `// Made by moss: the user of this engine has no subordinate ids, and only root exists here.
APT::Sandbox::User "root";
`

// writeAptConf writes the settings that apt is to find where ids are emulated, into the folder of the container's task. path
// is empty where there is no need of them. A folder that is reached by links is the image's own arrangement and left alone.
func (e *etcFiles) writeAptConf(taskDir, rootfs string, ids *container.IDMap) (path string, err error) {
	if !e.emulateIDs || ids != nil {
		return "", nil
	}
	root, err := rootHandle(rootfs)
	if err != nil {
		return "", err
	}
	defer root.Close() //nolint:errcheck // only a handle
	dir, err := tree.Openat2(int(root.Fd()), filepath.Dir(ocispec.AptConf)[1:], unix.O_PATH|unix.O_DIRECTORY,
		unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return "", nil // the image has no apt
	}
	unix.Close(dir) //nolint:errcheck // only a handle
	path = filepath.Join(taskDir, "apt.conf")
	return path, writeOwn(path, []byte(aptConf))
}

// etcAtRest returns the record of a container that does not run, with the places of its managed files. Before the first
// start they are made with what is known then: neither its networks nor its links are.
func (e *etcFiles) etcAtRest(c *ctr) (*container.Record, error) {
	c.files.Lock()
	defer c.files.Unlock()
	r := *c.record()
	if !r.StartedAt.IsZero() || r.Build {
		return &r, nil
	}
	if id, shared := strings.CutPrefix(r.Host.NetworkMode, container.JoinMode("")); shared {
		if other, err := e.index.find(id); err == nil {
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
	handle, err := tree.HandleIn(rootfs, name)
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

// makeFolder makes a folder of owner's inside the root filesystem if it is missing; empty: there is none. The folders above it
// are of the root in there.
func makeFolder(rootfs, dir string, ids *container.IDMap, owner container.UserIDs) error {
	if dir == "" {
		return nil
	}
	maker, err := toEngineIDs(ids, container.UserIDs{})
	if err != nil {
		maker = container.UserIDs{} // the one user that exists
	}
	root, err := rootHandle(rootfs)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // only a handle
	return makeFolderIn(int(root.Fd()), dir, maker, owner)
}
