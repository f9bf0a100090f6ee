package object

import (
	"encoding/json"
	"os"
	"path"

	"github.com/moby/swarmkit/v2/api"

	"moss/api/types"
	"moss/engine/container"
)

var mountTypes = []option[api.Mount_MountType]{ //nolint:gochecknoglobals // a constant
	{"bind", api.MountTypeBind},
	{"volume", api.MountTypeVolume},
	{"tmpfs", api.MountTypeTmpfs},
}

var consistencies = []option[api.Mount_MountConsistency]{ //nolint:gochecknoglobals // a constant
	{"default", api.MountConsistencyDefault},
	{"consistent", api.MountConsistencyFull},
	{"cached", api.MountConsistencyCached},
	{"delegated", api.MountConsistencyDelegated},
}

var propagations = []option[api.Mount_BindOptions_MountPropagation]{ //nolint:gochecknoglobals // a constant
	{"rprivate", api.MountPropagationRPrivate},
	{"private", api.MountPropagationPrivate},
	{"rshared", api.MountPropagationRShared},
	{"shared", api.MountPropagationShared},
	{"rslave", api.MountPropagationRSlave},
	{"slave", api.MountPropagationSlave},
}

func toMounts(field string, asked []types.MountConfig) ([]api.Mount, error) {
	mounts := make([]api.Mount, 0, len(asked))
	targets := map[string]bool{}
	for i := range asked {
		one := indexField(field, i)
		mount, err := toMount(one, &asked[i])
		if err != nil {
			return nil, err
		}
		target := path.Clean(mount.Target)
		if targets[target] {
			return nil, refuseField(one+".Target", "duplicate mount point: %s", mount.Target)
		}
		targets[target] = true
		mounts = append(mounts, mount)
	}
	if len(mounts) == 0 {
		return nil, nil
	}
	return mounts, nil
}

func toMount(field string, m *types.MountConfig) (api.Mount, error) {
	kind, err := toOption(field+".Type", m.Type, mountTypes)
	if err != nil {
		return api.Mount{}, err
	}
	consistency, err := toOption(field+".Consistency", m.Consistency, consistencies)
	if err != nil {
		return api.Mount{}, err
	}
	if err := checkMount(field, m, kind); err != nil {
		return api.Mount{}, err
	}
	mount := api.Mount{Type: kind, Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly, Consistency: consistency}
	if o := m.BindOptions; o != nil {
		propagation, err := toOption(field+".BindOptions.Propagation", o.Propagation, propagations)
		if err != nil {
			return api.Mount{}, err
		}
		mount.BindOptions = &api.Mount_BindOptions{
			Propagation: propagation, NonRecursive: o.NonRecursive, CreateMountpoint: o.CreateMountpoint,
			ReadOnlyNonRecursive: o.ReadOnlyNonRecursive, ReadOnlyForceRecursive: o.ReadOnlyForceRecursive,
		}
	}
	if o := m.VolumeOptions; o != nil {
		mount.VolumeOptions = &api.Mount_VolumeOptions{NoCopy: o.NoCopy, Labels: o.Labels, Subpath: o.Subpath}
		if o.DriverConfig != nil {
			mount.VolumeOptions.DriverConfig = &api.Driver{Name: o.DriverConfig.Name, Options: o.DriverConfig.Options}
		}
	}
	if o := m.TmpfsOptions; o != nil {
		mount.TmpfsOptions = &api.Mount_TmpfsOptions{
			SizeBytes: o.SizeBytes, Mode: os.FileMode(o.Mode), Options: packOptions(o.Options),
		}
	}
	return mount, nil
}

// checkMount refuses what no node could mount. A part that is a template counts as a proper one.
func checkMount(field string, m *types.MountConfig, kind api.Mount_MountType) error {
	asked := container.MountConfig{
		Type: newOption(kind, mountTypes), Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly,
		BindOptions:    (*container.BindOptions)(m.BindOptions),
		TmpfsOptions:   (*container.TmpfsOptions)(m.TmpfsOptions),
		ImageOptions:   (*container.ImageMountOptions)(m.ImageOptions),
		ClusterOptions: m.ClusterOptions,
	}
	if o := m.VolumeOptions; o != nil {
		asked.VolumeOptions = &container.VolumeOptions{
			NoCopy: o.NoCopy, Labels: o.Labels, Subpath: o.Subpath, DriverConfig: (*container.DriverConfig)(o.DriverConfig),
		}
	}
	if isTemplate(m.Source) {
		asked.Source = "/template"
		if kind == api.MountTypeVolume {
			asked.Source = "template"
		}
	}
	if isTemplate(m.Target) {
		asked.Target = "/template"
	}
	if err := asked.Check(); err != nil {
		return refuseField(field, "%v", err)
	}
	return nil
}

func newMount(m *api.Mount) types.MountConfig {
	mount := types.MountConfig{
		Type: newOption(m.Type, mountTypes), Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly,
	}
	if m.Consistency != api.MountConsistencyDefault {
		mount.Consistency = newOption(m.Consistency, consistencies)
	}
	if o := m.BindOptions; o != nil {
		mount.BindOptions = &types.BindOptions{
			Propagation: newOption(o.Propagation, propagations), NonRecursive: o.NonRecursive, CreateMountpoint: o.CreateMountpoint,
			ReadOnlyNonRecursive: o.ReadOnlyNonRecursive, ReadOnlyForceRecursive: o.ReadOnlyForceRecursive,
		}
	}
	if o := m.VolumeOptions; o != nil {
		mount.VolumeOptions = &types.VolumeOptions{NoCopy: o.NoCopy, Labels: o.Labels, Subpath: o.Subpath}
		if o.DriverConfig != nil {
			mount.VolumeOptions.DriverConfig = &types.DriverConfig{Name: o.DriverConfig.Name, Options: o.DriverConfig.Options}
		}
	}
	if o := m.TmpfsOptions; o != nil {
		mount.TmpfsOptions = &types.TmpfsOptions{
			SizeBytes: o.SizeBytes, Mode: uint32(o.Mode), Options: unpackOptions(o.Options),
		}
	}
	return mount
}

// packOptions writes the options of a tmpfs as JSON: SwarmKit has one text for them.
func packOptions(options [][]string) string {
	if len(options) == 0 {
		return ""
	}
	raw, err := json.Marshal(options)
	if err != nil {
		return "" // lists of strings can be marshalled
	}
	return string(raw)
}

// unpackOptions reads what packOptions has written, nil for another text.
func unpackOptions(text string) [][]string {
	var options [][]string
	if json.Unmarshal([]byte(text), &options) != nil {
		return nil
	}
	return options
}
