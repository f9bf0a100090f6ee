package container

import (
	"maps"
	"path"
	"slices"
	"strings"

	"moss/engine/fault"
)

// VolumeMount is a volume that appears in the container.
type VolumeMount struct {
	Name        string // empty for an anonymous one that is still to be made
	Driver      string
	Source      string // its folder on the host; empty until it is made
	Destination string // absolute path in the container, cleaned, never "/"
	ReadOnly    bool
	NoCopy      bool   // nothing of the image is copied into it
	Anonymous   bool   // goes with its last container if volumes are removed with that
	Implied     bool   // of Config.Volumes: gives way to what VolumesFrom brings
	Mode        string // as the client wrote it after the second colon
	VolumeTerms
}

// VolumesFrom names a container whose binds and volumes are taken over.
type VolumesFrom struct {
	Container string // id or name, not yet looked up
	ReadOnly  bool
}

// localDriver is the one driver that volumes have.
const localDriver = "local"

// The types of a Mount.
const (
	mountBind   = "bind"
	mountVolume = "volume"
	mountTmpfs  = "tmpfs"
	mountImage  = "image"
)

// checkVolumes makes anonymous volumes of Config.Volumes where nothing else is mounted, and parses VolumesFrom.
func (d *draft) checkVolumes(taken map[string]bool) error {
	for _, dst := range slices.Sorted(maps.Keys(d.Config.Volumes)) {
		clean, err := cleanDestination(dst, dst)
		if err != nil {
			return prefixField("Volumes", err)
		}
		if !taken[clean] {
			if err := d.checkVolumeDriver(); err != nil {
				return err
			}
			taken[clean] = true
			d.Volumes = append(d.Volumes, VolumeMount{Driver: localDriver, Destination: clean, Anonymous: true, Implied: true})
		}
	}
	for _, s := range d.Host.VolumesFrom {
		from, err := ParseVolumesFrom(s)
		if err != nil {
			return prefixField("VolumesFrom", err)
		}
		d.VolumesFrom = append(d.VolumesFrom, from)
	}
	return nil
}

// checkVolumeDriver refuses a driver that is not there for a volume of Binds or Volumes. Mounts name drivers of their own.
func (d *draft) checkVolumeDriver() error {
	if driver := d.Host.VolumeDriver; driver != "" && driver != localDriver {
		return unsupportedSetting("VolumeDriver", driver)
	}
	return nil
}

// ParseVolumesFrom takes "container" and "container:mode", where mode is ro or rw and may hold the marks z and Z, which
// mean nothing without SELinux. Anything else is fault.Invalid (API document 1, 2.3: VolumesFrom).
func ParseVolumesFrom(s string) (VolumesFrom, error) {
	name, text, given := strings.Cut(s, ":")
	if name == "" || strings.ContainsRune(s, 0) {
		return VolumesFrom{}, fault.Invalid("malformed volumes-from specification: %q", s)
	}
	from := VolumesFrom{Container: name}
	if !given {
		return from, nil
	}
	m, err := parseMode(text)
	if err != nil {
		return VolumesFrom{}, err
	}
	if m.propagation != "" || m.noCopy {
		return VolumesFrom{}, fault.Invalid("invalid mode: %s: volumes-from takes ro and rw", text)
	}
	from.ReadOnly = m.readOnly
	return from, nil
}

// Take is what VolumesFrom makes of another container's mounts.
func (f VolumesFrom) Take(mounts []Mount) []Mount {
	taken := slices.Clone(mounts)
	for i := range taken {
		taken[i].RW = taken[i].RW && !f.ReadOnly
		taken[i].Mode, taken[i].NoCopy = "", true
	}
	return taken
}

