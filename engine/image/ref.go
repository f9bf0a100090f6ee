package image

import (
	"strings"

	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"

	"moss/engine/fault"
)

// Ref is the name of an image: a repository with a tag, a digest or both. A Ref made by ParseRef is always well formed;
// the zero Ref names nothing.
type Ref struct {
	named reference.Named
}

// ParseRef reads a name as clients write it ("alpine", "127.0.0.1:5000/a/b:t", "repo@sha256:…"). A name with neither tag
// nor digest gets the tag latest. Errors are fault.Invalid.
func ParseRef(s string) (Ref, error) {
	named, err := reference.ParseNormalizedNamed(s)
	if err != nil {
		return Ref{}, badRef(s, err)
	}
	return Ref{reference.TagNameOnly(named)}, nil
}

// CanName refuses the name that could be taken for an id: sha256:TAG. Images get no such name. The error is fault.Invalid.
func (r Ref) CanName() error {
	if r.FamiliarRepo()+":" == idPrefix {
		return fault.Invalid("refusing to create an ambiguous tag using digest algorithm as name")
	}
	return nil
}

// ParseRepoTag reads a repository and a tag that came apart, as in the queries of create, tag and commit. An empty tag
// is latest unless repo holds one already; a tag that is a digest ("sha256:…") is taken as one. Errors are fault.Invalid.
func ParseRepoTag(repo, tag string) (Ref, error) {
	if tag == "" {
		return ParseRef(repo)
	}
	named, err := reference.ParseNormalizedNamed(repo)
	if err != nil {
		return Ref{}, badRef(repo, err)
	}
	named = reference.TrimNamed(named)
	if d, err := digest.Parse(tag); err == nil {
		digested, err := reference.WithDigest(named, d)
		if err != nil {
			return Ref{}, badRef(repo+"@"+tag, err)
		}
		return Ref{digested}, nil
	}
	tagged, err := reference.WithTag(named, tag)
	if err != nil {
		return Ref{}, fault.Invalid("invalid tag format: %q", tag)
	}
	return Ref{tagged}, nil
}

// badRef is the one wording for a name that cannot be one.
func badRef(s string, err error) error {
	const prefix = "invalid reference format"
	text := strings.TrimPrefix(err.Error(), prefix)
	text = strings.TrimPrefix(text, ": ")
	if text == "" {
		return fault.Invalid("%s: %q", prefix, s)
	}
	return fault.Invalid("%s: %q: %s", prefix, s, text)
}

// IsZero reports whether r names nothing.
func (r Ref) IsZero() bool { return r.named == nil }

// Familiar returns the name as clients show it: alpine:latest.
func (r Ref) Familiar() string {
	if r.named == nil {
		return ""
	}
	return reference.FamiliarString(r.named)
}

// FamiliarRepo returns the repository alone as clients show it: alpine.
func (r Ref) FamiliarRepo() string {
	if r.named == nil {
		return ""
	}
	return reference.FamiliarName(r.named)
}

// Canonical returns the whole name, unique for the image: docker.io/library/alpine:latest.
func (r Ref) Canonical() string {
	if r.named == nil {
		return ""
	}
	return r.named.String()
}

// Repo returns the repository alone in its canonical form: docker.io/library/alpine.
func (r Ref) Repo() string {
	if r.named == nil {
		return ""
	}
	return r.named.Name()
}

// Domain returns the registry's host and port: docker.io.
func (r Ref) Domain() string {
	if r.named == nil {
		return ""
	}
	return reference.Domain(r.named)
}

// Path returns the repository without its registry: library/alpine.
func (r Ref) Path() string {
	if r.named == nil {
		return ""
	}
	return reference.Path(r.named)
}

// Tag returns the tag, empty if the name has a digest only.
func (r Ref) Tag() string {
	if tagged, ok := r.named.(reference.Tagged); ok {
		return tagged.Tag()
	}
	return ""
}

// Digest returns the digest ("sha256:…"), empty if the name has none.
func (r Ref) Digest() string {
	if digested, ok := r.named.(reference.Digested); ok {
		return digested.Digest().String()
	}
	return ""
}

// WithoutTag returns the name by digest alone when it has one; otherwise r. A name with both is looked up by its digest.
func (r Ref) WithoutTag() Ref {
	digested, ok := r.named.(reference.Digested)
	if !ok || r.Tag() == "" {
		return r
	}
	named, err := reference.WithDigest(reference.TrimNamed(r.named), digested.Digest())
	if err != nil {
		return r
	}
	return Ref{named}
}

// Match reports whether the name matches a shell pattern as the reference filter takes it: with or without registry,
// with or without tag. A malformed pattern is fault.Invalid.
func (r Ref) Match(pattern string) (bool, error) {
	if r.named == nil {
		return false, nil
	}
	ok, err := reference.FamiliarMatch(pattern, r.named)
	if err != nil {
		return false, fault.Invalid("invalid filter 'reference=%s': %v", pattern, err)
	}
	return ok, nil
}

// idPrefix begins the whole form of an image id.
const idPrefix = "sha256:"

// Lookup is what a client may write to mean an image: a name, an id, or the beginning of an id. At least one field
// besides Text is set.
type Lookup struct {
	Text   string // as the client wrote it
	Ref    Ref    // what it means as a name; zero if it cannot be one
	ID     string // sha256:<64 hex> if it is a whole id
	Prefix string // hexadecimal digits that may begin an id, without sha256:; set for whole ids too
}

// ParseLookup reads a name, an id or the beginning of an id. A name wins where both exist. Errors are fault.Invalid.
func ParseLookup(s string) (Lookup, error) {
	l := Lookup{Text: s}
	digits := strings.TrimPrefix(s, idPrefix)
	if isHex(digits) {
		l.Prefix = digits
		if len(digits) == hexLen {
			l.ID = idPrefix + digits
			return l, nil
		}
	}
	ref, err := ParseRef(s)
	if err != nil {
		if l.Prefix != "" {
			return l, nil
		}
		return Lookup{}, err
	}
	l.Ref = ref
	return l, nil
}

// String returns the text that messages about l show: the familiar name with its tag, or the id as it was written.
func (l Lookup) String() string {
	if !l.Ref.IsZero() {
		return l.Ref.Familiar()
	}
	if l.ID != "" {
		return l.ID
	}
	return l.Text
}

// IsIDOf reports whether l, as it was written, is id or its beginning.
func (l Lookup) IsIDOf(id string) bool {
	return l.Prefix != "" && strings.HasPrefix(strings.TrimPrefix(id, idPrefix), l.Prefix)
}

// hexLen is the number of hexadecimal digits of an id.
const hexLen = 64

func isHex(s string) bool {
	return s != "" && len(s) <= hexLen && strings.Trim(s, "0123456789abcdef") == ""
}

// NoSuch is the one wording for an image that is not there (API documents: 404; clients show it as it is).
func NoSuch(what string) error { return fault.NotFound("No such image: %s", what) }
