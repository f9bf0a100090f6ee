package credential

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxFile bounds a credential file, in bytes.
const maxFile = 4 << 20

// Keys of a credential file.
const (
	keyAuths   = "auths"
	keyStore   = "credsStore"
	keyHelpers = "credHelpers"
)

// file is a credential file. What this package does not know is kept as it is.
type file struct {
	path string
	raw  map[string]json.RawMessage // the whole file

	auths   map[string]json.RawMessage // by key
	store   string                     // helper of every registry that helpers do not name
	helpers map[string]string          // by key
}

// readFile reads a file. One that is missing is os.ErrNotExist; an empty one holds nothing. Errors name the file and
// show nothing of it.
func readFile(path string) (*file, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	return parseFile(path, in)
}

func parseFile(path string, in io.Reader) (*file, error) {
	text, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("read %s: it is larger than %d bytes", path, maxFile)
	}
	f := &file{path: path, raw: map[string]json.RawMessage{}}
	if len(strings.TrimSpace(string(text))) == 0 {
		return f, nil
	}
	if err := f.decode(text, &f.raw); err != nil {
		return nil, err
	}
	for key, into := range map[string]any{keyAuths: &f.auths, keyStore: &f.store, keyHelpers: &f.helpers} {
		if part, ok := f.raw[key]; ok {
			if err := f.decode(part, into); err != nil {
				return nil, fmt.Errorf("%w (%s)", err, key)
			}
		}
	}
	if f.raw == nil {
		f.raw = map[string]json.RawMessage{}
	}
	return f, nil
}

// decode decodes JSON. Its error does not quote what is there, as that may be a secret.
func (f *file) decode(text []byte, into any) error {
	err := json.Unmarshal(text, into)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("read %s: it is no JSON (at byte %d)", f.path, syntax.Offset)
	}
	if err != nil {
		return fmt.Errorf("read %s: it is no credential file", f.path)
	}
	return nil
}

// helperFor returns the helper program for a repository, empty for none.
func (f *file) helperFor(registry, repository string) string {
	for _, name := range repositoryKeys(repository) {
		if helper, ok := f.helpers[name]; ok {
			return helper
		}
	}
	for _, name := range sortedKeys(f.helpers) {
		if isKeyOf(name, registry) {
			return f.helpers[name]
		}
	}
	return f.store
}

// entry is one registry's part of a file.
type entry struct {
	Auth          string `json:"auth"` // base64 of user:password
	Username      string `json:"username"`
	Password      string `json:"password"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// credentialFor returns what the file itself holds for a repository: its own entry, one of the folders above it, or one
// of the registry in any spelling. Empty entries, which stand for what a helper keeps, are passed over.
func (f *file) credentialFor(registry, repository string) (Credential, error) {
	for _, name := range append(repositoryKeys(repository), registryKey(registry)) {
		if raw, ok := f.auths[name]; ok {
			if found, err := f.readEntry(name, raw); err != nil || !found.Empty() {
				return found, err
			}
		}
	}
	for _, name := range sortedKeys(f.auths) {
		if isKeyOf(name, registry) {
			if found, err := f.readEntry(name, f.auths[name]); err != nil || !found.Empty() {
				return found, err
			}
		}
	}
	return Credential{}, nil
}

func (f *file) readEntry(key string, raw json.RawMessage) (Credential, error) {
	var e entry
	if err := f.decode(raw, &e); err != nil {
		return Credential{}, fmt.Errorf("%w (%s)", err, key)
	}
	found := Credential{Username: e.Username, Password: e.Password, IdentityToken: e.IdentityToken, RegistryToken: e.RegistryToken}
	if e.Auth == "" {
		return found, nil
	}
	text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(e.Auth))
	if err != nil {
		text, err = base64.RawStdEncoding.DecodeString(strings.TrimSpace(e.Auth)) // written by hand, without the padding
	}
	user, password, ok := strings.Cut(string(text), ":")
	if err != nil || !ok {
		return Credential{}, fmt.Errorf("read %s: the auth of %s is not user:password in base64", f.path, key)
	}
	// Some writers pad the text with NUL bytes.
	found.Username, found.Password = user, strings.Trim(password, "\x00")
	return found, nil
}

// hasEntry reports whether the file has an entry for a registry.
func (f *file) hasEntry(registry string) bool {
	for name := range f.auths {
		if isKeyOf(name, registry) {
			return true
		}
	}
	return false
}

// removeEntries takes out every entry for a registry as a whole.
func (f *file) removeEntries(registry string) {
	for name := range f.auths {
		if isKeyOf(name, registry) {
			delete(f.auths, name)
		}
	}
}

// setEntry writes an entry; a credential without secrets leaves an empty one, which tells that a helper knows more.
func (f *file) setEntry(key string, c Credential) error {
	fields := map[string]string{}
	if c.Password != "" || c.IdentityToken != "" {
		fields["auth"] = base64.StdEncoding.EncodeToString([]byte(c.Username + ":" + c.Password))
	}
	if c.IdentityToken != "" {
		fields["identitytoken"] = c.IdentityToken
	}
	if c.RegistryToken != "" {
		fields["registrytoken"] = c.RegistryToken
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("encode credentials: %w", err)
	}
	if f.auths == nil {
		f.auths = map[string]json.RawMessage{}
	}
	f.auths[key] = raw
	return nil
}
