package client

// MountConfig asks for one mount, in the form of later versions of the API. Options are for their own type only.
type MountConfig struct {
	Type          string // bind, volume or tmpfs
	Source        string `json:",omitempty"` // a path of the host, or the name of a volume; empty for an anonymous one
	Target        string
	ReadOnly      bool           `json:",omitempty"`
	Consistency   string         `json:",omitempty"`
	BindOptions   *BindOptions   `json:",omitempty"`
	VolumeOptions *VolumeOptions `json:",omitempty"`
	TmpfsOptions  *TmpfsOptions  `json:",omitempty"`
}

// BindOptions are for a path of the host.
type BindOptions struct {
	Propagation            string `json:",omitempty"`
	NonRecursive           bool   `json:",omitempty"`
	CreateMountpoint       bool   `json:",omitempty"`
	ReadOnlyNonRecursive   bool   `json:",omitempty"`
	ReadOnlyForceRecursive bool   `json:",omitempty"`
}

// VolumeOptions are for a volume; labels and the driver count if it is made for the mount.
type VolumeOptions struct {
	NoCopy       bool              `json:",omitempty"`
	Labels       map[string]string `json:",omitempty"`
	DriverConfig *DriverConfig     `json:",omitempty"`
	Subpath      string            `json:",omitempty"`
}

// DriverConfig is a volume's driver with its options.
type DriverConfig struct {
	Name    string            `json:",omitempty"`
	Options map[string]string `json:",omitempty"`
}

// TmpfsOptions are for a file system in memory.
type TmpfsOptions struct {
	SizeBytes int64  `json:",omitempty"`
	Mode      uint32 `json:",omitempty"`
}
