package container

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// mergeImage fills what the client left open from the image's configuration (API document 1, 2.2), and copies whatever the
// steps after it change.
func (d *draft) mergeImage() {
	c, img := &d.Config, &d.img
	if c.User == "" {
		c.User = img.User
	}
	if c.WorkingDir == "" && img.WorkingDir != "" {
		c.WorkingDir = path.Join("/", img.WorkingDir)
	}
	if c.StopSignal == "" {
		c.StopSignal = img.StopSignal
	}
	if len(c.Shell) == 0 {
		c.Shell = slices.Clone(img.Shell)
	}
	d.mergeCommand()
	d.mergeHealth()
	c.Env = mergeEnv(img.Env, c.Env)
	c.Labels = mergeMaps(img.Labels, c.Labels)
	d.mergePorts()
	d.mergeVolumes()
}

// mergeCommand follows what images rely on: an entrypoint of the client's resets the image's command.
func (d *draft) mergeCommand() {
	c := &d.Config
	if len(c.Entrypoint) == 0 {
		if len(c.Cmd) == 0 && (c.Cmd == nil || len(d.img.Cmd) > 0) {
			c.Cmd = slices.Clone(d.img.Cmd)
		}
		if c.Entrypoint == nil {
			c.Entrypoint = slices.Clone(d.img.Entrypoint)
		}
	}
	if len(c.Entrypoint) == 1 && c.Entrypoint[0] == "" { // how clients spell "none at all"
		c.Entrypoint = []string{}
	}
	d.Args = slices.Concat(c.Entrypoint, c.Cmd)
}

// mergePorts adds the image's exposed ports. A port the image spells wrongly is left out: it is not the client's fault.
func (d *draft) mergePorts() {
	if len(d.img.ExposedPorts) == 0 {
		return
	}
	ports := make(map[string]struct{}, len(d.img.ExposedPorts))
	for key := range d.img.ExposedPorts {
		if _, _, _, err := ParsePorts(key); err != nil {
			d.addWarning("The image exposes port %q, which is not a port.", key)
			continue
		}
		ports[key] = struct{}{}
	}
	d.Config.ExposedPorts = mergeMaps(ports, d.Config.ExposedPorts)
}

// mergeMaps returns base with over's entries added and replaced; nil when both are empty.
func mergeMaps[V any](base, over map[string]V) map[string]V {
	if len(base) == 0 {
		return maps.Clone(over)
	}
	merged := maps.Clone(base)
	maps.Copy(merged, over)
	return merged
}

// mergeEnv lays the client's entries over the image's. An entry without "=" takes a variable away: the client's stays and
// stands for that, an image's is dropped. The last entry of a name wins, at the first one's place.
func mergeEnv(base, over []string) []string {
	merged := make([]string, 0, len(base)+len(over))
	place := make(map[string]int, len(base)+len(over))
	put := func(name, entry string) {
		if at, ok := place[name]; ok {
			merged[at] = entry
			return
		}
		place[name] = len(merged)
		merged = append(merged, entry)
	}
	for _, entry := range base {
		if name, _, ok := strings.Cut(entry, "="); ok && name != "" {
			put(name, entry)
		}
	}
	for _, entry := range over {
		name, _, _ := strings.Cut(entry, "=")
		put(name, entry)
	}
	return merged
}

// LayEnv returns an environment with entries laid over it: those without "=" take variables away. The last entry of a name
// wins, at the first one's place.
func LayEnv(base, over []string) []string {
	return slices.DeleteFunc(mergeEnv(base, over), func(entry string) bool { return !strings.Contains(entry, "=") })
}
