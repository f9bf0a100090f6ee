package remote

import (
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"moss/engine/fault"
)

const (
	maxURL = 8 << 10 // bytes
	maxRef = 255     // bytes
)

// reference is what is wanted of a git repository.
type reference struct {
	remote     *url.URL // http, https or git, without credentials
	user       *url.Userinfo
	ref        string // branch, tag or commit; empty: where HEAD points
	subdir     string // clean; "." is all
	checksum   string // of the commit, or its beginning; may be empty
	keep       bool   // .git stays
	submodules bool
}

// scpStyle is scp's way of writing ssh.
var scpStyle = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-zA-Z0-9_.-]+@[a-zA-Z0-9_.\[\]-]+:`)
})

// How many digits of a commit's number name it: in a checksum, and to git.
const (
	leastChecksum = 7
	leastCommit   = 4
	mostCommit    = 64
)

// isCommit reports whether a text may be a commit's number, or the beginning of one with that many digits at least.
func isCommit(text string, least int) bool {
	return least <= len(text) && len(text) <= mostCommit && strings.Trim(text, "0123456789abcdef") == ""
}

// isGit reports whether a text means a git repository, reachable or not.
func isGit(text string) bool {
	switch strings.ToLower(scheme().FindString(text)) {
	case "git://", "ssh://", "git+ssh://":
		return true
	case "http://", "https://":
		text, _, _ = strings.Cut(text, "#")
		text, _, _ = strings.Cut(text, "?")
		return strings.HasSuffix(text, ".git")
	case "":
		return scpStyle().MatchString(text)
	default:
		return false
	}
}

// parseReference reads a reference: URL[?query][#ref[:subdir]]. Errors are fault.Invalid, fault.Unsupported for ssh, and
// hold no password.
func parseReference(text string) (*reference, error) {
	if len(text) > maxURL {
		return nil, fault.Invalid("the git URL has %d bytes, more than %d", len(text), maxURL)
	}
	if scpStyle().MatchString(text) {
		return nil, noSSH()
	}
	if strings.HasPrefix(text, "github.com/") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, fault.Invalid("the git URL cannot be read") // the error would repeat it with its password
	}
	switch u.Scheme {
	case "http", "https", "git":
	case "ssh", "git+ssh":
		return nil, noSSH()
	default:
		return nil, fault.Invalid("git repositories come from http://, https:// or git://, not from %s://", u.Scheme)
	}
	if u.Hostname() == "" || strings.HasPrefix(u.Host, "-") || strings.HasPrefix(u.Path, "/-") {
		return nil, fault.Invalid("the git URL %s has no good host or path", u.Redacted())
	}
	r := &reference{user: u.User, submodules: true}
	bare := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	r.remote = &bare
	r.ref, r.subdir, _ = strings.Cut(u.Fragment, ":")
	if err := r.applyQuery(u.RawQuery); err != nil {
		return nil, err
	}
	r.subdir = strings.TrimPrefix(path.Clean("/"+r.subdir), "/")
	if r.subdir == "" {
		r.subdir = "."
	}
	if r.checksum != "" && !isCommit(r.checksum, leastChecksum) {
		return nil, fault.Invalid("the git checksum %.100q is not a commit", r.checksum)
	}
	return r, checkRef(r.ref)
}

func noSSH() error {
	return fault.Unsupported("builds do not use ssh: want the repository's https:// or git:// URL")
}

// applyQuery takes over the options that BuildKit has in the query of a git URL.
func (r *reference) applyQuery(raw string) error {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return fault.Invalid("the query of the git URL: %w", err)
	}
	for key, list := range values {
		if len(list) != 1 {
			return fault.Invalid("the query of the git URL has several %q", key)
		}
		if err := r.setOption(key, list[0]); err != nil {
			return err
		}
	}
	return nil
}

func (r *reference) setOption(key, value string) error {
	switch key {
	case "ref":
		return r.setOnce("reference", &r.ref, value)
	case "tag":
		return r.setOnce("reference", &r.ref, "refs/tags/"+strings.TrimPrefix(value, "refs/tags/"))
	case "branch":
		return r.setOnce("reference", &r.ref, "refs/heads/"+strings.TrimPrefix(value, "refs/heads/"))
	case "subdir":
		return r.setOnce("subdirectory", &r.subdir, value)
	case "checksum", "commit":
		return r.setOnce("checksum", &r.checksum, value)
	case "keep-git-dir":
		return parseFlag(key, value, &r.keep)
	case "submodules":
		return parseFlag(key, value, &r.submodules)
	default:
		return fault.Invalid("unexpected query %q of the git URL", key)
	}
}

// setOnce sets an option that several keys may give, but only with one value.
func (r *reference) setOnce(what string, to *string, value string) error {
	if value == "" || *to != "" && *to != value {
		return fault.Invalid("the git URL %s has no %s, or several", r.remote, what)
	}
	*to = value
	return nil
}

// parseFlag reads a boolean option, which is true without a value.
func parseFlag(key, value string, to *bool) error {
	on := true
	if value != "" {
		var err error
		if on, err = strconv.ParseBool(value); err != nil {
			return fault.Invalid("the query %s=%q of the git URL is neither true nor false", key, value)
		}
	}
	*to = on
	return nil
}

// checkRef refuses what is no name of git's, above all what its program would take for an option or a rule for many names.
func checkRef(ref string) error {
	bad := len(ref) > maxRef || strings.HasPrefix(ref, "-") || strings.HasPrefix(ref, "+") || strings.Contains(ref, "..") ||
		strings.Contains(ref, "@{")
	for _, c := range ref {
		if c <= ' ' || c == 0x7f || strings.ContainsRune("~^:?*[\\", c) {
			bad = true
		}
	}
	if bad {
		return fault.Invalid("the git reference %.100q is none", ref)
	}
	return nil
}
