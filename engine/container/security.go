package container

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	"moss/engine/fault"
)

// Caps are the changes to the default capabilities; names are upper-case with CAP_, or ALL.
type Caps struct {
	Add  []string
	Drop []string
}

// Security are the checked SecurityOpt and path settings.
type Security struct {
	NoNewPrivileges bool
	Seccomp         string   // empty: the default profile; SeccompUnconfined; otherwise the profile's JSON
	MaskedPaths     []string // see SystemPaths
	ReadonlyPaths   []string
}

// SeccompUnconfined runs a container without a filter.
const SeccompUnconfined = "unconfined"

// Capabilities lists the kernel's capabilities in their order (capabilities(7)).
func Capabilities() []string {
	return []string{
		"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_SETGID",
		"CAP_SETUID", "CAP_SETPCAP", "CAP_LINUX_IMMUTABLE", "CAP_NET_BIND_SERVICE", "CAP_NET_BROADCAST",
		"CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_IPC_LOCK", "CAP_IPC_OWNER", "CAP_SYS_MODULE", "CAP_SYS_RAWIO",
		"CAP_SYS_CHROOT", "CAP_SYS_PTRACE", "CAP_SYS_PACCT", "CAP_SYS_ADMIN", "CAP_SYS_BOOT", "CAP_SYS_NICE",
		"CAP_SYS_RESOURCE", "CAP_SYS_TIME", "CAP_SYS_TTY_CONFIG", "CAP_MKNOD", "CAP_LEASE", "CAP_AUDIT_WRITE",
		"CAP_AUDIT_CONTROL", "CAP_SETFCAP", "CAP_MAC_OVERRIDE", "CAP_MAC_ADMIN", "CAP_SYSLOG", "CAP_WAKE_ALARM",
		"CAP_BLOCK_SUSPEND", "CAP_AUDIT_READ", "CAP_PERFMON", "CAP_BPF", "CAP_CHECKPOINT_RESTORE",
	}
}

// AllCapabilities in CapAdd or CapDrop stands for every capability.
const AllCapabilities = "ALL"

// checkCaps brings capability names into one form.
func checkCaps(d *draft) error {
	known := Capabilities()
	parse := func(field string, names []string) ([]string, error) {
		var list []string
		for _, name := range names {
			upper := strings.ToUpper(strings.TrimSpace(name))
			if upper == AllCapabilities || upper == "CAP_ALL" {
				list = append(list, AllCapabilities)
				continue
			}
			if !strings.HasPrefix(upper, "CAP_") {
				upper = "CAP_" + upper
			}
			if !slices.Contains(known, upper) {
				return nil, fault.Invalid("invalid %s: unknown capability: %q", field, name)
			}
			list = append(list, upper)
		}
		return list, nil
	}
	var err error
	if d.Caps.Add, err = parse("CapAdd", d.Host.CapAdd); err != nil {
		return err
	}
	d.Caps.Drop, err = parse("CapDrop", d.Host.CapDrop)
	return err
}

// checkSecurity reads SecurityOpt ("name=value", or "name:value" as older clients write it) and the masked paths.
func checkSecurity(d *draft) error {
	for field, paths := range map[string]*[]string{"MaskedPaths": d.Host.MaskedPaths, "ReadonlyPaths": d.Host.ReadonlyPaths} {
		if paths == nil {
			continue
		}
		for _, p := range *paths {
			if !isHostPath(p) {
				return fault.Invalid("invalid %s %q: expected an absolute path", field, p)
			}
		}
	}
	d.Security.MaskedPaths, d.Security.ReadonlyPaths = d.Host.SystemPaths()
	for _, option := range d.Host.SecurityOpt {
		if err := d.securityOption(option); err != nil {
			return prefixField("SecurityOpt", err)
		}
	}
	return nil
}

