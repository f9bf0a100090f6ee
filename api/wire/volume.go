package wire

import (
	"time"

	"moss/engine/volume"
)

// Volume is one volume (document 1, 2.8).
type Volume struct {
	Name       string
	Driver     string
	Mountpoint string
	CreatedAt  time.Time         `api:"1.29-"`
	Status     map[string]string `json:",omitempty" api:"1.24-"` // what the driver tells of it
	Labels     map[string]string `api:"1.24-"`
	Scope      string            `api:"1.24-"`
	Options    map[string]string `api:"1.25-"`
}

// NewVolume fills a volume's record.
func NewVolume(v *volume.Volume) *Volume {
	return &Volume{
		Name: v.Name, Driver: v.Driver, Mountpoint: v.Mountpoint, CreatedAt: v.CreatedAt,
		Status: v.Status(), Labels: orEmpty(v.Labels), Scope: volume.ScopeLocal, Options: v.Options,
	}
}

// VolumeList is the answer to volumes.
type VolumeList struct {
	Volumes  []*Volume
	Warnings []string `api:"1.22-"`
}

// VolumeCreate is the body of volumes/create.
type VolumeCreate struct {
	Name       string
	Driver     string
	DriverOpts map[string]string
	Labels     map[string]string `api:"1.24-"`
}
