// Package source holds what instructions of a build read files from: the context that a client has sent, and file systems
// of images. Whatever their links say, nothing outside of them is reached.
package source

import (
	"context"
	"io"
	"io/fs"
	"time"

	"github.com/opencontainers/go-digest"
)

// Entry is one file, folder or link. Entries are never changed.
type Entry struct {
	Path     string      // from the root, clean, without a leading slash; "." is the root itself
	Mode     fs.FileMode // type, permissions, setuid, setgid, sticky
	UID, GID int         // as inside a container
	Size     int64       // bytes of a regular file
	ModTime  time.Time
	Link     string            // what a symbolic link says
	Major    uint32            // of a device
	Minor    uint32            // of a device
	Xattrs   map[string]string // by name; only those that belong in a layer
	Inode    uint64            // entries of regular files with the same one above 0 are the same file

	node *inode // of a Tree
}

// Source is a tree of files.
type Source interface {
	// Stat returns what is at a path. Links on the way are followed inside the source, the last one too if follow is set;
	// the entry's Path is then where that led to. Errors are fault.NotFound and fault.Invalid (a loop, not a folder).
	Stat(ctx context.Context, path string, follow bool) (*Entry, error)
	// List returns what is in a folder, sorted by name. dir is an entry of this source.
	List(ctx context.Context, dir *Entry) ([]*Entry, error)
	// Open returns the content of a regular file. The caller closes it.
	Open(ctx context.Context, file *Entry) (io.ReadCloser, error)
	// Digest returns the digest of a regular file's content.
	Digest(ctx context.Context, file *Entry) (digest.Digest, error)
}
