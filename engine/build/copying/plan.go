package copying

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"moss/engine/build/source"
	"moss/engine/fault"
)

// match is one thing that a source's path names.
type match struct {
	src     source.Source
	keep    bool   // owners stay
	name    string // in a folder that it is put into
	file    file
	archive bool // to be unpacked
}

// file is what is copied: for a folder with what is in it.
type file struct {
	name    string
	entry   *source.Entry
	kids    []file // sorted by name
	passage bool   // a folder that nothing named, which is there for what is in it
}

// place is where a path of an image leads: clean, without a slash at its beginning; "." is the root.
type place struct {
	path   string
	folder bool // the instruction says that it is one
}

// newPlace reads a path that may be relative to a folder.
func newPlace(dir, dest string) (place, error) {
	if strings.ContainsRune(dest, 0) {
		return place{}, fault.Invalid("the destination %q holds a zero byte", dest)
	}
	if !path.IsAbs(dest) {
		dest = dir + "/" + dest
	}
	base := dest[strings.LastIndexByte(dest, '/')+1:]
	return place{path: toRelative(dest), folder: base == "" || base == "." || base == ".."}, nil
}

// toRelative returns a path relative to a root that nothing leads out of.
func toRelative(name string) string {
	if name = path.Clean("/" + name)[1:]; name == "" {
		return "."
	}
	return name
}

// wrapError adds the instruction to an error, as clients know it.
func (r *Request) wrapError(err error) error {
	if r.Add {
		return fmt.Errorf("ADD failed: %w", err)
	}
	return fmt.Errorf("COPY failed: %w", err)
}

func (r *Request) instructionName() string {
	if r.Add {
		return "ADD"
	}
	return "COPY"
}

// tooManySources is the error for several sources that would all become the same file.
func (r *Request) tooManySources() error {
	return fault.Invalid("When using %s with more than one source file, the destination must be a directory and end with a /",
		r.instructionName())
}

func newPlan(ctx context.Context, req Request) (*Plan, error) {
	p := &Plan{req: req}
	var err error
	if p.dest, err = newPlace(req.WorkDir, req.Dest); err != nil {
		return nil, err
	}
	if len(req.Items) == 0 {
		return nil, fault.Invalid("no source files were specified")
	}
	if len(req.Items) > 1 && !p.dest.folder {
		return nil, req.tooManySources()
	}
	if p.chmod, err = parseChmod(req.Chmod); err != nil {
		return nil, err
	}
	if p.owner, err = parseOwner(req.Chown); err != nil {
		return nil, err
	}
	if p.exclude, err = newFilter(req.Exclude); err != nil {
		return nil, err
	}
	for _, item := range req.Items {
		if err := p.addItem(ctx, item); err != nil {
			return nil, err
		}
	}
	if p.req.Created.IsZero() {
		p.req.Created = p.latestTime()
	}
	return p, nil
}

// latestTime is the time of folders that are made: what is copied is not older, and the same layer comes out every time.
func (p *Plan) latestTime() time.Time {
	at := time.Unix(0, 0)
	for _, m := range p.matches {
		if m.file.entry.ModTime.After(at) {
			at = m.file.entry.ModTime
		}
	}
	return at
}

// addItem adds what an item names to the plan.
func (p *Plan) addItem(ctx context.Context, item Item) error {
	switch item.Origin {
	case FromContext, FromImage:
		if p.req.Parents {
			return p.findParents(ctx, item)
		}
		return p.findPattern(ctx, item)
	case FromDownload, FromInline:
		entry, err := item.Source.Stat(ctx, item.Path, false)
		if err != nil {
			return item.translateStatError(item.Path, err)
		}
		return p.addMatch(ctx, item, path.Base(item.Path), entry)
	case FromGit, FromMount:
		entry, err := item.Source.Stat(ctx, item.Path, true)
		if err != nil {
			return item.translateStatError(item.Path, err)
		}
		return p.addMatch(ctx, item, ".", entry)
	default:
		return fault.Internal("an item has the origin %d", item.Origin)
	}
}

// translateStatError returns the error of Stat as clients know it.
func (i Item) translateStatError(name string, err error) error {
	if !fault.Is(err, fault.NotFound) {
		return err
	}
	if clean := path.Clean(i.Path); i.Origin == FromContext && (clean == ".." || strings.HasPrefix(clean, "../")) {
		return fault.Invalid("forbidden path outside the build context: %s", i.Path)
	}
	if i.Origin == FromContext {
		return fault.NotFound("file not found in build context or excluded by .dockerignore: stat %s: file does not exist", name)
	}
	return fault.NotFound("stat %s: file does not exist", name)
}

