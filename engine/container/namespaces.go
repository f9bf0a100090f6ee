package container

import (
	"strings"

	"moss/engine/fault"
)

// Ipc says whose shared memory and semaphores a container uses.
type Ipc int

// The choices of IpcMode.
const (
	IpcPrivate   Ipc = iota // its own, with /dev/shm
	IpcNone                 // its own, without /dev/shm
	IpcHost                 // the host's
	IpcContainer            // those of the container that Join names
)

// cgroupnsHost is the CgroupnsMode of a container that sees the cgroups of the engine.
const cgroupnsHost = "host"

// SharesCgroupns reports whether a container has no cgroup namespace of its own.
func (h *HostConfig) SharesCgroupns() bool { return h.CgroupnsMode == cgroupnsHost }

// utsHost is the UTSMode of a container that shares the host's name.
const utsHost = "host"

// joinPrefix begins a mode that names the container whose namespace is meant.
const joinPrefix = "container:"

// Join names the containers whose namespaces a container enters; an empty one is its own or the host's. At create they
// are what the client wrote, in a record ids.
type Join struct {
	Network string
	Pid     string
	Ipc     string
}

// joinedContainer returns the container that a mode names. ok is false for other modes; a mode without a name is fault.Invalid.
func joinedContainer(field, mode string) (name string, ok bool, err error) {
	name, ok = strings.CutPrefix(mode, joinPrefix)
	if !ok {
		return "", false, nil
	}
	if name == "" {
		return "", false, fault.Invalid("%s: invalid container format container:<name|id>", field)
	}
	return name, ok, nil
}

// JoinMode is the mode of a container that enters a namespace of the one with the given id.
func JoinMode(id string) string { return joinPrefix + id }

// SharesIpc reports whether others may use a container's shared memory. Older clients leave the mode open and expect to.
func (h *HostConfig) SharesIpc() bool { return h.IpcMode != "private" && h.IpcMode != "none" }

// checkNamespaces resolves PidMode, IpcMode, UTSMode and CgroupnsMode.
func checkNamespaces(d *draft) (err error) {
	h := &d.Host
	var other bool
	if d.Join.Pid, other, err = joinedContainer("PidMode: invalid PID mode", h.PidMode); err != nil {
		return err
	}
	switch {
	case other, h.PidMode == "", h.PidMode == "private":
	case h.PidMode == "host":
		d.PidHost = true
	default:
		return fault.Invalid("PidMode: invalid PID mode: %s", h.PidMode)
	}
	if d.Join.Ipc, other, err = joinedContainer("IpcMode: invalid IPC mode", h.IpcMode); err != nil {
		return err
	}
	switch {
	case other:
		d.Ipc = IpcContainer
	case h.IpcMode == "", h.IpcMode == "private", h.IpcMode == "shareable":
	case h.IpcMode == "none":
		d.Ipc = IpcNone
	case h.IpcMode == "host":
		d.Ipc = IpcHost
	default:
		return fault.Invalid("IpcMode: invalid IPC mode: %s", h.IpcMode)
	}
	switch h.CgroupnsMode {
	case "", "private", cgroupnsHost:
	default:
		return fault.Invalid("CgroupnsMode: invalid cgroup namespace mode: %s", h.CgroupnsMode)
	}
	return d.checkUTS()
}

func (d *draft) checkUTS() error {
	switch d.Host.UTSMode {
	case "", "private":
	case utsHost:
		d.UTSHost = true
		if d.Config.Hostname != "" {
			return fault.Invalid("Conflicting options: hostname and the UTS mode")
		}
		if d.Config.Domainname != "" {
			return fault.Invalid("Conflicting options: domainname and the UTS mode")
		}
	default:
		return fault.Invalid("UTSMode: invalid UTS mode: %s", d.Host.UTSMode)
	}
	return nil
}
