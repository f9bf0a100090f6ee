package credential

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// Credential is what one registry is shown. Its secrets never appear in print.
type Credential struct {
	Username      string
	Password      string
	IdentityToken string // takes the place of the password
	RegistryToken string // a bearer token that is sent as it is
}

// Format writes the user's name only, whatever the verb.
func (c Credential) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "{"+c.Username+"}") }

// Empty reports whether there is nothing to show.
func (c Credential) Empty() bool {
	return c.Password == "" && c.IdentityToken == "" && c.RegistryToken == ""
}

// Store is the credentials of one user. It is safe for concurrent use, also by several processes.
type Store struct {
	config string   // the file that is read first and written
	others []string // read after it, in this order
	env    []string // of the helpers
}

// Open returns the store that the environment names. No file needs to be there, and none is read yet.
func Open(lookup func(name string) string, environ []string) *Store {
	home := lookup("HOME")
	s := &Store{env: environ}
	if dir := cmp.Or(lookup("DOCKER_CONFIG"), joinBelow(home, ".docker")); dir != "" {
		s.config = filepath.Join(dir, "config.json")
	}
	settings := cmp.Or(lookup("XDG_CONFIG_HOME"), joinBelow(home, ".config"))
	for _, path := range []string{
		lookup("REGISTRY_AUTH_FILE"),
		joinBelow(lookup("XDG_RUNTIME_DIR"), "containers", "auth.json"),
		joinBelow(settings, "containers", "auth.json"),
	} {
		if path != "" && !slices.Contains(s.others, path) {
			s.others = append(s.others, path)
		}
	}
	return s
}

// joinBelow joins a path below a folder; nothing is below no folder.
func joinBelow(dir string, path ...string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(append([]string{dir}, path...)...)
}

// Path returns the file that Put writes to, empty if there is no place for one.
func (s *Store) Path() string { return s.config }

// Get returns the credentials for an image, the zero value if there are none. What it finds before a broken file or
// helper counts; the error tells of the first one that was broken.
func (s *Store) Get(ctx context.Context, image string) (Credential, error) {
	return s.findCredential(ctx, Registry(image), Repository(image))
}

// OfRegistry returns the credentials for a registry as a whole, as Get does.
func (s *Store) OfRegistry(ctx context.Context, server string) (Credential, error) {
	return s.findCredential(ctx, Host(server), Host(server))
}

// Known returns the hosts of the registries that the files name. What cannot be read is left out.
func (s *Store) Known() []string {
	hosts := map[string]bool{}
	for _, path := range append([]string{s.config}, s.others...) {
		f, err := readFile(path)
		if err != nil {
			continue
		}
		for name := range f.auths {
			hosts[Host(name)] = true
		}
		for name := range f.helpers {
			hosts[Host(name)] = true
		}
	}
	return sortedKeys(hosts)
}

func (s *Store) findCredential(ctx context.Context, registry, repository string) (Credential, error) {
	var broken error
	for _, path := range append([]string{s.config}, s.others...) {
		if path == "" {
			continue
		}
		found, err := s.askFile(ctx, path, registry, repository)
		if err == nil && !found.Empty() {
			return found, nil
		}
		broken = cmp.Or(broken, err)
	}
	return Credential{}, broken
}

// askFile asks one file and the helpers that it names.
func (s *Store) askFile(ctx context.Context, path, registry, repository string) (Credential, error) {
	f, err := readFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return Credential{}, nil
	}
	if err != nil {
		return Credential{}, err
	}
	if helper := f.helperFor(registry, repository); helper != "" {
		found, err := s.helperProgram(helper).get(ctx, registryKey(registry))
		if errors.Is(err, errNotFound) && registryKey(registry) != registry {
			found, err = s.helperProgram(helper).get(ctx, registry) // as podman calls it
		}
		if err == nil || !errors.Is(err, errNotFound) {
			return found, err
		}
	}
	return f.credentialFor(registry, repository)
}

// Put keeps the credentials for a registry, with the helper that is set up for it or else in the file. It returns the
// helper's name, empty for the file.
func (s *Store) Put(ctx context.Context, server string, c Credential) (helper string, err error) {
	if s.config == "" {
		return "", errors.New("keep credentials: neither HOME nor DOCKER_CONFIG is set")
	}
	registry := Host(server)
	err = changeFile(ctx, s.config, func(f *file) error {
		f.removeEntries(registry)
		if helper = f.helperFor(registry, registry); helper == "" {
			return f.setEntry(registryKey(registry), c)
		}
		if err := s.helperProgram(helper).store(ctx, registryKey(registry), c); err != nil {
			return err
		}
		return f.setEntry(registryKey(registry), Credential{})
	})
	return helper, err
}

// Erase forgets the credentials for a registry and reports whether there were any.
func (s *Store) Erase(ctx context.Context, server string) (bool, error) {
	if s.config == "" {
		return false, nil
	}
	registry := Host(server)
	known := false
	f, err := readFile(s.config)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if helper := f.helperFor(registry, registry); helper != "" {
		found, err := s.helperProgram(helper).get(ctx, registryKey(registry))
		if err == nil && !found.Empty() {
			known, err = true, s.helperProgram(helper).erase(ctx, registryKey(registry))
		}
		if err != nil && !errors.Is(err, errNotFound) {
			return known, err
		}
	}
	if !f.hasEntry(registry) {
		return known, nil
	}
	err = changeFile(ctx, s.config, func(f *file) error {
		f.removeEntries(registry)
		return nil
	})
	return true, err
}
