package wire

import (
	"encoding/json"
	"time"

	"moss/api/compat"
	"moss/engine/container"
	"moss/engine/image"
)

// ImageSummary is one entry of images/json (document 1, 2.6).
type ImageSummary struct {
	ID          string `json:"Id"`
	ParentID    string `json:"ParentId"`
	RepoTags    []string
	RepoDigests []string // null when not asked for
	Created     int64    // Unix seconds
	Size        int64    // bytes
	VirtualSize int64
	Labels      map[string]string `api:"1.20-"`
}

// NewImageSummary fills a list entry. An image without a name shows <none>:<none>, as clients expect in lists. Digests
// are shown when withDigests is set.
func NewImageSummary(i *image.Image, withDigests bool) *ImageSummary {
	s := &ImageSummary{
		ID:          i.ID,
		ParentID:    i.Parent,
		RepoTags:    orNone(i.RepoTags),
		Created:     i.Created.Unix(),
		Size:        i.Size,
		VirtualSize: i.Size,
		Labels:      orEmpty(i.Config.Labels),
	}
	if withDigests {
		s.RepoDigests = orNone(i.RepoDigests)
	}
	if len(i.RepoTags) == 0 {
		s.RepoTags = []string{compat.None + ":" + compat.None}
		if withDigests && len(i.RepoDigests) == 0 {
			s.RepoDigests = []string{compat.None + "@" + compat.None}
		}
	}
	return s
}

// ImageInspect is the answer to images/{name}/json (document 1, 2.6). The engine's version is there under the name of
// the documents and under the one that clients know.
type ImageInspect struct {
	ID              string `json:"Id"`
	RepoTags        []string
	RepoDigests     []string
	Parent          string
	Comment         string
	Created         time.Time
	Container       string
	ContainerConfig *Config
	DockerVersion   string
	EngineVersion   string
	Author          string
	Config          *Config
	Architecture    string
	Variant         string `json:",omitempty" api:"1.25-"`
	Os              string
	Size            int64 // bytes
	VirtualSize     int64
	GraphDriver     GraphDriver `api:"1.24-"`
	RootFS          RootFS      `api:"1.24-"`
	Metadata        ImageMetadata
}

// ImageMetadata is of later versions and shown at every one: clients show LastTagTime as the image's age without asking
// whether it is there. When names were given is not noted; the image's own time stands for it.
type ImageMetadata struct{ LastTagTime time.Time }

// RootFS lists the layers of an image by their digests, lowest first.
type RootFS struct {
	Type   string
	Layers []string `json:",omitempty"`
}

// NewImageInspect fills an inspect record. driver is the storage driver that holds the image.
func NewImageInspect(i *image.Image, driver string) *ImageInspect {
	config := imageConfig(&i.Config)
	return &ImageInspect{
		ID:              i.ID,
		RepoTags:        orNone(i.RepoTags),
		RepoDigests:     orNone(i.RepoDigests),
		Parent:          i.Parent,
		Comment:         i.Comment,
		Created:         i.Created.UTC(),
		Container:       i.Container,
		ContainerConfig: containerConfig(i.ContainerConfig),
		DockerVersion:   i.EngineVersion,
		EngineVersion:   i.EngineVersion,
		Author:          i.Author,
		Config:          &config,
		Architecture:    i.Architecture,
		Variant:         i.Variant,
		Os:              i.OS,
		Size:            i.Size,
		VirtualSize:     i.Size,
		GraphDriver:     GraphDriver{Name: driver, Data: map[string]string{}},
		RootFS:          RootFS{Type: "layers", Layers: i.Layers},
		Metadata:        ImageMetadata{LastTagTime: i.Created.UTC()},
	}
}

// containerConfig shows what the container had that an image was made of. What cannot be read is left out: images come from
// anywhere.
func containerConfig(raw json.RawMessage) *Config {
	var config Config
	if len(raw) > 0 && json.Unmarshal(raw, &config) != nil {
		config = Config{}
	}
	config.Labels = orEmpty(config.Labels)
	return &config
}

// imageConfig shows an image's config in the form of a container's, as the documents have it.
func imageConfig(c *image.Config) Config {
	return Config{
		User:         c.User,
		ExposedPorts: c.ExposedPorts,
		Env:          c.Env,
		Cmd:          c.Cmd,
		Healthcheck:  c.Healthcheck,
		Volumes:      c.Volumes,
		WorkingDir:   c.WorkingDir,
		Entrypoint:   c.Entrypoint,
		OnBuild:      c.OnBuild,
		Labels:       orEmpty(c.Labels),
		StopSignal:   container.Signal(c.StopSignal),
		Shell:        c.Shell,
	}
}

// ImageHistory is one step of an image's making (document 1, 2.6). Its fields are those of image.HistoryEntry.
type ImageHistory struct {
	ID        string   `json:"Id"`
	Created   int64    // Unix seconds
	CreatedBy string   // the command
	Tags      []string `api:"1.24-"` // null when the step's image has none
	Size      int64    `api:"1.24-"` // bytes
	Comment   string   `api:"1.24-"`
}

// SearchResult is one repository found (document 1, 2.6). Its fields are those of image.SearchResult.
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

// NewProgress fills a message. Clients draw it in the line of its part if it has a progressDetail, be that empty, and on
// lines of its own otherwise.
func NewProgress(p image.Progress) *Progress {
	m := &Progress{Stream: p.Stream, Status: p.Status, ID: p.ID, Aux: p.Aux}
	switch {
	case p.Current != 0 || p.Total != 0:
		m.ProgressDetail = &ProgressDetail{Current: p.Current, Total: p.Total}
		m.Progress = compat.Bar(p.Current, p.Total)
	case p.ID != "" && !p.Heading:
		m.ProgressDetail = &ProgressDetail{}
	}
	return m
}