// SystemPaths returns the paths of the host's that are hidden from a container, and those that it can only read: what of /proc
// and /sys speaks of the host, unless the client has named others or none. A privileged container sees and writes them all.
func (h *HostConfig) SystemPaths() (masked, readonly []string) {
	for _, option := range h.SecurityOpt {
		if option == "systempaths=unconfined" || option == "systempaths:unconfined" {
			return []string{}, []string{}
		}
	}
	masked = []string{
		"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
		"/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/devices/virtual/powercap",
		"/sys/firmware",
	}
	readonly = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
	if h.MaskedPaths != nil {
		masked = *h.MaskedPaths
	}
	if h.ReadonlyPaths != nil {
		readonly = *h.ReadonlyPaths
	}
	return masked, readonly
}

func (d *draft) securityOption(option string) error {
	at := strings.IndexAny(option, "=:")
	name, value := option, ""
	if at >= 0 {
		name, value = option[:at], option[at+1:]
	}
	switch name {
	case "no-new-privileges":
		switch value {
		case "", "true":
			d.Security.NoNewPrivileges = true
			return nil
		case "false":
			d.Security.NoNewPrivileges = false
			return nil
		}
	case "seccomp":
		return d.seccompOption(value)
	case "apparmor", "label":
		if value != SeccompUnconfined && value != "disable" {
			d.addWarning("SecurityOpt %s has no effect: the container runs without %s.", option, moduleOf(name))
		}
		return nil
	case "systempaths":
		if value == SeccompUnconfined { // it is SystemPaths that looks for it
			return nil
		}
	}
	return fault.Invalid("invalid --security-opt: %q", option)
}

func moduleOf(option string) string {
	if option == "apparmor" {
		return "AppArmor"
	}
	return "SELinux"
}

// maxSeccompProfile bounds a client's profile in bytes. The default one has 15 thousand.
const maxSeccompProfile = 1 << 20

func (d *draft) seccompOption(value string) error {
	switch value {
	case SeccompUnconfined:
		d.Security.Seccomp = SeccompUnconfined
		return nil
	case "builtin", "runtime/default":
		d.Security.Seccomp = ""
		return nil
	}
	var profile map[string]json.RawMessage
	if len(value) > maxSeccompProfile {
		return fault.Invalid("invalid seccomp profile: %d bytes, at most %d are allowed", len(value), maxSeccompProfile)
	}
	if err := json.Unmarshal([]byte(value), &profile); err != nil || profile == nil {
		return fault.Invalid("invalid seccomp profile: expected unconfined, builtin or a profile as JSON")
	}
	d.Security.Seccomp = value
	return nil
}

// checkSysctls allows namespaced kernel parameters only, and only where the container has that namespace.
func checkSysctls(d *draft) error {
	for key, value := range d.Host.Sysctls {
		if !isSysctlName(key) || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return fault.Invalid("invalid sysctl %q=%q", key, value)
		}
		var shared bool
		switch {
		case strings.HasPrefix(key, "net."):
			shared = d.Network == NetworkHost
		case strings.HasPrefix(key, "fs.mqueue."), isIPCSysctl(key):
			shared = d.Ipc == IpcHost
		default:
			return fault.Invalid("sysctl '%s' is not allowed", key)
		}
		if shared {
			return fault.Invalid("sysctl '%s' is not allowed: the container shares that namespace with the host", key)
		}
	}
	return nil
}

func isIPCSysctl(key string) bool {
	return slices.Contains([]string{
		"kernel.msgmax", "kernel.msgmnb", "kernel.msgmni", "kernel.sem", "kernel.shmall", "kernel.shmmax",
		"kernel.shmmni", "kernel.shm_rmid_forced",
	}, key)
}

// isSysctlName keeps a key from leaving /proc/sys when its dots become slashes.
func isSysctlName(key string) bool {
	for part := range strings.SplitSeq(key, ".") {
		if part == "" || strings.Trim(part, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
			return false
		}
	}
	return path.Clean(key) == key
}
