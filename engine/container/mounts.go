package container

import (
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"moss/engine/fault"
)

// Bind is a host path that appears in the container.
type Bind struct {
	Source      string // absolute path on the host, cleaned
	Destination string // absolute path in the container, cleaned, never "/"
	ReadOnly    bool
	Propagation string // one of private, rprivate, shared, rshared, slave, rslave
	Mode        string // as the client wrote it after the second colon
	Flags       string // further options, joined by commas; of volumes only
	BindTerms
}

// ImageMount is an image whose files appear in the container, read only.
type ImageMount struct {
	Source      string // as the client named the image
	Destination string // absolute path in the container, cleaned, never "/"
	ImageTerms
}

// Tmpfs is a file system in memory.
type Tmpfs struct {
	Destination string   // absolute path in the container, cleaned, never "/"
	Options     []string // mount options, the defaults included
}

// checkMounts parses Binds, Mounts and Tmpfs, and adds the volumes of both sides where these leave room.
func checkMounts(d *draft) error {
	taken := make(map[string]bool, len(d.Host.Binds)+len(d.Host.Mounts)+len(d.Host.Tmpfs))
	take := func(dst string) error {
		if taken[dst] {
			return fault.Invalid("Duplicate mount point: %s", dst)
		}
		taken[dst] = true
		return nil
	}
	for _, s := range d.Host.Binds {
		b, v, err := ParseBind(s)
		if err == nil {
			err = take(b.Destination + v.Destination)
		}
		if err != nil {
			return prefixField("Binds", err)
		}
		if v.Destination != "" {
			if err := d.checkVolumeDriver(); err != nil {
				return err
			}
			d.Volumes = append(d.Volumes, v)
			continue
		}
		d.warnShared(b)
		d.Binds = append(d.Binds, b)
	}
	if err := d.checkMountConfigs(take); err != nil {
		return err
	}
	for _, dst := range slices.Sorted(maps.Keys(d.Host.Tmpfs)) {
		t, err := parseTmpfs(dst, d.Host.Tmpfs[dst])
		if err == nil {
			err = take(t.Destination)
		}
		if err != nil {
			return prefixField("Tmpfs", err)
		}
		d.Tmpfs = append(d.Tmpfs, t)
	}
	return d.checkVolumes(taken)
}

// warnShared tells what a propagation does not do here.
func (d *draft) warnShared(b Bind) {
	if strings.HasSuffix(b.Propagation, "shared") {
		d.addWarning("Mounts made below %s in the container are not seen outside: an ordinary user's mounts cannot be shared with "+
			"the host.",
			b.Destination)
	}
}

// ParseBind takes "source:destination" and "source:destination:mode", where mode is a comma-separated list of ro or rw,
// a propagation, and the marks z and Z, which mean nothing without SELinux. A source that is no absolute path names a
// volume, whose mode may hold nocopy and no propagation; "destination" alone is an anonymous volume. Of the two results the
// other one is zero. Anything else is fault.Invalid (API document 1, 2.3: Binds).
func ParseBind(s string) (Bind, VolumeMount, error) {
	parts := strings.Split(s, ":")
	if len(parts) > 3 || strings.ContainsRune(s, 0) || slices.Contains(parts, "") {
		return Bind{}, VolumeMount{}, fault.Invalid("invalid volume specification: '%s'", s)
	}
	if len(parts) == 1 {
		dst, err := cleanDestination(s, s)
		if err != nil {
			return Bind{}, VolumeMount{}, err
		}
		return Bind{}, VolumeMount{Driver: localDriver, Destination: dst, Anonymous: true}, nil
	}
	dst, err := cleanDestination(s, parts[1])
	if err != nil {
		return Bind{}, VolumeMount{}, err
	}
	var m mode
	if len(parts) == 3 {
		if m, err = parseMode(parts[2]); err != nil {
			return Bind{}, VolumeMount{}, err
		}
	}
	if path.IsAbs(parts[0]) {
		if m.noCopy {
			return Bind{}, VolumeMount{}, fault.Invalid("invalid mode: %s: nocopy is for volumes", m.text)
		}
		b := Bind{Source: path.Clean(parts[0]), Destination: dst, ReadOnly: m.readOnly, Propagation: "rprivate", Mode: m.text}
		if m.propagation != "" {
			b.Propagation = m.propagation
		}
		return b, VolumeMount{}, nil
	}
	if _, err := CheckName(parts[0]); err != nil || strings.HasPrefix(parts[0], "/") {
		return Bind{}, VolumeMount{}, fault.Invalid("invalid volume specification: '%s': %q includes invalid characters for a "+
			"volume name, "+
			"only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed. If you intended to pass a host directory, use an absolute path", s, parts[0])
	}
	if m.propagation != "" {
		return Bind{}, VolumeMount{}, fault.Invalid("invalid mode: %s: a propagation is for host paths", m.text)
	}
	return Bind{}, VolumeMount{
		Name: parts[0], Driver: localDriver, Destination: dst, ReadOnly: m.readOnly, NoCopy: m.noCopy, Mode: m.text,
	}, nil
}

