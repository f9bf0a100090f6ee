package copying

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"io/fs"
	"maps"
	"slices"

	"github.com/opencontainers/go-digest"

	"moss/engine/build/source"
)

// summer adds up what a plan copies. Every text goes in behind its length, so that no two plans read the same.
type summer struct {
	plan *Plan
	sum  hash.Hash
	buf  []byte
}

func (p *Plan) computeDigest(ctx context.Context) (kind, sum string, err error) {
	s := &summer{plan: p, sum: sha256.New()}
	s.addText("moss copy 1")
	s.addText(p.owner.text)
	s.addText(p.chmod.text)
	s.addFlag(p.req.Link)
	for _, m := range p.matches {
		s.addFlag(m.archive)
		if err := s.addFile(ctx, m, &m.file); err != nil {
			return "", "", err
		}
	}
	s.flushRest()
	kind = "multi"
	if len(p.req.Items) == 1 && len(p.matches) == 1 && !p.req.Parents {
		kind = "file"
		if p.matches[0].file.entry.Mode.IsDir() {
			kind = "dir"
		}
	}
	return kind, hex.EncodeToString(s.sum.Sum(nil)), nil
}

func (s *summer) addNumber(n uint64) { s.buf = binary.AppendUvarint(s.buf, n) }

func (s *summer) addText(t string) {
	s.addNumber(uint64(len(t)))
	s.buf = append(s.buf, t...)
}

func (s *summer) addFlag(on bool) {
	if on {
		s.addNumber(1)
	} else {
		s.addNumber(0)
	}
}

func (s *summer) flushRest() {
	s.sum.Write(s.buf)
	s.buf = s.buf[:0]
}

// addFile adds a file, a folder with all that is in it. A file of several names counts under each.
func (s *summer) addFile(ctx context.Context, m *match, f *file) error {
	e := f.entry
	s.addText(f.name)
	s.addNumber(uint64(e.Mode.Type()))
	s.addNumber(uint64(s.plan.chmod.applyTo(e.Mode)))
	if m.keep && s.plan.owner.text == "" {
		s.addNumber(uint64(e.UID))
		s.addNumber(uint64(e.GID))
	}
	s.addFlag(f.passage)
	s.addText(e.Link)
	if e.Mode&fs.ModeDevice != 0 {
		s.addNumber(uint64(e.Major))
		s.addNumber(uint64(e.Minor))
	}
	s.addXattrs(e)
	if e.Mode.IsRegular() {
		content, err := s.contentDigest(ctx, m.src, e)
		if err != nil {
			return err
		}
		s.addText(string(content))
	}
	s.addNumber(uint64(len(f.kids)))
	if len(s.buf) > 16<<10 {
		s.flushRest()
	}
	for i := range f.kids {
		if err := s.addFile(ctx, m, &f.kids[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *summer) contentDigest(ctx context.Context, src source.Source, e *source.Entry) (digest.Digest, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	return src.Digest(ctx, e)
}

func (s *summer) addXattrs(e *source.Entry) {
	s.addNumber(uint64(len(e.Xattrs)))
	if len(e.Xattrs) == 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(e.Xattrs)) {
		s.addText(name)
		s.addText(e.Xattrs[name])
	}
}
