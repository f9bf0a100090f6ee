package types

// MountConfig asks for one mount, as later versions of the API do beside Binds, Volumes and Tmpfs. Options of another type
// than its own are fault.Invalid.
type MountConfig struct {
	Type           string             // bind, volume or tmpfs
	Source         string             `json:",omitempty"` // a path of the host, or the name of a volume; empty for an anonymous one
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

// ImageMountOptions are of a type that is refused.
type ImageMountOptions struct {
	Subpath string `json:",omitempty"`
}
