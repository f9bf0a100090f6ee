// Package remote fetches what builds read from elsewhere: contexts and files by http and https, and git repositories by the
// git program. It writes nothing but trees of source, which are the caller's to close.
package remote

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/opencontainers/go-digest"

	"moss/engine/build/source"
	"moss/engine/download"
	"moss/engine/fault"
)

// Kind is what the text of a source stands for.
type Kind int

// The kinds of sources.
const (
	Local Kind = iota // a path
	HTTP
	Git
)

const (
	maxDockerfile = 1 << 20 // bytes of a Dockerfile that comes alone
	sniffLen      = 512     // bytes looked at to tell an archive from a text
	anonymous     = "download"
)

// Options say how remotes are fetched.
type Options struct {
	Source    source.Options // Dir is used for checkouts too
	UserAgent string         // for http; empty: moss
	GitPath   string         // the git program; empty: git, where the engine's PATH has it
	// Progress is told how many bytes of a download have come and how many there will be, 0 if that is unknown. It may be nil.
	Progress func(current, total int64)
}

func (o Options) downloadOptions(what string) download.Options {
	return download.Options{What: what, UserAgent: o.UserAgent, Progress: o.Progress}
}

// Remote is what was fetched for a build.
type Remote struct {
	Tree       *source.Tree // never nil
	Dockerfile []byte       // if the remote is one text file, the instructions themselves; the tree is empty then
}

// scheme is what a URL begins with.
var scheme = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9+.-]*://`)
})

// KindOf returns what a source of ADD is. Errors are fault.Invalid: a scheme that nothing is fetched by.
func KindOf(text string) (Kind, error) {
	if isGit(text) {
		return Git, nil
	}
	switch strings.ToLower(scheme().FindString(text)) {
	case "":
		return Local, nil
	case "http://", "https://":
		return HTTP, nil
	default:
		return Local, fault.Invalid("%.100s: sources come from http://, https:// or git://", Redacted(text))
	}
}

// password is what stands before a URL's host.
var password = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([a-zA-Z][a-zA-Z0-9+.-]*://[^/?#:@]*):[^/?#]*@`)
})

// Redacted returns a remote as people and logs may see it: without its password.
func Redacted(text string) string { return password().ReplaceAllString(text, "$1:xxxxx@") }

// Context fetches the context at a URL of an archive or of a Dockerfile, or in a git repository (API document 2, 4.2: build,
// remote). The caller closes the tree.
//
// Errors are fault.NotFound and fault.Forbidden as the server has it, fault.Invalid (what is asked for, or what came),
// fault.Unsupported (git is missing, or would have to use ssh), or internal.
func Context(ctx context.Context, text string, opt Options) (*Remote, error) {
	if isGit(text) || strings.HasPrefix(text, "github.com/") {
		tree, err := Repository(ctx, text, GitOptions{}, opt)
		return &Remote{Tree: tree}, err
	}
	if s := strings.ToLower(scheme().FindString(text)); s != "http://" && s != "https://" {
		return nil, fault.Invalid("remote %.100q: want http://, https:// or a git repository", Redacted(text))
	}
	u, err := download.Parse(text)
	if err != nil {
		return nil, err
	}
	body, err := download.Open(ctx, u, opt.downloadOptions("the build context"))
	if err != nil {
		return nil, err
	}
	defer body.Close() //nolint:errcheck // it has been read to its end, or an error is known
	if err := hasRoom(body, opt); err != nil {
		return nil, err
	}
	in := bufio.NewReaderSize(body, sniffLen)
	head, err := in.Peek(sniffLen)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if !isText(head, body.Header.Get("Content-Type")) {
		tree, err := source.Intake(ctx, in, opt.Source)
		if err != nil {
			return nil, fmt.Errorf("remote %s: %w", u.Redacted(), err)
		}
		return &Remote{Tree: tree}, nil
	}
	content, err := io.ReadAll(io.LimitReader(in, maxDockerfile+1))
	if err != nil {
		return nil, err
	}
	if len(content) > maxDockerfile {
		return nil, fault.Invalid("remote %s: a text, and so the Dockerfile, of more than %d bytes", u.Redacted(), maxDockerfile)
	}
	return &Remote{Tree: source.Empty(), Dockerfile: content}, nil
}

