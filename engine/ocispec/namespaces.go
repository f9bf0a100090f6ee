package ocispec

import (
	"maps"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/opencontainers/runtime-tools/generate"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/network"
)

// setNamespaces chooses the namespaces, the host name and the kernel parameters in them. There is no user namespace unless
// the container has ids of its own: the runtime already runs in the user's.
func (b *Builder) setNamespaces(gen *generate.Generator, in *Input) error {
	s := in.Spec
	list := []specs.LinuxNamespace{{Type: specs.MountNamespace}}
	if !s.Host.SharesCgroupns() {
		list = append(list, specs.LinuxNamespace{Type: specs.CgroupNamespace})
	}
	if !s.PidHost {
		list = append(list, specs.LinuxNamespace{Type: specs.PIDNamespace, Path: in.Join.Pid})
	}
	if s.Ipc == container.IpcContainer && (in.Join.Ipc == "" || in.Join.Shm == "") {
		return fault.Internal("container %s is to share memory with nobody", in.ID)
	}
	if s.Ipc != container.IpcHost {
		list = append(list, specs.LinuxNamespace{Type: specs.IPCNamespace, Path: in.Join.Ipc})
	}
	sysctls := maps.Clone(s.Host.Sysctls)
	if sysctls == nil {
		sysctls = make(map[string]string, 2)
	}
	if !s.UTSHost {
		list = append(list, specs.LinuxNamespace{Type: specs.UTSNamespace})
		gen.SetHostname(s.Hostname(in.ID, in.HostName))
		gen.SetDomainName(s.Config.Domainname) // later than ociVersion, but the parameter under /proc/sys is not the user's
	}
	switch in.Sandbox.Mode {
	case network.Host:
	case network.Container:
		if in.Join.Network == "" {
			return fault.Internal("container %s is to share a network with nobody", in.ID)
		}
		list = append(list, specs.LinuxNamespace{Type: specs.NetworkNamespace, Path: in.Join.Network})
	case network.None, network.Bridge:
		if in.Sandbox.Mode == network.Bridge && in.Sandbox.Path == "" {
			return fault.Internal("network of container %s has no namespace", in.ID)
		}
		list = append(list, specs.LinuxNamespace{Type: specs.NetworkNamespace, Path: in.Sandbox.Path})
		if in.IDMap != nil && in.Sandbox.Path != "" { // the namespace is the engine's, and already as it should be
			break
		}
		const lowPorts = "net.ipv4.ip_unprivileged_port_start"
		if _, asked := sysctls[lowPorts]; !asked {
			sysctls[lowPorts] = "0" // users other than root may serve port 80; the ports are the container's own
		}
	default:
		return fault.Internal("network of container %s has mode %q", in.ID, in.Sandbox.Mode)
	}
	if in.IDMap != nil {
		list = append(list, specs.LinuxNamespace{Type: specs.UserNamespace})
		gen.Config.Linux.UIDMappings, gen.Config.Linux.GIDMappings = idMappings(in.IDMap.UIDs), idMappings(in.IDMap.GIDs)
	}
	gen.Config.Linux.Namespaces = list
	if len(sysctls) > 0 {
		gen.Config.Linux.Sysctl = sysctls
	}
	return nil
}

func idMappings(ranges []container.IDRange) []specs.LinuxIDMapping {
	maps := make([]specs.LinuxIDMapping, 0, len(ranges))
	for _, r := range ranges {
		maps = append(maps, specs.LinuxIDMapping{ContainerID: r.Inside, HostID: r.Outside, Size: r.Count})
	}
	return maps
}
