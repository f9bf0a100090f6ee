package container

import (
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"moss/engine/fault"
)

// MountConfig asks for one mount, as later versions of the API do beside Binds, Volumes and Tmpfs. Options of another type
// than its own are fault.Invalid.
type MountConfig struct {
	Type           string             // bind, volume, tmpfs or image
	Source         string             `json:",omitempty"` // a path of the host, or a name; empty for an anonymous volume
	Target         string             // absolute path in the container
	ReadOnly       bool               `json:",omitempty"`
	Consistency    string             `json:",omitempty"` // a hint for hosts that are not Linux
	BindOptions    *BindOptions       `json:",omitempty"`
	VolumeOptions  *VolumeOptions     `json:",omitempty"`
	TmpfsOptions   *TmpfsOptions      `json:",omitempty"`
	ImageOptions   *ImageMountOptions `json:",omitempty"`
	ClusterOptions *struct{}          `json:",omitempty"`
}

// BindOptions are what a MountConfig of a host path may say.
type BindOptions struct {
	Propagation            string `json:",omitempty"` // empty: rprivate
	NonRecursive           bool   `json:",omitempty"` // without what is mounted below the source
	CreateMountpoint       bool   `json:",omitempty"` // a missing source is made
	ReadOnlyNonRecursive   bool   `json:",omitempty"` // what is mounted below the source stays writable
	ReadOnlyForceRecursive bool   `json:",omitempty"` // an error where that cannot be read-only as well
}

// VolumeOptions are what a MountConfig of a volume may say. Labels and DriverConfig are for a volume that is made for it.
type VolumeOptions struct {
	NoCopy       bool              `json:",omitempty"`
	Labels       map[string]string `json:",omitempty"`
	DriverConfig *DriverConfig     `json:",omitempty"`
	Subpath      string            `json:",omitempty"` // of the volume, to mount instead of its root
}

// DriverConfig is a volume's driver with its options.
type DriverConfig struct {
	Name    string            `json:",omitempty"`
	Options map[string]string `json:",omitempty"`
}

// TmpfsOptions are what a MountConfig of a file system in memory may say.
type TmpfsOptions struct {
	SizeBytes int64      `json:",omitempty"`
	Mode      uint32     `json:",omitempty"`
	Options   [][]string `json:",omitempty"` // each a flag, or a name and its value
}

// ImageMountOptions are what a MountConfig of an image's files may say.
type ImageMountOptions struct {
	Subpath string `json:",omitempty"` // of the image, to mount instead of its root
}

// BindTerms are what only a MountConfig asks of a host path.
type BindTerms struct {
	MustExist              bool `json:",omitempty"` // a missing source is an error, not made
	NonRecursive           bool `json:",omitempty"`
	ReadOnlyNonRecursive   bool `json:",omitempty"`
	ReadOnlyForceRecursive bool `json:",omitempty"`
}

// VolumeTerms are what only a MountConfig asks of a volume.
type VolumeTerms struct {
	Subpath string            `json:",omitempty"` // relative and local, cleaned
	Labels  map[string]string `json:",omitempty"` // of the volume if it is made
	Options map[string]string `json:",omitempty"` // of its driver, likewise
}

// ImageTerms tell what is mounted of an image.
type ImageTerms struct {
	ImageID string `json:",omitempty"` // sha256:…; empty until it was looked up
	Subpath string `json:",omitempty"` // relative and local, cleaned
}

// checkMountConfigs parses Mounts. take refuses a destination that is in use.
func (d *draft) checkMountConfigs(take func(dst string) error) error {
	for i := range d.Host.Mounts {
		asked := &d.Host.Mounts[i]
		dst, err := asked.checkFields()
		if err == nil {
			err = take(dst)
		}
		if err != nil {
			return prefixField("Mounts", err)
		}
		switch asked.Type {
		case mountBind:
			b := asked.toBind(dst)
			d.warnShared(b)
			d.Binds = append(d.Binds, b)
		case mountVolume:
			d.Volumes = append(d.Volumes, asked.toVolume(dst))
		case mountTmpfs:
			t, err := asked.toTmpfs(dst)
			if err != nil {
				return prefixField("Mounts", asked.invalidField("TmpfsOptions: %v", err))
			}
			d.Tmpfs = append(d.Tmpfs, t)
		case mountImage:
			d.Images = append(d.Images, asked.toImage(dst))
		}
	}
	return nil
}

