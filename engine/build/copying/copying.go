// Package copying is what COPY, ADD and WORKDIR do: it finds the files that an instruction names, says what they are in one
// digest, and writes them as the archive of a layer. It knows where files go in the image below, and changes nothing of it.
//
// Where Docker's builders differ from each other, BuildKit is followed, except that an account which does not exist, a
// pattern that cannot be one and files that would overwrite each other unasked are errors.
package copying

import (
	"context"
	"io"
	"time"

	"moss/engine/build/source"
)

// Origin is where files of an instruction come from. It decides how their paths are read and whose they are.
type Origin int

// The origins.
const (
	FromContext  Origin = iota // the build's context: paths are patterns, links at their end are followed, files become root's
	FromImage                  // a stage or an image: as FromContext, but files keep their owners
	FromDownload               // a file that was fetched: its path is just that; archives are unpacked only on demand
	FromInline                 // a document in the Dockerfile: its path is just that; never unpacked
	FromGit                    // a checkout: its path is a folder whose content is copied; never unpacked
	FromMount                  // what a RUN sees as it is: as FromGit, but a file too, and files keep their owners
)

// Item is one source of an instruction.
type Item struct {
	Source source.Source
	Origin Origin
	Path   string // as the instruction has it, variables expanded; counts from the source's root
}

// Request is a COPY or an ADD.
type Request struct {
	Add     bool // ADD: archives of the context are unpacked
	Items   []Item
	Dest    string // as the instruction has it, variables expanded
	WorkDir string // what Dest is relative to; empty: /
	Chown   string // user[:group], names or numbers; empty: owners are as the origin says
	Chmod   string // octal or symbolic; empty: modes stay
	Link    bool   // the image below is not looked at: Dest is made of folders only
	Parents bool   // folders on the way to a file are copied too, those behind "/./" if the path has that
	Exclude []string
	Unpack  *bool // --unpack; nil: archives are unpacked by ADD, unless they were downloaded

	Created time.Time // the time of folders that are made on the way to Dest; zero: the latest of what is copied
}

// Plan is an instruction whose sources were found. It may be used again, by one goroutine at a time, as long as its
// sources are open.
type Plan struct {
	req       Request
	chmod     chmod
	owner     owner
	dest      place
	exclude   *filter
	matches   []*match
	unmatched []string
	size      int64
	files     int64
}

// NewPlan finds what an instruction copies. Errors are fault.Invalid for an instruction that cannot be, fault.NotFound for
// sources that are not there, else those of the sources; their text begins with "COPY failed: " or "ADD failed: ".
func NewPlan(ctx context.Context, req Request) (*Plan, error) {
	p, err := newPlan(ctx, req)
	if err != nil {
		return nil, req.wrapError(err)
	}
	return p, nil
}

// Unmatched returns the patterns that nothing fits, which is no error.
func (p *Plan) Unmatched() []string { return p.unmatched }

// Size returns how many bytes and files the layer will hold about. What an archive unpacks to is not known before.
func (p *Plan) Size() (bytes, files int64) { return p.size, p.files }

// Digest says what the plan copies: kind is "file", "dir" or, for several sources, "multi"; hex is the SHA-256 of names,
// types, modes, owners, content, links and attributes. Times do not count, nor does the destination.
func (p *Plan) Digest(ctx context.Context) (kind, hex string, err error) {
	kind, hex, err = p.computeDigest(ctx)
	if err != nil {
		return "", "", p.req.wrapError(err)
	}
	return kind, hex, nil
}

// WriteLayer writes the archive of the layer that the instruction makes on top of an image's file system; nil stands for
// none. The same plan on the same base gives the same bytes. Errors are fault.Invalid for what cannot be placed there,
// fault.NotFound for a source that is gone, else those of base, sources and w; their text begins as NewPlan's.
func (p *Plan) WriteLayer(ctx context.Context, base source.Source, w io.Writer) error {
	if err := p.writeLayer(ctx, base, w); err != nil {
		return p.req.wrapError(err)
	}
	return nil
}

// Folder is a WORKDIR.
type Folder struct {
	Path    string    // absolute
	Owner   string    // the image's user: user[:group]; one that the image does not know counts as root, as do its groups
	Created time.Time // of the folders that are made
}

// Exists reports whether there is nothing to do: the folder is there, links followed. Errors are fault.Invalid if
// something else is there.
func (f Folder) Exists(ctx context.Context, base source.Source) (bool, error) {
	return f.existsIn(ctx, base)
}

// WriteLayer writes the archive of the layer that makes the folder, with those missing above it. base as for Plan. Errors
// are fault.Invalid if the way there is barred, else those of base and w.
func (f Folder) WriteLayer(ctx context.Context, base source.Source, w io.Writer) error {
	return f.writeLayer(ctx, base, w)
}
