package wire

import (
	"encoding/json"

	"moss/api/apiver"
	"moss/api/compat"
	"moss/api/types"
	"moss/engine/image"
)

// NewImageSummary fills a list entry. Digests are shown when withDigests is set.
func NewImageSummary(i *image.Image, withDigests bool) *types.ImageSummary {
	s := &types.ImageSummary{
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
	return s
}

// FitImage shows the image of a list as clients before 1.43 know it: one without a name has the names <none>:<none> and
// <none>@<none>.
func FitImage(s *types.ImageSummary, version apiver.Version) {
	if version >= emptyNames || len(s.RepoTags) > 0 {
		return
	}
	s.RepoTags = []string{compat.None + ":" + compat.None}
	if s.RepoDigests != nil && len(s.RepoDigests) == 0 {
		s.RepoDigests = []string{compat.None + "@" + compat.None}
	}
}

// emptyNames is the version from which on an image without a name has none in lists.
const emptyNames = apiver.Version(1<<16 | 43)

// NewImageInspect fills an inspect record. driver is the storage driver that holds the image.
func NewImageInspect(i *image.Image, driver string) *types.ImageInspect {
	config := imageConfig(&i.Config)
	return &types.ImageInspect{
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
		GraphDriver:     types.GraphDriver{Name: driver, Data: map[string]string{}},
		RootFS:          types.RootFS{Type: "layers", Layers: i.Layers},
		Metadata:        types.ImageMetadata{LastTagTime: i.Created.UTC()},
	}
}

// containerConfig shows what the container had that an image was made of. What cannot be read is left out: images come from
// anywhere.
func containerConfig(raw json.RawMessage) *types.Config {
	var config types.Config
	if len(raw) > 0 && json.Unmarshal(raw, &config) != nil {
		config = types.Config{}
	}
	config.Labels = orEmpty(config.Labels)
	return &config
}

// imageConfig shows an image's config in the form of a container's, as the documents have it.
func imageConfig(c *image.Config) types.Config {
	return types.Config{
		User:         c.User,
		ExposedPorts: c.ExposedPorts,
		Env:          c.Env,
		Cmd:          c.Cmd,
		Healthcheck:  (*types.Healthcheck)(c.Healthcheck),
		Volumes:      c.Volumes,
		WorkingDir:   c.WorkingDir,
		Entrypoint:   c.Entrypoint,
		OnBuild:      c.OnBuild,
		Labels:       orEmpty(c.Labels),
		StopSignal:   types.Signal(c.StopSignal),
		Shell:        c.Shell,
	}
}

// NewProgress fills a message. Clients draw it in the line of its part if it has a progressDetail, be that empty, and on
// lines of its own otherwise.
func NewProgress(p image.Progress) *types.Progress {
	m := &types.Progress{Stream: p.Stream, Status: p.Status, ID: p.ID, Aux: p.Aux}
	switch {
	case p.Current != 0 || p.Total != 0:
		m.ProgressDetail = &types.ProgressDetail{Current: p.Current, Total: p.Total}
		m.Progress = compat.Bar(p.Current, p.Total)
	case p.ID != "" && !p.Heading:
		m.ProgressDetail = &types.ProgressDetail{}
	}
	return m
}

// NewDistribution fills the answer with what a registry tells.
func NewDistribution(d *image.Distribution) *types.DistributionInspect {
	w := &types.DistributionInspect{
		Descriptor: types.DistributionDescriptor{
			MediaType: d.MediaType, Digest: d.Digest, Size: d.Size, OldMediaType: d.MediaType, OldDigest: d.Digest, OldSize: d.Size,
		},
		Platforms: make([]types.DistributionPlatform, 0, len(d.Platforms)),
	}
	for _, p := range d.Platforms {
		w.Platforms = append(w.Platforms, types.DistributionPlatform{
			Architecture: p.Architecture, OS: p.OS, Variant: p.Variant,
			OldArchitecture: p.Architecture, OldOS: p.OS, OldVariant: p.Variant,
		})
	}
	return w
}
