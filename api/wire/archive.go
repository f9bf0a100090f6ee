package wire

import (
	"encoding/base64"
	"encoding/json"
	"time"

	"moss/engine/archive"
	"moss/engine/container"
)

// CopySource is the body of the copy that came before the archive endpoints (document 2, 4.1: copy).
type CopySource struct {
	Resource string
}

// ContainerChange is one entry of a container's changes (document 1, 2.7).
type ContainerChange struct {
	Path string
	Kind int // 0 modified, 1 added, 2 deleted
}

// NewChanges returns the changes as they are answered.
func NewChanges(changes []container.Change) []ContainerChange {
	list := make([]ContainerChange, len(changes))
	for i, c := range changes {
		list[i] = ContainerChange{Path: c.Path, Kind: int(c.Kind)}
	}
	return list
}

// PathStat describes a path of a container (document 1, 2.5).
type PathStat struct {
	Name       string    `json:"name"`
	Size       int64     `json:"size"`
	Mode       uint32    `json:"mode"` // Go's fs.FileMode
	ModTime    time.Time `json:"mtime"`
	LinkTarget string    `json:"linkTarget"`
}

// NewPathStat fills a description.
func NewPathStat(s archive.Stat) PathStat {
	return PathStat{Name: s.Name, Size: s.Size, Mode: uint32(s.Mode), ModTime: s.ModTime, LinkTarget: s.LinkTarget}
}

// Header returns the value of the header that describes a path: JSON in standard base64 (document 2, 4.1: archive).
func (p PathStat) Header() (string, error) {
	raw, err := json.Marshal(p)
	return base64.StdEncoding.EncodeToString(raw), err
}
