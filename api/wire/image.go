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
		SharedSize:  -1,
		Containers:  -1,
	}
	if withDigests {
		s.RepoDigests = orNone(i.RepoDigests)
	}
	return s
}

// FitImage shows the image of a list as clients before 1.43 know it: one without a name has the names <none>:<none> and
// <none>@<none>. A digest that is shown is a name.
func FitImage(s *types.ImageSummary, version apiver.Version) {
	if version >= emptyNames || len(s.RepoTags) > 0 || len(s.RepoDigests) > 0 {
		return
	}
	s.RepoTags = []string{compat.None + ":" + compat.None}
	if s.RepoDigests != nil && len(s.RepoDigests) == 0 {
		s.RepoDigests = []string{compat.None + "@" + compat.None}
	}
}

// emptyNames is the version from which on an image without a name has none in lists.
const emptyNames = apiver.Version(1<<16 | 43)

// FitImageInspect shows the image as clients of a version know it: from 1.44 on one that does not say when it was made has no
// time.
func FitImageInspect(w *types.ImageInspect, version apiver.Version, i *image.Image) {
	if version >= noTime && i.Undated {
		w.Created = nil
	}
}

// noTime is the version from which on an image without a time has none.
const noTime = apiver.Version(1<<16 | 44)

// NewImageInspect fills an inspect record. driver is the storage driver that holds the image.
func NewImageInspect(i *image.Image, driver string) *types.ImageInspect {
	created := i.Created.UTC()
	return &types.ImageInspect{
		ID:              i.ID,
		RepoTags:        orNone(i.RepoTags),
		RepoDigests:     orNone(i.RepoDigests),
		Parent:          i.Parent,
		Comment:         i.Comment,
		Created:         &created,
		Container:       i.Container,
		ContainerConfig: containerConfig(i.ContainerConfig),
		DockerVersion:   i.EngineVersion,
		EngineVersion:   i.EngineVersion,
		Author:          i.Author,
		Config:          imageConfig(&i.Config),
		Architecture:    i.Architecture,
		Variant:         i.Variant,
		Os:              i.OS,
		OsVersion:       i.OSVersion,
		Size:            i.Size,
		VirtualSize:     i.Size,
		GraphDriver:     types.GraphDriver{Name: driver, Data: map[string]string{}},
		RootFS:          types.RootFS{Type: "layers", Layers: i.Layers},
		Metadata:        types.ImageMetadata{LastTagTime: created},
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

func imageConfig(c *image.Config) *types.ImageConfig {
	return &types.ImageConfig{
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
			Architecture: p.Architecture, OS: p.OS, Variant: p.Variant, OSVersion: p.OSVersion, OSFeatures: p.OSFeatures,
			OldArchitecture: p.Architecture, OldOS: p.OS, OldVariant: p.Variant,
			OldOSVersion: p.OSVersion, OldOSFeatures: p.OSFeatures,
		})
	}
	return w
}
