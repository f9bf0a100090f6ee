package wire

import (
	"moss/api/types"
	"moss/engine/volume"
)

// NewVolume fills a volume's record.
func NewVolume(v *volume.Volume) *types.Volume {
	return &types.Volume{
		Name: v.Name, Driver: v.Driver, Mountpoint: v.Mountpoint, CreatedAt: v.CreatedAt,
		Status: v.Status(), Labels: orEmpty(v.Labels), Scope: volume.ScopeLocal, Options: v.Options,
	}
}