// TakeOver adds the mounts of other containers. What the client asks for at the same place stays, except for a volume of
// Config.Volumes; of two that are taken over the later one counts.
func (s *Spec) TakeOver(mounts []Mount) {
	own := map[string]bool{}
	for _, b := range s.Binds {
		own[b.Destination] = true
	}
	for _, t := range s.Tmpfs {
		own[t.Destination] = true
	}
	for _, i := range s.Images {
		own[i.Destination] = true
	}
	for _, v := range s.Volumes {
		own[v.Destination] = own[v.Destination] || !v.Implied
	}
	for _, m := range slices.Backward(mounts) {
		if own[m.Destination] {
			continue
		}
		own[m.Destination] = true
		s.Volumes = slices.DeleteFunc(s.Volumes, func(v VolumeMount) bool { return v.Destination == m.Destination })
		s.addMount(m)
	}
}

// addMount is the reverse of one step of Mounts.
func (s *Spec) addMount(m Mount) {
	if m.Type == mountVolume {
		s.Volumes = append(s.Volumes, VolumeMount{
			Name: m.Name, Driver: m.Driver, Source: m.Source, Destination: m.Destination,
			ReadOnly: !m.RW, NoCopy: m.NoCopy, Anonymous: m.Anonymous, Mode: m.Mode,
			VolumeTerms: m.Volume,
		})
		return
	}
	if m.Type == mountImage {
		s.Images = append(s.Images, ImageMount{Source: m.Source, Destination: m.Destination, ImageTerms: m.Image})
		return
	}
	s.Binds = append(s.Binds, Bind{
		Source: m.Source, Destination: m.Destination, ReadOnly: !m.RW, Propagation: m.Propagation, Mode: m.Mode,
		BindTerms: m.Bind,
	})
}

// Mounts are the binds, volumes and images as a record keeps them and inspect shows them.
func (s *Spec) Mounts() []Mount {
	mounts := make([]Mount, 0, len(s.Binds)+len(s.Volumes)+len(s.Images))
	for _, b := range s.Binds {
		mounts = append(mounts, Mount{
			Type: mountBind, Source: b.Source, Destination: b.Destination,
			Mode: b.Mode, RW: !b.ReadOnly, Propagation: b.Propagation, Bind: b.BindTerms,
		})
	}
	for _, v := range s.Volumes {
		mounts = append(mounts, Mount{
			Type: mountVolume, Name: v.Name, Source: v.Source, Destination: v.Destination, Driver: v.Driver,
			Mode: v.Mode, RW: !v.ReadOnly, Anonymous: v.Anonymous, NoCopy: v.NoCopy,
			Volume: v.VolumeTerms,
		})
	}
	for _, i := range s.Images {
		mounts = append(mounts, Mount{Type: mountImage, Source: i.Source, Destination: i.Destination, Image: i.ImageTerms})
	}
	return mounts
}

// MountPoints are the mounts that inspect shows: those of Mounts, and what Host.Mounts has in memory.
func (r *Record) MountPoints() []Mount {
	points := slices.Clone(r.Mounts)
	for _, c := range r.Host.Mounts {
		if c.Type == mountTmpfs {
			points = append(points, Mount{Type: mountTmpfs, Destination: path.Clean(c.Target), RW: !c.ReadOnly})
		}
	}
	return points
}

// KeepsImage reports whether the image with the id is the container's own or is mounted into it.
func (r *Record) KeepsImage(imageID string) bool {
	return r.ImageID == imageID || slices.ContainsFunc(r.Mounts, func(m Mount) bool {
		return m.Type == mountImage && m.Image.ImageID == imageID
	})
}

// VolumeNames are the volumes that a record's mounts name.
func (r *Record) VolumeNames() []string {
	var names []string
	for _, m := range r.Mounts {
		if m.Type == mountVolume {
			names = append(names, m.Name)
		}
	}
	return names
}

// mergeVolumes adds the image's volumes. What an image spells as a relative path lies below the root.
func (d *draft) mergeVolumes() {
	if len(d.img.Volumes) == 0 {
		return
	}
	volumes := make(map[string]struct{}, len(d.img.Volumes))
	for dst := range d.img.Volumes {
		clean := path.Join("/", dst)
		if clean == "/" || strings.ContainsRune(dst, 0) {
			d.addWarning("The image asks for a volume at %q, which no volume can be at.", dst)
			continue
		}
		volumes[clean] = struct{}{}
	}
	d.Config.Volumes = mergeMaps(volumes, d.Config.Volumes)
}
