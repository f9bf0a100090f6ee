package image

import "fmt"

// Secret is a password or a token. It shows itself in no log, no message and no encoding.
type Secret string

// String hides the secret.
func (s Secret) String() string { return s.redactedText() }

// GoString hides the secret.
func (s Secret) GoString() string { return s.redactedText() }

// Format hides the secret whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.redactedText())) }

// MarshalText hides the secret.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.redactedText()), nil }

func (s Secret) redactedText() string {
	if s == "" {
		return ""
	}
	return "[hidden]"
}

// RegistryAuth is what a client sends along for a registry (API document 1, 2.6; document 3, 5.1). All fields may be
// empty: the registry is asked as nobody then.
type RegistryAuth struct {
	Username      string
	Password      Secret
	IdentityToken Secret // takes the place of user name and password
	RegistryToken Secret // a bearer token that is sent as it is
	ServerAddress string // of the registry the rest is for; empty: the one that is asked
}

// PullOptions says what to fetch (API document 2, 4.2: images/create).
type PullOptions struct {
	Repo     string // with tag or digest, or without
	Tag      string // a tag or a digest; empty: that of Repo, and all tags if Repo has none
	Platform string // os[/arch[/variant]]; empty: this machine's
	Auth     RegistryAuth
}

// PushOptions says what to send (API document 2, 4.2: images/{name}/push).
type PushOptions struct {
	Repo string // names the registry; with a tag or without
	Tag  string // empty: that of Repo, and all tags of the repository if Repo has none

	Platform string // os[/arch[/variant]] that each image must be for; empty: any will do
	Auth     RegistryAuth
}

// Pushed is what the last message of a push carries under aux.
type Pushed struct {
	Tag    string
	Digest string // of the manifest
	Size   int64  // bytes of the manifest
}

// HistoryEntry is one step of an image's making (API document 1, 2.6). The newest comes first in lists.
type HistoryEntry struct {
	ID        string // of the image that the step made; <missing> where it is not here
	Created   int64  // Unix seconds
	CreatedBy string
	Tags      []string // familiar names of that image
	Size      int64    // bytes the step added
	Comment   string
}

// SearchOptions says what to look for in a registry's index (API document 2, 4.2: images/search).
type SearchOptions struct {
	Term    string              // may begin with a registry's host
	Limit   int                 // 0: 25
	Filters map[string][]string // stars, is-automated, is-official
	Auth    RegistryAuth
}

// SearchResult is one repository found (API document 1, 2.6).
type SearchResult struct {
	Name, Description string
	Official          bool
	Automated         bool
	Stars             int
}

// Login is a registry's answer to credentials (API document 2, 4.7: auth).
type Login struct {
	Status        string
	IdentityToken Secret // empty: there is none to be had
}

// Usage is what images take on the disk. A layer that several images share is counted once.
type Usage struct {
	LayersSize int64 // bytes of all layers of images
	LayersUsed int64 // bytes of those of images that containers use
	Images     []ImageUsage
}

// ImageUsage is one image's part of it.
type ImageUsage struct {
	Image      *Image
	SharedSize int64 // bytes of its layers that other images have as well
	UniqueSize int64 // bytes of its layers that go with it
	Containers int   // that use it
}