// Check returns why no container can have the mount, nil if one can. The error is fault.Invalid, or fault.Unsupported for a type
// that other engines have.
func (c *MountConfig) Check() error {
	dst, err := c.checkFields()
	if err != nil || c.Type != mountTmpfs {
		return err
	}
	if _, err := c.toTmpfs(dst); err != nil {
		return c.invalidField("TmpfsOptions: %v", err)
	}
	return nil
}

// invalidField is the answer to a mount that cannot be, in the words that clients know.
func (c *MountConfig) invalidField(format string, args ...any) error {
	return fault.Invalid("invalid mount config for type %q: "+format, append([]any{c.Type}, args...)...)
}

// checkFields validates all but the options of a tmpfs and returns the cleaned target.
func (c *MountConfig) checkFields() (dst string, err error) {
	if slices.Contains([]string{"npipe", "cluster"}, c.Type) {
		return "", unsupportedSetting("Type", c.Type)
	}
	if !slices.Contains([]string{mountBind, mountVolume, mountTmpfs, mountImage}, c.Type) {
		return "", fault.Invalid("mount type unknown: %q", c.Type)
	}
	if c.Target == "" {
		return "", c.invalidField("field Target must not be empty")
	}
	if dst, err = cleanDestination(c.Target, c.Target); err != nil {
		return "", c.invalidField("Target: %v", err)
	}
	if !slices.Contains([]string{"", "default", "consistent", "cached", "delegated"}, c.Consistency) {
		return "", c.invalidField("Consistency %q: want consistent, cached or delegated", c.Consistency)
	}
	for _, other := range []struct {
		given bool
		field string
	}{
		{c.BindOptions != nil && c.Type != mountBind, "BindOptions"},
		{c.VolumeOptions != nil && c.Type != mountVolume, "VolumeOptions"},
		{c.TmpfsOptions != nil && c.Type != mountTmpfs, "TmpfsOptions"},
		{c.ImageOptions != nil && c.Type != mountImage, "ImageOptions"},
		{c.ClusterOptions != nil, "ClusterOptions"},
		{c.Source != "" && c.Type == mountTmpfs, "Source"},
	} {
		if other.given {
			return "", c.invalidField("field %s must not be specified", other.field)
		}
	}
	return dst, c.checkOptions()
}

func (c *MountConfig) checkOptions() error {
	switch c.Type {
	case mountBind:
		return c.checkBind()
	case mountVolume:
		return c.checkVolume()
	case mountImage:
		return c.checkImage()
	default:
		return nil
	}
}

func (c *MountConfig) checkBind() error {
	switch {
	case c.Source == "":
		return c.invalidField("field Source must not be empty")
	case !path.IsAbs(c.Source) || strings.ContainsRune(c.Source, 0):
		return c.invalidField("invalid mount path: '%s' mount path must be absolute: Source", c.Source)
	}
	o := c.BindOptions
	switch {
	case o == nil:
		return nil
	case o.Propagation != "" && !isPropagation(o.Propagation):
		return c.invalidField("invalid propagation mode: %s: BindOptions.Propagation", o.Propagation)
	case o.ReadOnlyForceRecursive && !c.ReadOnly:
		return c.invalidField("BindOptions.ReadOnlyForceRecursive is for ReadOnly mounts")
	case o.ReadOnlyNonRecursive && !c.ReadOnly:
		return c.invalidField("BindOptions.ReadOnlyNonRecursive is for ReadOnly mounts")
	case o.ReadOnlyForceRecursive && (o.ReadOnlyNonRecursive || o.NonRecursive):
		return c.invalidField("BindOptions.ReadOnlyForceRecursive excludes ReadOnlyNonRecursive and NonRecursive")
	}
	return nil
}

func isPropagation(s string) bool {
	return slices.Contains([]string{"private", "rprivate", "shared", "rshared", "slave", "rslave"}, s)
}

