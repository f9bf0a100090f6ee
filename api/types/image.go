package types

import "time"

// ImageSummary is one entry of images/json (document 1, 2.6).
type ImageSummary struct {
	ID          string `json:"Id"`
	ParentID    string `json:"ParentId"`
	RepoTags    []string
	RepoDigests []string          // null when not asked for
	Created     int64             // Unix seconds
	Size        int64             // bytes
	VirtualSize int64             `api:"-1.43"`
	Labels      map[string]string `api:"1.20-"`
	SharedSize  int64             `api:"1.25-"` // bytes of layers that other images have as well; -1: not asked for
	Containers  int               `api:"1.25-"` // that use it; -1: not counted
}

// ImageInspect is the answer to images/{name}/json (document 1, 2.6). The engine's version is there under the name of
// the documents and under the one that clients know.
type ImageInspect struct {
	ID              string `json:"Id"`
	RepoTags        []string
	RepoDigests     []string
	Parent          string
	Comment         string
	Created         *time.Time `json:",omitempty"`
	Container       string     `api:"-1.44"`
	ContainerConfig *Config    `api:"-1.44"`
	DockerVersion   string
	EngineVersion   string
	Author          string
	Config          *ImageConfig
	Architecture    string
	Variant         string `json:",omitempty" api:"1.39-"`
	Os              string
	OsVersion       string      `json:",omitempty" api:"1.25-"`
	Size            int64       // bytes
	VirtualSize     int64       `api:"-1.43"`
	GraphDriver     GraphDriver `api:"1.24-"`
	RootFS          RootFS      `api:"1.24-"`
	Metadata        ImageMetadata
}

// ImageConfig is what an image sets for containers. Up to 1.49 it has the other fields of a container's as well, without values.
type ImageConfig struct {
	Hostname        string `api:"-1.49"`
	Domainname      string `api:"-1.49"`
	User            string
	AttachStdin     bool                `api:"-1.49"`
	AttachStdout    bool                `api:"-1.49"`
	AttachStderr    bool                `api:"-1.49"`
	ExposedPorts    map[string]struct{} `json:",omitempty"`
	Tty             bool                `api:"-1.49"`
	OpenStdin       bool                `api:"-1.49"`
	StdinOnce       bool                `api:"-1.49"`
	Env             []string
	Cmd             Strings
	Healthcheck     *Healthcheck `json:",omitempty" api:"1.24-"`
	ArgsEscaped     bool         `json:",omitempty"`
	Image           string       `api:"-1.49"`
	Volumes         map[string]struct{}
	WorkingDir      string
	Entrypoint      Strings
	NetworkDisabled bool   `api:"-1.49"`
	MacAddress      string `api:"-1.49"`
	OnBuild         []string
	Labels          map[string]string
	StopSignal      Signal  `json:",omitempty" api:"1.21-"`
	Shell           Strings `json:",omitempty"`
}

// ImageMetadata is of later versions and shown at every one: clients show LastTagTime as the image's age without asking
// whether it is there. When names were given is not noted; the image's own time stands for it.
type ImageMetadata struct{ LastTagTime time.Time }

// RootFS lists the layers of an image by their digests, lowest first.
type RootFS struct {
	Type   string
	Layers []string `json:",omitempty"`
}

// ImageHistory is one step of an image's making (document 1, 2.6). Its fields are those of the engine's HistoryEntry.
type ImageHistory struct {
	ID        string   `json:"Id"`
	Created   int64    // Unix seconds
	CreatedBy string   // the command
	Tags      []string `api:"1.24-"` // null when the step's image has none
	Size      int64    `api:"1.24-"` // bytes
	Comment   string   `api:"1.24-"`
}

// SearchResult is one repository found (document 1, 2.6). Its fields are those of the engine's SearchResult.
type SearchResult struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Official    bool   `json:"is_official"`
	Automated   bool   `json:"is_automated"`
	Stars       int    `json:"star_count"`
}

// ImageRemoved is one step of an image's removal; one of its fields is set.
type ImageRemoved struct {
	Untagged string `json:",omitempty"`
	Deleted  string `json:",omitempty"`
}

// Progress is one message of the stream of a long operation (document 1, 2.6).
type Progress struct {
	Stream         string          `json:"stream,omitempty"`
	Status         string          `json:"status,omitempty"`
	ProgressDetail *ProgressDetail `json:"progressDetail,omitempty"`
	Progress       string          `json:"progress,omitempty"`
	ID             string          `json:"id,omitempty"`
	ErrorDetail    *ErrorDetail    `json:"errorDetail,omitempty"`
	Error          string          `json:"error,omitempty"`
	Aux            any             `json:"aux,omitempty"`
}

// ProgressDetail says how far an operation is, in bytes.
type ProgressDetail struct {
	Current int64 `json:"current,omitempty"`
	Total   int64 `json:"total,omitempty"`
}

// ErrorDetail is the error that ended a stream. Code is the exit code of a command, if one failed.
type ErrorDetail struct {
	Code    int    `json:"code,omitempty"`
	Message string `json:"message"`
}

// DistributionInspect is the answer to distribution/{name}/json, an addition of 1.30. The names in it begin with capitals before
// 1.40.
type DistributionInspect struct {
	Descriptor DistributionDescriptor
	Platforms  []DistributionPlatform
}

// DistributionDescriptor is what the name stands for in the registry.
type DistributionDescriptor struct {
	MediaType string `json:"mediaType" api:"1.40-"`
	Digest    string `json:"digest" api:"1.40-"`
	Size      int64  `json:"size" api:"1.40-"` // bytes

	OldMediaType string `json:"MediaType" api:"-1.39"`
	OldDigest    string `json:"Digest" api:"-1.39"`
	OldSize      int64  `json:"Size" api:"-1.39"`
}

// DistributionPlatform is one platform for which the image is there.
type DistributionPlatform struct {
	Architecture string   `json:"architecture" api:"1.40-"`
	OS           string   `json:"os" api:"1.40-"`
	Variant      string   `json:"variant,omitempty" api:"1.40-"`
	OSVersion    string   `json:"os.version,omitempty" api:"1.40-"`
	OSFeatures   []string `json:"os.features,omitempty" api:"1.40-"`

	OldArchitecture string   `json:"Architecture" api:"-1.39"`
	OldOS           string   `json:"OS" api:"-1.39"`
	OldVariant      string   `json:"Variant,omitempty" api:"-1.39"`
	OldOSVersion    string   `json:"OSVersion,omitempty" api:"-1.39"`
	OldOSFeatures   []string `json:"OSFeatures,omitempty" api:"-1.39"`
}
