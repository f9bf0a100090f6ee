package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/thread"
	"moss/engine/tree"
)

// mappedLayers makes writable layers for containers with a user namespace of their own.
type mappedLayers interface {
	CreateMapped(ctx context.Context, containerID, imageID string, ids container.IDMap) error
}

// userNamespaces gives containers with a user namespace of their own the user's ids inside.
type userNamespaces struct {
	mapped     mappedLayers // as in Options, and the fields below
	ids        container.IDMap
	user       container.UserIDs
	name, home string
}

// keepID makes a new container run as the user, if the client leaves it open, where it has the user's own ids inside.
func (u *userNamespaces) keepID(asked string, spec *container.Spec) error {
	if !spec.Host.KeepsID() {
		return nil
	}
	if len(u.ids.UIDs) == 0 || u.mapped == nil {
		return fault.Invalid("UsernsMode %s is not possible: the ids of the user are not known", spec.Host.UsernsMode)
	}
	for mode, shared := range map[string]bool{
		"PidMode": spec.Join.Pid != "", "IpcMode": spec.Join.Ipc != "", "Privileged": spec.Host.Privileged,
	} {
		if shared {
			return fault.Invalid("Conflicting options: %s and UsernsMode %s", mode, spec.Host.UsernsMode)
		}
	}
	user, err := spec.Host.KeptIDs(u.user)
	if err != nil {
		return err
	}
	if asked == "" {
		spec.Config.User = fmt.Sprintf("%d:%d", user.UID, user.GID)
	}
	return nil
}

// enterUser gives the user an account in a container that keeps ids, if its image has none for the number: without one
// there is neither a name nor a home, and sudo refuses. It is part of the writable layer. The home is the host's where that
// is mounted, or else a new folder of the user's. An image without a passwd file stays as it is.
func (u *userNamespaces) enterUser(rootfs string, spec *container.Spec) error {
	ids := u.idMap(&spec.Host)
	if ids == nil {
		return nil
	}
	passwd, err := readInRoot(rootfs, "/etc/passwd")
	if err != nil || len(passwd) == 0 {
		return err
	}
	user, err := spec.Host.KeptIDs(container.UserIDs{UID: u.user.UID, GID: u.user.GID})
	if err != nil {
		return err
	}
	mounted := func(b container.Bind) bool {
		return u.home == b.Destination || strings.HasPrefix(u.home, b.Destination+"/")
	}
	if slices.ContainsFunc(spec.Binds, mounted) {
		user.Home = u.home
	}
	entry, home := container.PasswdEntry(passwd, u.name, user)
	if entry == "" {
		return nil
	}
	group, err := readInRoot(rootfs, "/etc/group")
	if err != nil {
		return err
	}
	if line := container.GroupEntry(group, u.name, user.GID); line != "" && len(group) > 0 {
		if err := appendInRoot(rootfs, "/etc/group", group, line); err != nil {
			return err
		}
	}
	if err := appendInRoot(rootfs, "/etc/passwd", passwd, entry); err != nil {
		return err
	}
	if user.Home != "" {
		return nil // it is mounted there
	}
	// What the engine makes is the user's: its root is the user in there.
	return makeFolder(rootfs, home, ids, container.UserIDs{})
}

// appendInRoot adds a line to a regular file inside the root filesystem, whose content is known.
func appendInRoot(rootfs, name string, content []byte, line string) error {
	if content[len(content)-1] != '\n' {
		line = "\n" + line
	}
	handle, err := tree.HandleIn(rootfs, name)
	if err != nil {
		return err
	}
	defer handle.Close() //nolint:errcheck // only a handle
	f, err := os.OpenFile(tree.PathOf(int(handle.Fd())), os.O_WRONLY|os.O_APPEND|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err == nil {
		_, err = f.WriteString(line + "\n")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("add the user to %s of the container: %w", name, err)
	}
	return nil
}

// idMap is the container's map of ids; nil if it has none of its own.
func (u *userNamespaces) idMap(host *container.HostConfig) *container.IDMap {
	if !host.KeepsID() {
		return nil
	}
	user, err := host.KeptIDs(u.user)
	if err != nil {
		user = u.user // not after create, which has refused it
	}
	ids := u.ids.Moved(user)
	return &ids
}

// toEngineIDs turns a user of the container into what the engine calls it. ids is nil where both are the same.
func toEngineIDs(ids *container.IDMap, user container.UserIDs) (container.UserIDs, error) {
	if ids == nil {
		return user, nil
	}
	return ids.Outside(user)
}

// ownRoot gives the root folder of a container with its own ids to the root in there: the storage library makes it the
// engine's at every mount. Only the folder itself is touched, which nobody but the engine can replace.
func ownRoot(rootfs string, ids *container.IDMap) error {
	if ids == nil || ids.Single() {
		return nil
	}
	root, err := ids.Outside(container.UserIDs{})
	if err != nil {
		return err
	}
	return unix.Lchown(rootfs, int(root.UID), int(root.GID))
}

// setNetwork sets the parameters of a network namespace that is the engine's, which a container with its own user namespace
// cannot. Those of other namespaces stay in spec.
func setNetwork(p *parts, ids *container.IDMap, spec *container.Spec) error {
	asked, own := map[string]string{}, map[string]string{}
	path := p.with.oci.Network
	if p.sandbox.Path != "" {
		path, asked["net.ipv4.ip_unprivileged_port_start"] = p.sandbox.Path, "0" // what containers have
	}
	if ids == nil || path == "" {
		return nil
	}
	for key, value := range spec.Host.Sysctls {
		if strings.HasPrefix(key, "net.") {
			asked[key] = value
		} else {
			own[key] = value
		}
	}
	spec.Host.Sysctls = own
	return thread.InNetworkAt(path, func() error {
		for key, value := range asked {
			file := filepath.Join("/proc/sys", strings.ReplaceAll(key, ".", "/"))
			err := os.WriteFile(file, []byte(value), 0)
			if errors.Is(err, fs.ErrNotExist) {
				return fault.Invalid("sysctl '%s' does not exist", key)
			}
			if err != nil {
				return fmt.Errorf("set sysctl %s: %w", key, err)
			}
		}
		return nil
	})
}
