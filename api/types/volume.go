package types

import "time"

// Volume is one volume (document 1, 2.8).
type Volume struct {
	Name       string
	Driver     string
	Mountpoint string
	CreatedAt  time.Time         `api:"1.31-"`
	Status     map[string]string `json:",omitempty" api:"1.24-"` // what the driver tells of it
	Labels     map[string]string `api:"1.24-"`
	Scope      string            `api:"1.24-"`
	Options    map[string]string `api:"1.25-"`
}

// VolumeList is the answer to volumes.
type VolumeList struct {
	Volumes  []*Volume
	Warnings []string `api:"1.22-"`
}

// VolumeCreate is the body of volumes/create.
type VolumeCreate struct {
	Name       string            `json:",omitzero"`
	Driver     string            `json:",omitzero"`
	DriverOpts map[string]string `json:",omitzero"`
	Labels     map[string]string `json:",omitzero" api:"1.24-"`
}
