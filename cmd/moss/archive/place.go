package archive

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Source is what is copied: what its path says, before anybody has looked.
type Source struct {
	Path     string // clean
	Contents bool   // what a folder holds and not the folder: the path ends in /. or is the root
	Folder   bool   // the path asserts a folder by its last sign
}

// ParseSource reads a path that is copied from.
func ParseSource(text string) Source {
	s := Source{Path: path.Clean(text), Folder: assertsFolder(text)}
	s.Contents = strings.HasSuffix(text, "/.") || s.Path == "." || s.Path == "/"
	return s
}

// Name is what the source is called in a folder it is copied to.
func (s Source) Name() string {
	if s.Contents {
		return "."
	}
	return path.Base(s.Path)
}

// Resolved returns the source that a symbolic link leads to, under the link's own name.
func (s Source) Resolved(target string) string {
	if path.IsAbs(target) {
		return path.Clean(target)
	}
	return path.Join(path.Dir(s.Path), target)
}

// assertsFolder reports whether a path can only be that of a folder.
func assertsFolder(text string) bool {
	return strings.HasSuffix(text, "/") || strings.HasSuffix(text, "/.") || text == "."
}

// Target is where something is copied to.
type Target struct {
	Path   string // clean
	Exists bool
	Dir    bool // it exists and is a folder
	Folder bool // the path asserts a folder by its last sign
}

// NewTarget reads a path that is copied to; whether it exists is for the caller to find out.
func NewTarget(text string) Target {
	return Target{Path: path.Clean(text), Folder: assertsFolder(text)}
}

// Place returns the folder that the copy is unpacked in, which exists, and the name that the source's top gets in it.
// isDir says whether the source is a folder.
func (t Target) Place(source Source, isDir bool) (dir, name string, err error) {
	switch {
	case source.Folder && !isDir:
		return "", "", fmt.Errorf("%s is no folder", source.Path)
	case t.Dir:
		return t.Path, source.Name(), nil
	case t.Exists && isDir:
		return "", "", fmt.Errorf("a folder cannot be copied over the file %s", t.Path)
	case t.Exists && t.Folder:
		return "", "", fmt.Errorf("%s is no folder", t.Path)
	case !t.Exists && !isDir && t.Folder:
		return "", "", fmt.Errorf("the folder %s does not exist", t.Path)
	default:
		return path.Dir(t.Path), path.Base(t.Path), nil
	}
}

// maxLinks is how many symbolic links in a row are followed, as in the kernel.
const maxLinks = 40

// LocalTarget looks a path of this machine up. A symbolic link is followed, also to where nothing is: the user named it.
func LocalTarget(text string) (Target, error) {
	t := NewTarget(text)
	for range maxLinks {
		info, err := os.Lstat(t.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			parent, err := os.Stat(filepath.Dir(t.Path))
			if err != nil {
				return t, err
			}
			if !parent.IsDir() {
				return t, fmt.Errorf("%s is no folder", filepath.Dir(t.Path))
			}
			return t, nil
		case err != nil:
			return t, err
		case info.Mode()&fs.ModeSymlink == 0:
			if !info.IsDir() && !info.Mode().IsRegular() {
				return t, fmt.Errorf("%s is neither a file nor a folder", t.Path)
			}
			t.Exists, t.Dir = true, info.IsDir()
			return t, nil
		}
		target, err := os.Readlink(t.Path)
		if err != nil {
			return t, err
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(t.Path), target)
		}
		t.Path = filepath.Clean(target)
	}
	return t, fmt.Errorf("%s: too many symbolic links", text)
}

// LocalSource looks a path of this machine up: the file to pack, and whether it is a folder. With follow, or where the
// path asserts a folder, a symbolic link is followed.
func LocalSource(source Source, follow bool) (file string, isDir bool, err error) {
	file = source.Path
	if follow || source.Folder || source.Contents {
		if file, err = filepath.EvalSymlinks(file); err != nil {
			return "", false, err
		}
	}
	info, err := os.Lstat(file)
	if err != nil {
		return "", false, err
	}
	return file, info.IsDir(), nil
}
