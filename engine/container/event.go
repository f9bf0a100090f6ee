package container

import "maps"

// EventAttributes are what the events of a container carry (API document 3, section 6): its labels, name and image, and
// the given pairs of key and value.
func (r *Record) EventAttributes(pairs ...string) map[string]string {
	attrs := make(map[string]string, len(r.Config.Labels)+2+len(pairs)/2)
	maps.Copy(attrs, r.Config.Labels)
	attrs["name"], attrs["image"] = r.Name, r.Image
	for i := 0; i+1 < len(pairs); i += 2 {
		attrs[pairs[i]] = pairs[i+1]
	}
	return attrs
}
