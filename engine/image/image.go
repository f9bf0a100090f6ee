// Package image holds what the engine knows of an image, wherever it is stored. It reads and writes nothing.
package image

import (
	"encoding/json"
	"time"
)

// Image is one stored image.
type Image struct {
	ID            string   // sha256:<64 hex>, the digest of its config
	Parent        string   // id of the image it was built on; may be empty
	RepoTags      []string // familiar names with tag
	RepoDigests   []string // familiar names with digest
	Created       time.Time
	Undated       bool  // its config does not say when it was made: Created is when it came here
	Size          int64 // bytes of all its layers, uncompressed
	Author        string
	Comment       string
	Architecture  string
	Variant       string
	OS            string
	OSVersion     string   // may be empty
	Layers        []string // diff ids, lowest first
	TopLayer      string   // the storage's id of the top layer; empty for an image without layers
	Container     string   // id of the container it was committed from; may be empty
	EngineVersion string   // of the engine that made it; may be empty
	Config        Config

	Step   string // the key of the build's step that made it here; empty: none did
	Result bool   // a build's, or made otherwise; false: such a step that no build ended with

	// ContainerConfig is what the container that it was committed from was made with, as JSON that clients know (API
	// document 1, 2.6). It is what the image's maker wrote: nothing of it need be so. It may be empty.
	ContainerConfig json.RawMessage
}

// Platform returns what the image is made for, as its config writes it.
func (i *Image) Platform() Platform {
	return Platform{OS: i.OS, Architecture: i.Architecture, Variant: i.Variant}
}

// Config is what an image sets for the containers made from it (OCI image spec; API document 1, 2.2 and 2.6).
type Config struct {
	User         string              `json:"User,omitempty"`
	ExposedPorts map[string]struct{} `json:"ExposedPorts,omitempty"`
	Env          []string            `json:"Env,omitempty"`
	Entrypoint   []string            `json:"Entrypoint,omitempty"`
	Cmd          []string            `json:"Cmd,omitempty"`
	Volumes      map[string]struct{} `json:"Volumes,omitempty"`
	WorkingDir   string              `json:"WorkingDir,omitempty"`
	Labels       map[string]string   `json:"Labels,omitempty"`
	StopSignal   string              `json:"StopSignal,omitempty"`
	OnBuild      []string            `json:"OnBuild,omitempty"`
	Shell        []string            `json:"Shell,omitempty"`
	Healthcheck  *Healthcheck        `json:"Healthcheck,omitempty"`
}

// Healthcheck is an image's or a container's health check (API document 1, 2.2). Durations are nanoseconds.
type Healthcheck struct {
	Test          []string      `json:"Test,omitempty"`
	Interval      time.Duration `json:"Interval,omitempty"`
	Timeout       time.Duration `json:"Timeout,omitempty"`
	StartPeriod   time.Duration `json:"StartPeriod,omitempty"`
	StartInterval time.Duration `json:"StartInterval,omitempty"`
	Retries       int           `json:"Retries,omitempty"`
}