func (c *MountConfig) checkVolume() error {
	if c.Source != "" {
		if _, err := CheckName(c.Source); err != nil || strings.HasPrefix(c.Source, "/") {
			return c.invalidField("Source: %q includes invalid characters for a volume name, only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed",
				c.Source)
		}
	} else if c.ReadOnly {
		return c.invalidField("must not set ReadOnly mode when using anonymous volumes")
	}
	o := c.VolumeOptions
	if o == nil {
		return nil
	}
	if o.Subpath != "" {
		switch {
		case c.Source == "":
			return c.invalidField("VolumeOptions.Subpath must not be set when using anonymous volumes")
		case !isSubpath(o.Subpath):
			return c.invalidField("VolumeOptions.Subpath: subpath must be a relative path within the volume: %q", o.Subpath)
		}
	}
	if o.DriverConfig != nil && o.DriverConfig.Name != "" && o.DriverConfig.Name != localDriver {
		return unsupportedSetting("VolumeOptions.DriverConfig.Name", o.DriverConfig.Name)
	}
	return nil
}

func (c *MountConfig) checkImage() error {
	switch o := c.ImageOptions; {
	case c.Source == "":
		return c.invalidField("field Source must not be empty")
	case o != nil && o.Subpath != "" && !isSubpath(o.Subpath):
		return c.invalidField("ImageOptions.Subpath: subpath must be a relative path within the image: %q", o.Subpath)
	}
	return nil
}

func isSubpath(text string) bool { return filepath.IsLocal(text) && !strings.ContainsRune(text, 0) }

// toBind returns a checked mount of a host path.
func (c *MountConfig) toBind(dst string) Bind {
	b := Bind{
		Source: path.Clean(c.Source), Destination: dst, ReadOnly: c.ReadOnly, Propagation: "rprivate",
		BindTerms: BindTerms{MustExist: true},
	}
	if o := c.BindOptions; o != nil {
		if o.Propagation != "" {
			b.Propagation = o.Propagation
		}
		b.BindTerms = BindTerms{
			MustExist: !o.CreateMountpoint, NonRecursive: o.NonRecursive,
			ReadOnlyNonRecursive: o.ReadOnlyNonRecursive, ReadOnlyForceRecursive: o.ReadOnlyForceRecursive,
		}
	}
	return b
}

// toVolume returns a checked mount of a volume. One that shows a part of it gets nothing of the image.
func (c *MountConfig) toVolume(dst string) VolumeMount {
	v := VolumeMount{Name: c.Source, Driver: localDriver, Destination: dst, ReadOnly: c.ReadOnly, Anonymous: c.Source == ""}
	if o := c.VolumeOptions; o != nil {
		v.NoCopy = o.NoCopy || o.Subpath != ""
		v.Labels = o.Labels
		if o.Subpath != "" {
			v.Subpath = filepath.Clean(o.Subpath)
		}
		if o.DriverConfig != nil {
			v.Options = o.DriverConfig.Options
		}
	}
	return v
}

// toImage returns a checked mount of an image's files.
func (c *MountConfig) toImage(dst string) ImageMount {
	m := ImageMount{Source: c.Source, Destination: dst}
	if o := c.ImageOptions; o != nil && o.Subpath != "" {
		m.Subpath = filepath.Clean(o.Subpath)
	}
	return m
}

// toTmpfs returns a checked mount of memory.
func (c *MountConfig) toTmpfs(dst string) (Tmpfs, error) {
	var options []string
	if c.ReadOnly {
		options = append(options, "ro")
	}
	if o := c.TmpfsOptions; o != nil {
		switch {
		case o.SizeBytes < 0:
			return Tmpfs{}, fault.Invalid("SizeBytes %d is negative", o.SizeBytes)
		case o.Mode > 0o7777:
			return Tmpfs{}, fault.Invalid("Mode %#o: want at most 07777", o.Mode)
		}
		if o.SizeBytes > 0 {
			options = append(options, "size="+strconv.FormatInt(o.SizeBytes, 10))
		}
		if o.Mode > 0 {
			options = append(options, "mode="+strconv.FormatUint(uint64(o.Mode), 8))
		}
		for _, option := range o.Options {
			if len(option) == 0 || len(option) > 2 || strings.Contains(strings.Join(option, ""), ",") {
				return Tmpfs{}, fault.Invalid("Options: %q: want a flag, or a name and its value", option)
			}
			options = append(options, strings.Join(option, "="))
		}
	}
	return parseTmpfs(dst, strings.Join(options, ","))
}
