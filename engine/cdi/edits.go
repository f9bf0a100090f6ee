package cdi

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"
	raw "tags.cncf.io/container-device-interface/specs-go"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/ocispec"
)

// edits are additions that grow.
type edits ocispec.Additions

func (e *edits) add(name string, more *raw.ContainerEdits) error {
	switch {
	case len(more.NetDevices) > 0:
		return fault.Unsupported("CDI device %s has network devices: only the machine's administrator can move them", name)
	case more.IntelRdt != nil:
		return fault.Unsupported("CDI device %s has limits of intelRdt: only the machine's administrator can set them", name)
	case slices.ContainsFunc(more.Env, hasZeroByte):
		return fault.Invalid("CDI device %s: a variable has a zero byte", name)
	case slices.Contains(more.AdditionalGIDs, math.MaxUint32):
		return fault.Invalid("CDI device %s: %d is no group", name, uint32(math.MaxUint32))
	}
	e.Env = append(e.Env, more.Env...)
	e.Groups = append(e.Groups, more.AdditionalGIDs...)
	for _, d := range more.DeviceNodes {
		from := cmp.Or(d.HostPath, d.Path)
		if !isPlace(from) || !isPlace(d.Path) {
			return fault.Invalid("CDI device %s: a device node from %q to %q", name, from, d.Path)
		}
		e.Devices = append(e.Devices, container.Device{
			PathOnHost: filepath.Clean(from), PathInContainer: filepath.Clean(d.Path),
			CgroupPermissions: cmp.Or(d.Permissions, "rwm"),
		})
	}
	for _, m := range more.Mounts {
		if err := e.addMount(m); err != nil {
			return fault.Invalid("CDI device %s: %w", name, err)
		}
	}
	for _, h := range more.Hooks {
		if err := e.addHook(h); err != nil {
			return fault.Invalid("CDI device %s: %w", name, err)
		}
	}
	return nil
}

// isPlace reports whether a path is the place of something below the root.
func isPlace(path string) bool {
	return filepath.IsAbs(path) && filepath.Clean(path) != "/" && !hasZeroByte(path)
}

func hasZeroByte(s string) bool { return strings.ContainsRune(s, 0) }

func (e *edits) addMount(m *raw.Mount) error {
	if !filepath.IsAbs(m.HostPath) || !isPlace(m.ContainerPath) || slices.ContainsFunc(m.Options, hasZeroByte) {
		return fmt.Errorf("a mount from %q to %q", m.HostPath, m.ContainerPath)
	}
	if _, err := os.Stat(m.HostPath); err != nil { // The runtime would say so too, but not of which device.
		return fmt.Errorf("a mount from %q to %q: %w", m.HostPath, m.ContainerPath, err)
	}
	e.Mounts = append(e.Mounts, specs.Mount{
		Source: filepath.Clean(m.HostPath), Destination: filepath.Clean(m.ContainerPath), Type: cmp.Or(m.Type, "bind"),
		Options: bindOptions(m.Options),
	})
	return nil
}

// bindOptions makes sure that a mount is a bind.
func bindOptions(options []string) []string {
	if slices.Contains(options, "bind") || slices.Contains(options, "rbind") {
		return slices.Clone(options)
	}
	return append([]string{"rbind"}, options...)
}

// addHook adds a program that the runtime calls. It is the user's own or the administrator's: files of others do not count.
func (e *edits) addHook(h *raw.Hook) error {
	if e.Hooks == nil {
		e.Hooks = &specs.Hooks{}
	}
	into := map[string]*[]specs.Hook{
		cdi.PrestartHook:        &e.Hooks.Prestart, //nolint:staticcheck // files of today name it
		cdi.CreateRuntimeHook:   &e.Hooks.CreateRuntime,
		cdi.CreateContainerHook: &e.Hooks.CreateContainer,
		cdi.StartContainerHook:  &e.Hooks.StartContainer,
		cdi.PoststartHook:       &e.Hooks.Poststart, cdi.PoststopHook: &e.Hooks.Poststop,
	}[h.HookName]
	switch {
	case into == nil:
		return fmt.Errorf("no hook %q is there", h.HookName)
	case !isPlace(h.Path) || slices.ContainsFunc(slices.Concat(h.Args, h.Env), hasZeroByte):
		return fmt.Errorf("the hook %s calls %q", h.HookName, h.Path)
	case h.Timeout != nil && *h.Timeout <= 0:
		return fmt.Errorf("the hook %s has the timeout %d", h.HookName, *h.Timeout)
	}
	if h.HookName != cdi.StartContainerHook { // That one is a program of the container's.
		if _, err := os.Stat(h.Path); err != nil {
			return fmt.Errorf("the hook %s: %w", h.HookName, err)
		}
	}
	*into = append(*into, specs.Hook{Path: h.Path, Args: h.Args, Env: h.Env, Timeout: h.Timeout})
	return nil
}