// cleanDestination cleans a mount point. spec is what the error shows.
func cleanDestination(spec, dst string) (string, error) {
	if !path.IsAbs(dst) || strings.ContainsRune(dst, 0) {
		return "", fault.Invalid("invalid volume specification: '%s': invalid mount path: '%s' mount path must be absolute", spec, dst)
	}
	clean := path.Clean(dst)
	if clean == "/" {
		return "", fault.Invalid("invalid volume specification: '%s': invalid specification: destination can't be '/'", spec)
	}
	if ofProcess(clean) {
		return "", fault.Invalid("invalid volume specification: '%s': '%s' is a process's own and cannot be mounted upon", spec, clean)
	}
	return clean, nil
}

// ofProcess tells whether a path lies in the folder that /proc has of a process: no runtime follows it to there.
func ofProcess(clean string) bool {
	below, ok := strings.CutPrefix(clean, "/proc/")
	first, _, _ := strings.Cut(below, "/")
	return ok && (first == "self" || first == "thread-self" || strings.Trim(first, "0123456789") == "")
}

// mode is the parsed form of what follows the second colon.
type mode struct {
	text        string
	readOnly    bool
	noCopy      bool
	propagation string // empty: none was asked for
}

// parseMode reads the options of a bind or volume. Of each group of them one may be given.
func parseMode(text string) (mode, error) {
	m := mode{text: text}
	var access, propagation, label, consistency, nocopy int
	for option := range strings.SplitSeq(text, ",") {
		switch option {
		case "ro":
			m.readOnly = true
			access++
		case "rw":
			access++
		case "private", "rprivate", "shared", "rshared", "slave", "rslave":
			m.propagation = option
			propagation++
		case "nocopy":
			m.noCopy = true
			nocopy++
		case "z", "Z":
			label++
		case "consistent", "cached", "delegated": // hints for hosts that are not Linux
			consistency++
		default:
			return mode{}, fault.Invalid("invalid mode: %s", text)
		}
	}
	if max(access, propagation, label, consistency, nocopy) > 1 {
		return mode{}, fault.Invalid("invalid mode: %s", text)
	}
	return m, nil
}

// parseTmpfs reads one entry of Tmpfs. What the client leaves open is noexec, nosuid and nodev.
func parseTmpfs(dst, options string) (Tmpfs, error) {
	clean, err := cleanDestination(dst, dst)
	if err != nil {
		return Tmpfs{}, err
	}
	t := Tmpfs{Destination: clean, Options: []string{"noexec", "nosuid", "nodev"}}
	for option := range strings.SplitSeq(options, ",") {
		if option == "" {
			continue
		}
		if isPropagation(option) {
			continue // nothing is mounted below that others could see
		}
		if !validTmpfsOption(option) {
			return Tmpfs{}, fault.Invalid("invalid tmpfs option %q of %s", option, dst)
		}
		name, _, _ := strings.Cut(option, "=")
		t.Options = slices.DeleteFunc(t.Options, func(given string) bool { return replacesOption(name, given) })
		t.Options = append(t.Options, option)
	}
	return t, nil
}

// replacesOption reports whether option name replaces an option that was given before.
func replacesOption(name, given string) bool {
	earlier, _, _ := strings.Cut(given, "=")
	return earlier == name || earlier == oppositeFlag(name)
}

// oppositeFlag returns the flag that undoes a flag; empty when there is none.
func oppositeFlag(flag string) string {
	switch flag {
	case "ro":
		return "rw"
	case "rw":
		return "ro"
	case "exec", "suid", "dev", "atime", "diratime", "relatime", "strictatime":
		return "no" + flag
	case "noexec", "nosuid", "nodev", "noatime", "nodiratime", "norelatime", "nostrictatime":
		return strings.TrimPrefix(flag, "no")
	case "sync":
		return "async"
	case "async":
		return "sync"
	default:
		return ""
	}
}

func validTmpfsOption(option string) bool {
	name, value, hasValue := strings.Cut(option, "=")
	if !hasValue {
		return oppositeFlag(name) != ""
	}
	switch name {
	case "size", "nr_blocks", "nr_inodes":
		value = strings.TrimRight(value, "kKmMgG%")
		_, err := strconv.ParseUint(value, 10, 63)
		return err == nil
	case "mode":
		mode, err := strconv.ParseUint(value, 8, 32)
		return err == nil && mode <= 0o7777
	case "uid", "gid":
		_, ok := numericID(value)
		return ok
	default:
		return false
	}
}
