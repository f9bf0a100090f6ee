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
}

// Tmpfs is a file system in memory.
type Tmpfs struct {
	Destination string   // absolute path in the container, cleaned, never "/"
	Options     []string // mount options, the defaults included
}

// checkMounts parses Binds and Tmpfs, and the volumes of both sides against them.
func checkMounts(d *draft) error {
	taken := make(map[string]bool, len(d.Host.Binds)+len(d.Host.Tmpfs))
	take := func(dst string) error {
		if taken[dst] {
			return fault.Invalid("Duplicate mount point: %s", dst)
		}
		taken[dst] = true
		return nil
	}
	for _, s := range d.Host.Binds {
		b, err := ParseBind(s)
		if err != nil {
			return err
		}
		if err := take(b.Destination); err != nil {
			return err
		}
		if strings.HasSuffix(b.Propagation, "shared") {
			d.warn("Mounts made below %s in the container are not seen outside: an ordinary user's mounts cannot be shared with the host.",
				b.Destination)
		}
		d.Binds = append(d.Binds, b)
	}
	for _, dst := range slices.Sorted(maps.Keys(d.Host.Tmpfs)) {
		t, err := parseTmpfs(dst, d.Host.Tmpfs[dst])
		if err != nil {
			return err
		}
		if err := take(t.Destination); err != nil {
			return err
		}
		d.Tmpfs = append(d.Tmpfs, t)
	}
	return d.checkVolumes(taken)
}

// checkVolumes refuses volumes, which come later, except where a bind or tmpfs takes their place. Without its volume an
// image's data lies in the container's own layer: that is harmless, and said.
func (d *draft) checkVolumes(taken map[string]bool) error {
	for _, dst := range slices.Sorted(maps.Keys(d.Config.Volumes)) {
		clean, err := destination("volume "+dst, dst)
		if err != nil {
			return err
		}
		if !taken[clean] {
			return unsupported("Volumes", dst)
		}
	}
	for _, dst := range slices.Sorted(maps.Keys(d.img.Volumes)) {
		clean := path.Join("/", dst)
		_, asked := d.Config.Volumes[dst]
		if !taken[clean] && !asked {
			d.warn("The image's volume %s is part of the container's own layer: volumes are not supported yet.", dst)
		}
	}
	return nil
}

// ParseBind takes "source:destination" and "source:destination:mode", where mode is a comma-separated list of ro or rw,
// a propagation, and the marks z and Z, which mean nothing without SELinux. A volume's name as the source gives
// fault.Unsupported, anything else that is wrong fault.Invalid (API document 1, 2.3: Binds).
func ParseBind(s string) (Bind, error) {
	parts := strings.Split(s, ":")
	if len(parts) > 3 || strings.ContainsRune(s, 0) || slices.Contains(parts, "") {
		return Bind{}, fault.Invalid("invalid volume specification: '%s'", s)
	}
	if len(parts) == 1 { // an anonymous volume
		if _, err := destination(s, s); err != nil {
			return Bind{}, err
		}
		return Bind{}, unsupported("Binds", s)
	}
	dst, err := destination(s, parts[1])
	if err != nil {
		return Bind{}, err
	}
	b := Bind{Source: path.Clean(parts[0]), Destination: dst, Propagation: "rprivate"}
	if len(parts) == 3 {
		if err := b.parseMode(parts[2]); err != nil {
			return Bind{}, err
		}
	}
	if path.IsAbs(parts[0]) {
		return b, nil
	}
	if _, err := CheckName(parts[0]); err != nil || strings.HasPrefix(parts[0], "/") {
		return Bind{}, fault.Invalid("invalid volume specification: '%s': %q includes invalid characters for a volume name, "+
			"only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed. If you intended to pass a host directory, use an absolute path", s, parts[0])
	}
	return Bind{}, unsupported("Binds", s)
}

// destination cleans a mount point. spec is what the error shows.
func destination(spec, dst string) (string, error) {
	if !path.IsAbs(dst) || strings.ContainsRune(dst, 0) {
		return "", fault.Invalid("invalid volume specification: '%s': invalid mount path: '%s' mount path must be absolute", spec, dst)
	}
	clean := path.Clean(dst)
	if clean == "/" {
		return "", fault.Invalid("invalid volume specification: '%s': invalid specification: destination can't be '/'", spec)
	}
	return clean, nil
}

// parseMode reads the part after the second colon. Of each group of options one may be given.
func (b *Bind) parseMode(mode string) error {
	b.Mode = mode
	var access, propagation, label, consistency int
	for option := range strings.SplitSeq(mode, ",") {
		switch option {
		case "ro":
			b.ReadOnly = true
			access++
		case "rw":
			access++
		case "private", "rprivate", "shared", "rshared", "slave", "rslave":
			b.Propagation = option
			propagation++
		case "z", "Z":
			label++
		case "consistent", "cached", "delegated": // hints for hosts that are not Linux
			consistency++
		default:
			return fault.Invalid("invalid mode: %s", mode)
		}
	}
	if max(access, propagation, label, consistency) > 1 {
		return fault.Invalid("invalid mode: %s", mode)
	}
	return nil
}

// parseTmpfs reads one entry of Tmpfs. What the client leaves open is noexec, nosuid and nodev.
func parseTmpfs(dst, options string) (Tmpfs, error) {
	clean, err := destination(dst, dst)
	if err != nil {
		return Tmpfs{}, err
	}
	t := Tmpfs{Destination: clean, Options: []string{"noexec", "nosuid", "nodev"}}
	for option := range strings.SplitSeq(options, ",") {
		if option == "" {
			continue
		}
		if !validTmpfsOption(option) {
			return Tmpfs{}, fault.Invalid("invalid tmpfs option %q of %s", option, dst)
		}
		name, _, _ := strings.Cut(option, "=")
		t.Options = slices.DeleteFunc(t.Options, func(given string) bool { return excludes(name, given) })
		t.Options = append(t.Options, option)
	}
	return t, nil
}

// excludes reports whether option name replaces an option that was given before.
func excludes(name, given string) bool {
	earlier, _, _ := strings.Cut(given, "=")
	return earlier == name || earlier == opposite(name)
}

// opposite returns the flag that undoes a flag; empty when there is none.
func opposite(flag string) string {
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
		return opposite(name) != ""
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
