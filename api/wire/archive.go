package wire

import (
	"moss/api/types"
	"moss/engine/archive"
	"moss/engine/container"
)

// NewChanges returns the changes as they are answered.
func NewChanges(changes []container.Change) []types.ContainerChange {
	list := make([]types.ContainerChange, len(changes))
	for i, c := range changes {
		list[i] = types.ContainerChange{Path: c.Path, Kind: int(c.Kind)}
	}
	return list
}

// NewPathStat fills a description.
func NewPathStat(s archive.Stat) types.PathStat {
	return types.PathStat{Name: s.Name, Size: s.Size, Mode: s.Mode, ModTime: s.ModTime, LinkTarget: s.LinkTarget}
}
