package volume

import (
	"maps"
	"strings"
	"time"

	"moss/engine/fault"
)

// DriverLocal is the one driver there is; ScopeLocal is how far its volumes reach.
const (
	DriverLocal = "local"
	ScopeLocal  = "local"
)

// Volume is one volume. One that has been handed out is never changed.
type Volume struct {
	Name       string
	Driver     string
	Mountpoint string `json:"-"` // the folder on the host; follows from where the store lies
	Labels     map[string]string
	Options    map[string]string // of the driver, as the client gave them
	CreatedAt  time.Time

	backing backing
}

// Status is what the driver tells of a volume: what its options made of it; empty for a plain folder.
func (v *Volume) Status() map[string]string { return maps.Clone(v.Options) }

// CreateOptions is what a client asks of a new volume (API document 2, 4.4).
type CreateOptions struct {
	Name    string // empty: one is made up
	Driver  string // empty or local
	Options map[string]string
	Labels  map[string]string

	Anonymous bool // nobody named it: it has LabelAnonymous, too. So has one without a name
}

// LabelAnonymous is the label of volumes that nobody named, as clients know it.
const LabelAnonymous = "com.docker.volume.anonymous"

// allLabels are those of the new volume.
func (opt *CreateOptions) allLabels() map[string]string {
	labels := maps.Clone(opt.Labels)
	if opt.Anonymous {
		if labels == nil {
			labels = map[string]string{}
		}
		labels[LabelAnonymous] = ""
	}
	return labels
}

// Source is what a container's mount of a volume starts from.
type Source struct {
	Dir      string // on the host, as the engine sees it
	ReadOnly bool   // whatever the container asks for
	Flags    string // further options of the mount, joined by commas: noexec, nosuid, nodev
}

// NoSuch is what clients are told of a volume that is not there.
func NoSuch(name string) error { return fault.NotFound("get %s: no such volume", name) }

// longestName is what file systems take, in bytes.
const longestName = 255

// CheckName returns fault.Invalid for a name that no volume can have: it is a folder's name as well.
func CheckName(name string) error {
	if len(name) == 1 {
		return fault.Invalid("volume name %q is too short, names should be at least two alphanumeric characters", name)
	}
	ok := len(name) <= longestName
	for i := 0; ok && i < len(name); i++ {
		c := name[i]
		alnum := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		ok = alnum || i > 0 && strings.IndexByte("_.-", c) >= 0
	}
	if !ok || name == "" {
		return fault.Invalid("create %s: %q includes invalid characters for a local volume name, only "+
			"[a-zA-Z0-9][a-zA-Z0-9_.-] are allowed, up to %d of them. If you intended to pass a host directory, use absolute path",
			name, name, longestName)
	}
	return nil
}

// checkDriver refuses every driver but ours.
func checkDriver(name, driver string) error {
	if driver != "" && driver != DriverLocal {
		return fault.NotFound("create %s: error looking up volume plugin %s: plugin %q not found", name, driver, driver)
	}
	return nil
}
