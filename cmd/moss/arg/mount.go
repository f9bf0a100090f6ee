package arg

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"moss/api/types"
)

// Mount parses one --mount value: fields as in a line of CSV, each KEY=VALUE or a flag. A source that starts with a dot is
// made absolute from dir.
func Mount(text, dir string) (types.MountConfig, error) {
	m := mount{MountConfig: types.MountConfig{Type: "volume"}}
	fields, err := readFields(text)
	for _, field := range fields {
		if err != nil {
			break
		}
		key, value, given := strings.Cut(field, "=")
		err = m.setField(strings.ToLower(strings.TrimSpace(key)), value, given)
	}
	if err == nil {
		err = m.finishMount(dir)
	}
	if err != nil {
		return types.MountConfig{}, fmt.Errorf("mount %q: %w", text, err)
	}
	return m.MountConfig, nil
}

// readFields reads a line of CSV.
func readFields(text string) ([]string, error) {
	line := csv.NewReader(strings.NewReader(text))
	fields, err := line.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("nothing is in it")
	}
	if err != nil {
		return nil, err
	}
	if _, more := line.Read(); !errors.Is(more, io.EOF) {
		return nil, errors.New("it has more than one line")
	}
	return fields, nil
}

// mount is a MountConfig in the making.
type mount struct {
	types.MountConfig
	recursive string // bind-recursive
}

func (m *mount) bindOptions() *types.BindOptions {
	if m.BindOptions == nil {
		m.BindOptions = &types.BindOptions{}
	}
	return m.BindOptions
}

func (m *mount) volumeOptions() *types.VolumeOptions {
	if m.VolumeOptions == nil {
		m.VolumeOptions = &types.VolumeOptions{}
	}
	return m.VolumeOptions
}

func (m *mount) driverConfig() *types.DriverConfig {
	if m.volumeOptions().DriverConfig == nil {
		m.volumeOptions().DriverConfig = &types.DriverConfig{}
	}
	return m.volumeOptions().DriverConfig
}

func (m *mount) tmpfsOptions() *types.TmpfsOptions {
	if m.TmpfsOptions == nil {
		m.TmpfsOptions = &types.TmpfsOptions{}
	}
	return m.TmpfsOptions
}

// setField takes one field. given tells "key=" from "key".
func (m *mount) setField(key, value string, given bool) error {
	if flag := m.flagField(key); flag != nil {
		return setFlag(flag, key, value, given)
	}
	if !given {
		return fmt.Errorf("%q: want KEY=VALUE", key)
	}
	switch key {
	case "type":
		m.Type = strings.ToLower(value)
	case "source", "src":
		m.Source = value
	case "target", "destination", "dst":
		m.Target = value
	case "consistency":
		m.Consistency = strings.ToLower(value)
	case "bind-propagation":
		m.bindOptions().Propagation = strings.ToLower(value)
	case "bind-recursive":
		m.recursive = value
		return m.setRecursive()
	case "volume-subpath":
		m.volumeOptions().Subpath = value
	case "volume-label":
		return addPair(&m.volumeOptions().Labels, value)
	case "volume-driver":
		m.driverConfig().Name = value
	case "volume-opt":
		return addPair(&m.driverConfig().Options, value)
	case "image-subpath":
		m.ImageOptions = &types.ImageMountOptions{Subpath: value}
	case "tmpfs-size":
		size, err := Bytes(value)
		if err != nil {
			return fmt.Errorf("tmpfs-size: %w", err)
		}
		m.tmpfsOptions().SizeBytes = size
	case "tmpfs-mode":
		mode, err := strconv.ParseUint(value, 8, 12)
		if err != nil {
			return fmt.Errorf("tmpfs-mode %q: want up to four octal digits", value)
		}
		m.tmpfsOptions().Mode = uint32(mode)
	default:
		return fmt.Errorf("unknown key %q", key)
	}
	return nil
}

// flagField returns the setting of a key that may stand alone; nil for another key.
func (m *mount) flagField(key string) *bool {
	switch key {
	case "readonly", "ro":
		return &m.ReadOnly
	case "volume-nocopy":
		return &m.volumeOptions().NoCopy
	case "bind-nonrecursive":
		return &m.bindOptions().NonRecursive
	case "bind-create-src":
		return &m.bindOptions().CreateMountpoint
	default:
		return nil
	}
}

func setFlag(flag *bool, key, value string, given bool) error {
	if !given {
		*flag = true
		return nil
	}
	on, err := strconv.ParseBool(value)
	if err != nil {
		return fmt.Errorf("%s %q: want true or false", key, value)
	}
	*flag = on
	return nil
}

func (m *mount) setRecursive() error {
	o := m.bindOptions()
	o.NonRecursive, o.ReadOnlyNonRecursive, o.ReadOnlyForceRecursive = false, false, false
	switch m.recursive {
	case "enabled":
	case "disabled":
		o.NonRecursive = true
	case "writable":
		o.ReadOnlyNonRecursive = true
	case "readonly":
		o.ReadOnlyForceRecursive = true
	default:
		return fmt.Errorf("bind-recursive %q: want enabled, disabled, writable or readonly", m.recursive)
	}
	return nil
}

func addPair(to *map[string]string, text string) error {
	if *to == nil {
		*to = map[string]string{}
	}
	key, value, _ := strings.Cut(text, "=")
	if key == "" {
		return fmt.Errorf("%q: want KEY=VALUE", text)
	}
	(*to)[key] = value
	return nil
}

// finishMount checks what the fields say together, and makes a relative source absolute.
func (m *mount) finishMount(dir string) error {
	if m.Target == "" {
		return errors.New("a target is needed: target=PATH")
	}
	for _, options := range []struct {
		given bool
		kind  string
	}{
		{m.BindOptions != nil, "bind"},
		{m.VolumeOptions != nil, "volume"},
		{m.TmpfsOptions != nil, "tmpfs"},
		{m.ImageOptions != nil, "image"},
	} {
		if options.given && m.Type != options.kind {
			return fmt.Errorf("%s-… is not for type %s", options.kind, m.Type)
		}
	}
	if m.recursive == "readonly" && (!m.ReadOnly || m.BindOptions.Propagation != "rprivate") {
		return errors.New("bind-recursive=readonly needs readonly and bind-propagation=rprivate")
	}
	if m.Type == "bind" && strings.HasPrefix(m.Source, ".") {
		m.Source = filepath.Join(dir, m.Source)
	}
	return nil
}
