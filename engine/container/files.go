package container

import "os"

// Files is a view on a container's files that lasts until it is closed, whatever becomes of the container. It is a handle
// to resolve names below, never a path: what it shows is mounted nowhere that the engine sees.
type Files struct {
	Record *Record                 // of the container when the view was opened
	Root   *os.File                // its root folder, opened with O_PATH
	IDs    *IDMap                  // what the owners of its files are inside; nil: the same as to the engine
	User   func() (UserIDs, error) // looks the container's user up in its files; fault.Invalid without an entry
	Done   func() error
}

// Close ends the view. Descriptors that were opened below it go on working.
func (f *Files) Close() error { return f.Done() }

// ChangeKind says what happened to a path; the numbers are those of the API (document 2, 4.1: changes).
type ChangeKind int

// The kinds of change.
const (
	ChangeModified ChangeKind = 0
	ChangeAdded    ChangeKind = 1
	ChangeDeleted  ChangeKind = 2
)

// Change is one difference between a container's file system and its image.
type Change struct {
	Path string // absolute, in the container
	Kind ChangeKind
}
