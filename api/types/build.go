package types

import "time"

// BuildsPruned is the answer to build/prune, an addition of later versions that is served at all. The list is null when
// nothing went, as clients know it.
type BuildsPruned struct {
	CachesDeleted  []string
	SpaceReclaimed int64 // bytes
}

// BuildCache is one piece of the build cache in the answer to system/df.
type BuildCache struct {
	ID          string
	Parent      string   `json:",omitempty" api:"-1.41"`
	Parents     []string `json:",omitempty" api:"1.42-"`
	Type        string   // regular, or exec.cachemount
	Description string
	InUse       bool
	Shared      bool
	Size        int64 // bytes
	CreatedAt   time.Time
	LastUsedAt  *time.Time
	UsageCount  int
}