// findPattern adds what fits a path: one that is no pattern must be there.
func (p *Plan) findPattern(ctx context.Context, item Item) error {
	names, err := expandPattern(ctx, item)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		p.unmatched = append(p.unmatched, item.Path)
	}
	for _, name := range names {
		entry, err := item.Source.Stat(ctx, name, true)
		if err != nil {
			return item.translateStatError(name, err)
		}
		if !entry.Mode.IsDir() && p.exclude.excludesFile(name) {
			continue
		}
		if err := p.addMatch(ctx, item, path.Base(name), entry); err != nil {
			return err
		}
	}
	return nil
}

// findParents adds what fits a path, with the folders above it.
func (p *Plan) findParents(ctx context.Context, item Item) error {
	top, pattern, pivot := strings.Cut(item.Path, "/./")
	if !pivot {
		top, pattern = ".", item.Path
	}
	pattern = toRelative(pattern)
	item.Path = top
	names, err := expandPattern(ctx, item)
	if err != nil {
		return err
	}
	include, err := newIncluding(pattern, p.exclude)
	if err != nil {
		return err
	}
	found := false
	for _, name := range names {
		entry, err := item.Source.Stat(ctx, name, true)
		if err != nil {
			return item.translateStatError(name, err)
		}
		if !entry.Mode.IsDir() {
			continue
		}
		m := &match{src: item.Source, keep: item.Origin == FromImage, file: file{entry: entry}}
		if m.file.kids, err = p.collectFiles(ctx, m.src, entry, include, seen{}); err != nil {
			return err
		}
		found = found || len(m.file.kids) > 0
		p.matches = append(p.matches, m)
	}
	if found {
		return nil
	}
	if full := path.Join(top, pattern); !isPattern(top) && !isPattern(pattern) {
		return item.translateStatError(full, fault.NotFound("nothing fits"))
	}
	p.unmatched = append(p.unmatched, path.Join(top, pattern))
	return nil
}

// addMatch adds an entry to the plan, under a name.
func (p *Plan) addMatch(ctx context.Context, item Item, name string, entry *source.Entry) error {
	keep := item.Origin == FromImage || item.Origin == FromMount
	m := &match{src: item.Source, keep: keep, name: name, file: file{name: name, entry: entry}}
	var err error
	if entry.Mode.IsDir() {
		m.file.name = "" // only what is in it is copied
		m.file.kids, err = p.collectFiles(ctx, m.src, entry, p.exclude, seen{})
	} else {
		p.countEntry(entry)
		if entry.Mode.IsRegular() && p.unpacksArchives(item) {
			m.archive, err = isArchive(ctx, item.Source, entry)
		}
	}
	if err != nil {
		return err
	}
	p.matches = append(p.matches, m)
	return nil
}

// unpacksArchives reports whether archives among an item's files are unpacked.
func (p *Plan) unpacksArchives(item Item) bool {
	switch item.Origin {
	case FromContext, FromImage:
		if p.req.Unpack != nil {
			return *p.req.Unpack
		}
		return p.req.Add
	case FromDownload:
		return p.req.Unpack != nil && *p.req.Unpack
	case FromInline, FromGit, FromMount:
		return false
	}
	return false
}

// countEntry counts an entry that the layer will hold.
func (p *Plan) countEntry(e *source.Entry) {
	p.files++
	if e.Mode.IsRegular() {
		p.size += e.Size
	}
}

// collectFiles returns the files of a folder that are copied.
func (p *Plan) collectFiles(ctx context.Context, src source.Source, dir *source.Entry, by *filter, above seen) ([]file, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	entries, err := src.List(ctx, dir)
	if err != nil {
		return nil, err
	}
	files := make([]file, 0, len(entries))
	for _, e := range entries {
		f := file{name: path.Base(e.Path), entry: e}
		state, included, below, err := by.matchName(above, f.name)
		if err != nil {
			return nil, err
		}
		if e.Mode.IsDir() && (included || below) {
			if f.kids, err = p.collectFiles(ctx, src, e, by, state); err != nil {
				return nil, err
			}
			f.passage = !included
		}
		if e.Mode&fs.ModeSocket != 0 || !included && len(f.kids) == 0 {
			continue // no archive holds a socket
		}
		if strings.HasPrefix(f.name, whiteout) {
			return nil, noWhiteout(e.Path)
		}
		p.countEntry(e)
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil, nil
	}
	return files, nil
}

// whiteout begins the names by which layers say that something of the image below is gone.
const whiteout = ".wh."

// noWhiteout is the error for a file that would be taken for a removal.
func noWhiteout(name string) error {
	return fault.Invalid("%s: names that begin with %s mean in layers that a file is removed", name, whiteout)
}

// notThere reports whether nothing is at a path.
func notThere(err error) bool { return fault.Is(err, fault.NotFound) || errors.Is(err, fs.ErrNotExist) }
