// Package damage keeps account of files that are not what they should be. It sets them aside, so that the engine goes on
// and a person can look at them, and tells what it did. It knows nothing of what the files mean, and deletes nothing.
package damage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Folder is the name, below the engine's data folder, of the folder that damaged files are moved to.
const Folder = "damaged"

const (
	stampForm = "20060102T150405.000000000Z"
	maxName   = 180 // bytes of a name in the folder, beside the time: names of files have 255 at most
)

// Found is one damaged file.
type Found struct {
	Path  string    // below the data folder
	Why   string    // empty: an earlier engine set it aside
	At    time.Time // when it was found
	Aside string    // where it is now, below the data folder; empty: in its place
}

// String describes a damaged file in one line.
func (f Found) String() string {
	text := "damaged: " + f.Path
	if f.Why != "" {
		text += ": " + strings.ReplaceAll(f.Why, "\n", "; ")
	}
	if f.Aside != "" {
		text += " (set aside as " + f.Aside + ")"
	}
	return text
}

// Account is what is known of damage below one data folder. A nil Account is of no use.
type Account struct {
	root string
	tell func(Found)

	mu    sync.Mutex // guards found
	found []Found
}

// New makes the account of a data folder. tell is called for every damaged file, once; it may be nil.
func New(root string, tell func(Found)) *Account {
	if tell == nil {
		tell = func(Found) {}
	}
	return &Account{root: root, tell: tell}
}

// SetAside moves a file, link or folder out of the way, into the folder for that, or beside its old place. What is absent
// is no error and no damage.
func (a *Account) SetAside(path string, why error) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	f := a.newFound(path, why)
	dir := filepath.Join(a.root, Folder)
	if err := makeFolder(dir, f.At); err != nil {
		return fmt.Errorf("set %s aside: %w", f.Path, err)
	}
	f.Aside = filepath.Join(Folder, f.At.Format(stampForm)+" "+escapePath(f.Path))
	err := os.Rename(path, filepath.Join(a.root, f.Aside))
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EXDEV) {
		// A folder of somebody else's, or one on another file system, moves within the folder around it only.
		f.Aside = filepath.Join(filepath.Dir(f.Path), "."+Folder+"-"+f.At.Format(stampForm))
		err = os.Rename(path, filepath.Join(a.root, f.Aside))
	}
	if err != nil {
		return fmt.Errorf("set %s aside: %w", f.Path, err)
	}
	a.addFound(f)
	return nil
}

// Note tells of a damaged file that stays where it is.
func (a *Account) Note(path string, why error) { a.addFound(a.newFound(path, why)) }

// Settle forgets what was noted of a path and of all below it: it is gone, or whole again.
func (a *Account) Settle(path string) {
	rel := a.relPath(path)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.found = slices.DeleteFunc(a.found, func(f Found) bool {
		return f.Aside == "" && (f.Path == rel || strings.HasPrefix(f.Path, rel+"/"))
	})
}

// All returns the damage that is known, and what earlier engines set aside, the oldest first.
func (a *Account) All() ([]Found, error) {
	a.mu.Lock()
	all := slices.Clone(a.found)
	a.mu.Unlock()
	entries, err := os.ReadDir(filepath.Join(a.root, Folder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return all, fmt.Errorf("list what was set aside: %w", err)
	}
	aside := map[string]bool{}
	for _, entry := range entries {
		aside[filepath.Join(Folder, entry.Name())] = true
	}
	all = slices.DeleteFunc(all, func(f Found) bool { // somebody has dealt with it
		_, err := os.Lstat(filepath.Join(a.root, f.Aside))
		return f.Aside != "" && errors.Is(err, fs.ErrNotExist)
	})
	for _, f := range all {
		delete(aside, f.Aside)
	}
	for name := range aside {
		stamp, path, _ := strings.Cut(filepath.Base(name), " ")
		f := Found{Path: path, Aside: name}
		if at, err := time.Parse(stampForm, stamp); err == nil {
			f.At = at
		}
		if plain, err := url.PathUnescape(path); err == nil {
			f.Path = plain
		}
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b Found) int {
		if order := a.At.Compare(b.At); order != 0 {
			return order
		}
		return strings.Compare(a.Path, b.Path)
	})
	return all, nil
}

// Plain sets aside what is in the place of a file and is none: a folder, a link, a device. What cannot be read is set aside
// too. It reports whether a readable file is there.
func (a *Account) Plain(path string) (there bool, err error) {
	err = CheckPlain(path)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return err == nil, nil
	}
	return false, a.SetAside(path, err)
}

// CheckPlain tells why a path is no file that can be read; nil if it is one. Nothing is followed or waited for.
func CheckPlain(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("not a file but %s", info.Mode().Type())
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	if info.Size() > 0 {
		_, err = f.ReadAt(make([]byte, 1), 0)
	}
	return errors.Join(err, f.Close())
}

// CheckFolder tells why a path is no folder that can be listed; nil if it is one. A link is not followed.
func CheckFolder(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	_, err = f.Readdirnames(1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

// Read returns the content of a file of at most limit bytes. What is no file is neither followed nor waited for, and is an
// error that names it.
func Read(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, fmt.Errorf("%s is not a file but a link", path)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // opened for reading
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file but %s", path, info.Mode().Type())
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("%s has %d bytes, more than %d", path, info.Size(), limit)
	}
	return io.ReadAll(f)
}

func (a *Account) newFound(path string, why error) Found {
	f := Found{Path: a.relPath(path), At: time.Now().UTC()}
	if why != nil {
		f.Why = why.Error()
	}
	return f
}

func (a *Account) relPath(path string) string {
	rel, err := filepath.Rel(a.root, path)
	if err != nil {
		return path
	}
	return rel
}

func (a *Account) addFound(f Found) {
	a.mu.Lock()
	a.found = append(a.found, f)
	a.mu.Unlock()
	a.tell(f)
}

// makeFolder makes the folder, also where something else has its name.
func makeFolder(dir string, now time.Time) error {
	err := os.Mkdir(dir, 0o700)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if info, err := os.Lstat(dir); err != nil || info.IsDir() {
		return err
	}
	if err := os.Rename(dir, dir+"."+now.Format(stampForm)); err != nil {
		return err
	}
	return os.Mkdir(dir, 0o700)
}

// escapePath makes one file name of a path, cut at its beginning if it is too long for one.
func escapePath(path string) string {
	name := url.PathEscape(path)
	if len(name) <= maxName {
		return name
	}
	return "..." + name[len(name)-maxName:]
}
