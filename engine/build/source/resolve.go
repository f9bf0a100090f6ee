package source

import (
	"io/fs"
	"path"
	"strings"

	"moss/engine/fault"
	"moss/engine/tarfile"
	trees "moss/engine/tree"
)

// Texts of errors, which are the kernel's.

func noSuchFile(name string) error { return fault.NotFound("stat %s: no such file or directory", name) }

func notFolder(name string) error { return fault.Invalid("stat %s: not a directory", name) }

func tooManyLinks(name string) error {
	return fault.Invalid("stat %s: too many levels of symbolic links", name)
}

// cleanPath returns a path of a source, clean and relative to its root, which nothing leads out of.
func cleanPath(name string) (string, error) {
	if strings.ContainsRune(name, 0) {
		return "", fault.Invalid("the path %q holds a zero byte", name)
	}
	if len(name) > tarfile.MaxName {
		return "", fault.Invalid("the path %.64q… has more than %d bytes", name, tarfile.MaxName)
	}
	clean := strings.TrimLeft(path.Clean("/"+name), "/")
	if clean == "" {
		return ".", nil
	}
	return clean, nil
}

// resolveLinks follows the links on a clean path, the last one too if follow is set, and returns the path without them.
// Nothing leads out of the root: there, ".." is the root. look tells of a clean path without links on its way what is there:
// its type, and what it says if it is a link.
func resolveLinks(name string, follow bool, look func(clean string) (fs.FileMode, string, error)) (string, error) {
	at, rest, links := ".", name, 0
	for rest != "" {
		var part string
		part, rest, _ = strings.Cut(rest, "/")
		switch part {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, part)
		mode, link, err := look(next)
		if err != nil {
			return "", err
		}
		switch {
		case mode&fs.ModeSymlink != 0 && (rest != "" || follow):
			if links++; links > trees.MaxLinks || len(link)+len(rest) > tarfile.MaxName {
				return "", tooManyLinks(name)
			}
			if path.IsAbs(link) {
				at = "."
			}
			if rest != "" {
				link += "/" + rest
			}
			rest = link
		case !mode.IsDir() && strings.Trim(rest, "/") != "":
			return "", notFolder(name)
		default:
			at = next
		}
	}
	return at, nil
}
