package types

import (
	"encoding/base64"
	"encoding/json"
	"io/fs"
	"time"
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

// PathStat describes a path of a container (document 1, 2.5).
type PathStat struct {
	Name       string      `json:"name"`
	Size       int64       `json:"size"`
	Mode       fs.FileMode `json:"mode"`
	ModTime    time.Time   `json:"mtime"`
	LinkTarget string      `json:"linkTarget"`
}

// Header returns the value of the header that describes a path: JSON in standard base64 (document 2, 4.1: archive).
func (p PathStat) Header() (string, error) {
	raw, err := json.Marshal(p)
	return base64.StdEncoding.EncodeToString(raw), err
}