// hasRoom refuses a download that is said to be larger than the disk before anything of it is written; one without a known size
// is looked at while it comes.
func hasRoom(body *download.Body, opt Options) error {
	if body.Size <= 0 || opt.Source.Room == nil {
		return nil
	}
	return opt.Source.Room(body.Size, 1)
}

// isText tells a Dockerfile from an archive: by what it begins with, since servers often know better than they say, and by
// its type if that says text.
func isText(head []byte, contentType string) bool {
	if bytes.IndexByte(head, 0) >= 0 {
		return false
	}
	if kind, _, err := mime.ParseMediaType(contentType); err == nil && kind == "text/plain" {
		return true
	}
	for range utf8.UTFMax { // the last rune may be cut
		if utf8.Valid(head) {
			return true
		}
		head = head[:max(len(head)-1, 0)]
	}
	return false
}

// File fetches the one file that ADD names by URL. want, which may be empty, is the digest that it must have. The file
// has the mode 0600 and the time that the server says, or the Unix epoch; it lies at the tree's root, by the name that the
// server or the URL gives it. If these give none, name is empty and the entry is called "download". The caller closes the
// tree.
//
// Errors are those of Context, and fault.Invalid for another digest.
func File(ctx context.Context, text string, want digest.Digest, opt Options) (tree *source.Tree, name string, err error) {
	u, err := download.Parse(text)
	if err != nil {
		return nil, "", err
	}
	body, err := download.Open(ctx, u, opt.downloadOptions("the file"))
	if err != nil {
		return nil, "", err
	}
	defer body.Close() //nolint:errcheck // it has been read to its end, or an error is known
	if err := hasRoom(body, opt); err != nil {
		return nil, "", err
	}
	name = nameOf(body.Header, u)
	entry := name
	if entry == "" {
		entry = anonymous
	}
	at, err := http.ParseTime(body.Header.Get("Last-Modified"))
	if err != nil {
		at = time.Unix(0, 0)
	}
	in, verify := io.Reader(body), func() error { return nil }
	if want != "" {
		if in, verify, err = newVerifyingReader(body, want, u); err != nil {
			return nil, "", err
		}
	}
	tree, err = source.FromReader(ctx, entry, in, 0o600, at, opt.Source)
	if err != nil {
		return nil, "", err
	}
	if err := verify(); err != nil {
		return nil, "", errors.Join(err, tree.Close())
	}
	return tree, name, nil
}

// newVerifyingReader returns a reader of src, and a function that compares the digest of all that was read.
func newVerifyingReader(src io.Reader, want digest.Digest, u *url.URL) (io.Reader, func() error, error) {
	if err := want.Validate(); err != nil {
		return nil, nil, fault.Invalid("the checksum %.100q of %s: %w", want, u.Redacted(), err)
	}
	got := want.Algorithm().Digester()
	return io.TeeReader(src, got.Hash()), func() error {
		if got.Digest() != want {
			return fault.Invalid("digest mismatch for %s: %s, want %s", u.Redacted(), got.Digest(), want)
		}
		return nil
	}, nil
}

// nameOf returns the name of a downloaded file, empty if there is none.
func nameOf(header http.Header, u *url.URL) string {
	if _, params, err := mime.ParseMediaType(header.Get("Content-Disposition")); err == nil {
		if name := plainName(params["filename"]); name != "" {
			return name
		}
	}
	if strings.HasSuffix(u.Path, "/") {
		return ""
	}
	return plainName(u.Path)
}

// plainName returns the last part of a path if a file can be called that.
func plainName(name string) string {
	const maxBase = 255 // bytes, of any file system
	base := path.Base(path.Clean("/" + name))
	if base == "/" || len(base) > maxBase || !fs.ValidPath(base) || strings.ContainsRune(base, 0) {
		return ""
	}
	return base
}
