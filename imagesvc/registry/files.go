package registry

import (
	"context"
	"fmt"

	"github.com/distribution/reference"
	"github.com/pelletier/go-toml/v2"
	"go.podman.io/image/v5/pkg/sysregistriesv2"
	"go.podman.io/image/v5/types"
	"go.podman.io/storage/pkg/configfile"

	"moss/engine/fault"
	"moss/engine/image"
)

// HostFiles are the settings of registries that other engines of the user and the host read as well: registries.conf and
// the files in registries.conf.d, where containers-registries.conf(5) says. They are read anew each time.
//
// The engine counts as root for the library, which would read root's folders: so the list of files is made here, and the
// library reads one at a time.
type HostFiles struct {
	UserID int    // the user's on the host: some folders are for root, for all others, or for one
	Root   string // goes before /etc and /usr; empty: theirs
}

// noFolder is named to the library in the place of registries.conf.d. No such file can be made.
const noFolder = "/proc/none.d"

// hostFile is one of the files.
type hostFile struct {
	path    string
	rules   []sysregistriesv2.Registry
	aliases map[string]string // of short names
}

// newContext names the file to the library, and nothing else.
func (f hostFile) newContext() *types.SystemContext {
	return &types.SystemContext{SystemRegistriesConfPath: f.path, SystemRegistriesConfDirPath: noFolder}
}

// readAll reads and checks the files; a later one counts more. An error names the file.
func (h *HostFiles) readAll() ([]hostFile, error) {
	if h == nil {
		return nil, nil
	}
	var files []hostFile
	for item, err := range configfile.Read(&configfile.File{
		Name: "registries", Extension: "conf", EnvironmentName: "CONTAINERS_REGISTRIES_CONF",
		RootForImplicitAbsolutePaths: h.Root, UserId: h.UserID,
	}) {
		if err != nil {
			return nil, fmt.Errorf("read the settings of registries: %w", err)
		}
		f := hostFile{path: item.Name}
		read, err := sysregistriesv2.TryUpdatingCache(f.newContext())
		if err != nil {
			return nil, fmt.Errorf("read the settings of registries: %w", err)
		}
		f.rules = read.Registries
		// The library gives its aliases out by way of a cache file of its own only.
		var doc struct{ Aliases map[string]string }
		if err := toml.NewDecoder(item.Reader).Decode(&doc); err != nil {
			return nil, fmt.Errorf("read the settings of registries: %q: %w", item.Name, err)
		}
		f.aliases = doc.Aliases
		files = append(files, f)
	}
	return files, nil
}

// hostRule is what the files say of a name; nothing of most.
type hostRule struct {
	*sysregistriesv2.Registry

	file string
}

// findRule finds the rule for a host or a repository: of the longest prefix, in the last file that has it.
func findRule(files []hostFile, name string) (rule hostRule, err error) {
	for _, f := range files {
		found, err := sysregistriesv2.FindRegistry(f.newContext(), name)
		if err != nil {
			return rule, fmt.Errorf("read the settings of registries: %w", err)
		}
		if found != nil && (rule.Registry == nil || len(found.Prefix) >= len(rule.Prefix)) {
			rule = hostRule{found, f.path}
		}
	}
	return rule, nil
}

// listIndexes returns what the files say of registries and repositories that have mirrors or need no TLS, by prefix: the last
// file that has one counts. What is blocked is not asked.
func listIndexes(files []hostFile) map[string]Index {
	all := map[string]Index{}
	for _, f := range files {
		for _, rule := range f.rules {
			delete(all, rule.Prefix)
			if rule.Blocked || len(rule.Mirrors) == 0 && !rule.Insecure {
				continue
			}
			i := Index{Name: rule.Prefix, Secure: !rule.Insecure}
			for _, m := range rule.Mirrors {
				scheme := "https://"
				if m.Insecure {
					scheme = "http://"
				}
				i.Mirrors = append(i.Mirrors, scheme+m.Location+"/")
			}
			all[rule.Prefix] = i
		}
	}
	return all
}

// checkBlocked is fault.Forbidden for what is not to be asked for.
func (r hostRule) checkBlocked(name string) error {
	if r.Registry != nil && r.Blocked {
		return fault.Forbidden("%s: registry %s is blocked in %s", name, r.Prefix, r.file)
	}
	return nil
}

// resolveAlias returns another name for an image with a short one, or its own. Clients write docker.io's names short, so
// that is what a short name means without an alias.
func resolveAlias(files []hostFile, ref image.Ref) (reference.Named, error) {
	target := ref.Repo()
	if ref.Domain() == dockerHub {
		alias := ""
		for _, f := range files {
			if value, ok := f.aliases[ref.FamiliarRepo()]; ok {
				alias = value // an empty one takes back that of an earlier file
			}
		}
		if alias != "" {
			target = alias
		}
	}
	named, err := reference.ParseNormalizedNamed(target)
	if err != nil {
		return nil, err
	}
	switch {
	case ref.Digest() != "":
		return reference.ParseNormalizedNamed(named.Name() + "@" + ref.Digest())
	case ref.Tag() != "":
		return reference.WithTag(named, ref.Tag())
	default:
		return named, nil
	}
}

// pullPlace is where an image may be.
type pullPlace struct {
	host, path string
	insecure   bool
}

// findPlaces returns the name that an image goes by after its alias, and where the files lead to for it, its mirrors
// first; the last place is the registry itself.
func (h *HostFiles) findPlaces(ref image.Ref) (target reference.Named, places []pullPlace, err error) {
	files, err := h.readAll()
	if err != nil {
		return nil, nil, err
	}
	if target, err = resolveAlias(files, ref); err != nil {
		return nil, nil, err
	}
	rule, err := findRule(files, target.Name())
	if err != nil {
		return nil, nil, err
	}
	if rule.Registry == nil {
		return target, []pullPlace{{host: reference.Domain(target), path: reference.Path(target)}}, nil
	}
	if err := rule.checkBlocked(ref.Familiar()); err != nil {
		return nil, nil, err
	}
	sources, err := rule.PullSourcesFromReference(target)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: registry %s in %s: %w", ref.Familiar(), rule.Prefix, rule.file, err)
	}
	for _, s := range sources {
		places = append(places, pullPlace{
			host: reference.Domain(s.Reference), path: reference.Path(s.Reference), insecure: s.Endpoint.Insecure,
		})
	}
	return target, places, nil
}

// CheckFiles reads the settings of the host's other engines, for the errors in them.
func (c *Client) CheckFiles() error {
	_, err := c.cfg.Files.readAll()
	return err
}

// endpointNamed finds the rules for a registry, or for a repository in it, by what the settings and the files say of
// its name. It is fault.Forbidden where the files block it.
func (c *Client) endpointNamed(ctx context.Context, host, name string) (*endpoint, error) {
	files, err := c.cfg.Files.readAll()
	if err != nil {
		return nil, err
	}
	rule, err := findRule(files, name)
	if err != nil {
		return nil, err
	}
	if err := rule.checkBlocked(name); err != nil {
		return nil, err
	}
	return c.newEndpoint(ctx, host, rule.Registry != nil && rule.Insecure), nil
}
