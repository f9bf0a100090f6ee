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

func (p *Plan) digest(ctx context.Context) (kind, sum string, err error) {
	s := &summer{plan: p, sum: sha256.New()}
	s.text("moss copy 1")
	s.text(p.owner.text)
	s.text(p.chmod.text)
	s.flag(p.req.Link)
	for _, m := range p.matches {
		s.flag(m.archive)
		if err := s.file(ctx, m, &m.file); err != nil {
			return "", "", err
		}
	}
	s.flush()
	kind = "multi"
	if len(p.req.Items) == 1 && len(p.matches) == 1 && !p.req.Parents {
		kind = "file"
		if p.matches[0].file.entry.Mode.IsDir() {
			kind = "dir"
		}
	}
	return kind, hex.EncodeToString(s.sum.Sum(nil)), nil
}

func (s *summer) number(n uint64) { s.buf = binary.AppendUvarint(s.buf, n) }

func (s *summer) text(t string) {
	s.number(uint64(len(t)))
	s.buf = append(s.buf, t...)
}

func (s *summer) flag(on bool) {
	if on {
		s.number(1)
	} else {
		s.number(0)
	}
}

func (s *summer) flush() {
	s.sum.Write(s.buf)
	s.buf = s.buf[:0]
}

// file adds a file, a folder with all that is in it. A file of several names counts under each.
func (s *summer) file(ctx context.Context, m *match, f *file) error {
	e := f.entry
	s.text(f.name)
	s.number(uint64(e.Mode.Type()))
	s.number(uint64(s.plan.chmod.apply(e.Mode)))
	if m.keep && s.plan.owner.text == "" {
		s.number(uint64(e.UID))
		s.number(uint64(e.GID))
	}
	s.flag(f.passage)
	s.text(e.Link)
	if e.Mode&fs.ModeDevice != 0 {
		s.number(uint64(e.Major))
		s.number(uint64(e.Minor))
	}
	s.attributes(e)
	if e.Mode.IsRegular() {
		content, err := s.content(ctx, m.src, e)
		if err != nil {
			return err
		}
		s.text(string(content))
	}
	s.number(uint64(len(f.kids)))
	if len(s.buf) > 16<<10 {
		s.flush()
	}
	for i := range f.kids {
		if err := s.file(ctx, m, &f.kids[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *summer) content(ctx context.Context, src source.Source, e *source.Entry) (digest.Digest, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	return src.Digest(ctx, e)
}

func (s *summer) attributes(e *source.Entry) {
	s.number(uint64(len(e.Xattrs)))
	if len(e.Xattrs) == 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(e.Xattrs)) {
		s.text(name)
		s.text(e.Xattrs[name])
	}
}
