package image

// ListOptions selects images (API document 2, 4.2: images/json).
type ListOptions struct {
	All     bool                // intermediate images too
	Name    string              // the filter parameter: only images with this name
	Filters map[string][]string // dangling, label, before, since, reference
}

// LoadOptions describes how an archive of images is taken in.
type LoadOptions struct {
	Quiet    bool   // tells only what was loaded
	Platform string // os[/arch[/variant]] that each image must be for; empty: what this machine runs comes first, any will do
}

// SaveOptions describes an archive of images that is written.
type SaveOptions struct {
	Platforms []string // os[/arch[/variant]], for all of which each image must be
}

// ImportOptions describes an image made from a root filesystem archive.
type ImportOptions struct {
	Source  string   // URL of the archive; empty: it is handed over
	Repo    string   // familiar name; empty leaves the image untagged
	Tag     string   // empty: latest
	Message string   // the image's comment
	Changes []string // build instructions applied to its config

	Platform string // os[/arch[/variant]] that the archive is for; empty: this machine
}

// Progress is one message of a long operation (API document 1, 2.6).
type Progress struct {
	ID      string
	Status  string
	Current int64
	Total   int64
	Stream  string
	Aux     any // sent as it is under aux

	Heading bool // above the lines of the parts; without it ID names the part that Status is of
}

// RemoveOptions says how to remove an image.
type RemoveOptions struct {
	Force   bool
	NoPrune bool // keep untagged parents
}

// Removed is one step of a removal; one of its fields is set.
type Removed struct {
	Untagged string
	Deleted  string
}

// User is a container that keeps an image.
type User struct {
	ContainerID string
	ImageRef    string
	Running     bool
}

// Distribution is what a registry has under a name.
type Distribution struct {
	MediaType string // of a manifest or an index
	Digest    string
	Size      int64 // bytes of the manifest or the index
	Platforms []DistributedPlatform
}

// DistributedPlatform is a platform with what registries tell of it besides.
type DistributedPlatform struct {
	Platform

	OSVersion  string   `json:"os.version,omitempty"`
	OSFeatures []string `json:"os.features,omitempty"`
}
