package volume

import (
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"moss/engine/fault"
)

// kind is what holds a volume's data.
type kind int

const (
	kindFolder kind = iota // _data itself
	kindBind               // another folder of the user's
	kindTmpfs              // memory, as long as a container runs with it
)

// backing is the parsed form of a volume's options.
type backing struct {
	kind     kind
	device   string // the other folder, absolute; for tmpfs the name in the table of mounts
	data     string // of mount(2)
	readOnly bool
	flags    string // noexec, nosuid and nodev, as far as they were asked for, joined by commas
}

// parseOptions takes type, device and o as far as an ordinary user can mount: nothing at all, type=tmpfs, or o=bind with a
// device. Anything else is fault.Invalid.
func parseOptions(options map[string]string) (backing, error) {
	for _, key := range slices.Sorted(maps.Keys(options)) {
		if !slices.Contains([]string{"type", "device", "o"}, key) {
			return backing{}, fault.Invalid("invalid option: %q", key)
		}
	}
	if len(options) == 0 {
		return backing{}, nil
	}
	kindName, device, words := options["type"], options["device"], strings.Split(options["o"], ",")
	switch {
	case kindName == "tmpfs":
		return parseTmpfs(device, words)
	case (kindName == "" || kindName == "none") && (slices.Contains(words, "bind") || slices.Contains(words, "rbind")):
		return parseBind(device, words)
	default:
		return backing{}, fault.Invalid("invalid options type=%q o=%q: an ordinary user can have type=tmpfs, "+
			"or o=bind with a device that is a folder, and mount nothing else", kindName, options["o"])
	}
}

func parseBind(device string, words []string) (backing, error) {
	if device == "" {
		return backing{}, fault.Invalid("missing device in volume options")
	}
	if !filepath.IsAbs(device) || strings.ContainsRune(device, 0) {
		return backing{}, fault.Invalid("invalid option device=%q: want an absolute path", device)
	}
	b := backing{kind: kindBind, device: filepath.Clean(device)}
	for _, word := range words {
		switch word {
		case "bind", "rbind", "rw", "":
		case "ro":
			b.readOnly = true
		default:
			if !b.setFlag(word) {
				return backing{}, fault.Invalid("invalid option o=%q: a bind takes bind, rbind, ro, rw, noexec, nosuid and nodev", word)
			}
		}
	}
	return b, nil
}

func parseTmpfs(device string, words []string) (backing, error) {
	if device == "" {
		device = "tmpfs"
	}
	if strings.ContainsRune(device, 0) {
		return backing{}, fault.Invalid("invalid option device=%q", device)
	}
	b := backing{kind: kindTmpfs, device: device}
	var data []string
	for _, word := range words {
		switch {
		case word == "", word == "rw":
		case word == "ro":
			b.readOnly = true
		case validTmpfsData(word):
			data = append(data, word)
		case b.setFlag(word):
		default:
			return backing{}, fault.Invalid("invalid option o=%q: type tmpfs takes size, nr_blocks, nr_inodes, mode, uid, gid, ro, rw, "+
				"noexec, nosuid and nodev", word)
		}
	}
	b.data = strings.Join(data, ",")
	return b, nil
}

// setFlag takes a flag that a container's mount of the volume can have, or one that says what is so anyway.
func (b *backing) setFlag(word string) bool {
	switch word {
	case "noexec", "nosuid", "nodev":
		if !slices.Contains(strings.Split(b.flags, ","), word) {
			b.flags = strings.TrimPrefix(b.flags+","+word, ",")
		}
		return true
	case "exec", "suid", "dev":
		return !slices.Contains(strings.Split(b.flags, ","), "no"+word)
	default:
		return false
	}
}

func validTmpfsData(word string) bool {
	name, value, _ := strings.Cut(word, "=")
	base := 10
	switch name {
	case "size", "nr_blocks", "nr_inodes":
		units := "kKmMgG"
		if name == "size" {
			units += "%" // of the machine's memory
		}
		if value != "" && strings.IndexByte(units, value[len(value)-1]) >= 0 {
			value = value[:len(value)-1]
		}
	case "mode":
		base = 8
	case "uid", "gid":
	default:
		return false
	}
	n, err := strconv.ParseUint(value, base, 63)
	switch name {
	case "mode":
		return err == nil && n <= 0o7777
	case "uid", "gid":
		return err == nil && n < 1<<32-1
	default:
		return err == nil
	}
}
