package executor

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/moby/swarmkit/v2/api"

	"moss/api/types"
)

// newMounts returns the mounts of a task's container. Folders of the host are checked against the node's setting.
func newMounts(mounts []api.Mount, folders hostFolders) ([]types.MountConfig, error) {
	configs := make([]types.MountConfig, 0, len(mounts))
	for i := range mounts {
		config, err := newMount(&mounts[i], folders)
		if err != nil {
			return nil, fmt.Errorf("ContainerSpec.Mounts: mount at %s: %w", mounts[i].Target, err)
		}
		configs = append(configs, config)
	}
	return configs, nil
}

func newMount(m *api.Mount, folders hostFolders) (types.MountConfig, error) {
	config := types.MountConfig{Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly}
	var err error
	if config.Consistency, err = consistencyWord(m.Consistency); err != nil {
		return config, err
	}
	switch m.Type {
	case api.MountTypeBind:
		err = bindFolder(&config, m.BindOptions, folders)
	case api.MountTypeVolume:
		config.Type = "volume"
		if strings.HasPrefix(m.Source, hostVolume) {
			return config, fmt.Errorf("source %s: volumes of this name are for this node alone", m.Source)
		}
		config.VolumeOptions, err = newVolumeOptions(m.VolumeOptions)
	case api.MountTypeTmpfs:
		config.Type = "tmpfs"
		config.TmpfsOptions, err = newTmpfsOptions(m.TmpfsOptions)
	default:
		err = fmt.Errorf("moss does not support the type %s", strings.ToLower(m.Type.String()))
	}
	return config, err
}

// bindFolder completes a mount of a folder or file of the host: a bind of a listed folder, or a part of the volume that leads to
// one.
func bindFolder(config *types.MountConfig, o *api.Mount_BindOptions, folders hostFolders) error {
	options, err := newBindOptions(o)
	if err != nil {
		return err
	}
	folder, part, err := folders.locateSource(config.Source, options != nil && options.CreateMountpoint)
	if err != nil {
		return err
	}
	if part == "." {
		config.Type, config.Source, config.BindOptions = "bind", folder, options
		return nil
	}
	if options != nil && *options != (types.BindOptions{Propagation: "rprivate", CreateMountpoint: options.CreateMountpoint}) {
		return fmt.Errorf("BindOptions: what lies below a folder of this node's setting %s takes rprivate and CreateMountpoint only",
			settingName)
	}
	config.Type, config.Source = "volume", volumeOf(folder)
	config.VolumeOptions = &types.VolumeOptions{NoCopy: true, Subpath: part, DriverConfig: &types.DriverConfig{
		Name: "local", Options: map[string]string{"type": "none", "o": "bind", "device": folder},
	}}
	return nil
}

func consistencyWord(c api.Mount_MountConsistency) (string, error) {
	switch c {
	case api.MountConsistencyDefault:
		return "", nil
	case api.MountConsistencyFull:
		return "consistent", nil
	case api.MountConsistencyCached:
		return "cached", nil
	case api.MountConsistencyDelegated:
		return "delegated", nil
	}
	return "", fmt.Errorf("unknown Consistency %d", c)
}

func newBindOptions(o *api.Mount_BindOptions) (*types.BindOptions, error) {
	if o == nil {
		return nil, nil //nolint:nilnil // no options are none
	}
	words := map[api.Mount_BindOptions_MountPropagation]string{
		api.MountPropagationRPrivate: "rprivate", api.MountPropagationPrivate: "private",
		api.MountPropagationRShared: "rshared", api.MountPropagationShared: "shared",
		api.MountPropagationRSlave: "rslave", api.MountPropagationSlave: "slave",
	}
	word, ok := words[o.Propagation]
	if !ok {
		return nil, fmt.Errorf("BindOptions.Propagation: unknown value %d", o.Propagation)
	}
	return &types.BindOptions{
		Propagation: word, NonRecursive: o.NonRecursive, CreateMountpoint: o.CreateMountpoint,
		ReadOnlyNonRecursive: o.ReadOnlyNonRecursive, ReadOnlyForceRecursive: o.ReadOnlyForceRecursive,
	}, nil
}

func newVolumeOptions(o *api.Mount_VolumeOptions) (*types.VolumeOptions, error) {
	if o == nil {
		return nil, nil //nolint:nilnil // no options are none
	}
	options := &types.VolumeOptions{NoCopy: o.NoCopy, Labels: o.Labels, Subpath: o.Subpath}
	if d := o.DriverConfig; d != nil {
		if leadsElsewhere(d.Options) {
			return nil, errors.New("VolumeOptions.DriverConfig: a task's volume cannot lead to a folder of the host: use the type bind")
		}
		options.DriverConfig = &types.DriverConfig{Name: d.Name, Options: d.Options}
	}
	return options, nil
}

func newTmpfsOptions(o *api.Mount_TmpfsOptions) (*types.TmpfsOptions, error) {
	if o == nil {
		return nil, nil //nolint:nilnil // no options are none
	}
	options := &types.TmpfsOptions{SizeBytes: o.SizeBytes, Mode: uint32(o.Mode)}
	switch {
	case o.Options == "":
	case strings.HasPrefix(o.Options, "["): // as managers of newer versions write them
		if err := json.Unmarshal([]byte(o.Options), &options.Options); err != nil {
			return nil, fmt.Errorf("TmpfsOptions.Options: %w", err)
		}
	default:
		for word := range strings.SplitSeq(o.Options, ",") {
			options.Options = append(options.Options, strings.SplitN(word, "=", 2))
		}
	}
	return options, nil
}

// leadsElsewhere tells whether a volume's options make it a folder of the host.
func leadsElsewhere(options map[string]string) bool {
	return options["type"] != "tmpfs" && filepath.IsAbs(options["device"])
}
