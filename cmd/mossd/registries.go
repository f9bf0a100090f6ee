package main

import (
	"cmp"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"moss/engine/config"
	"moss/engine/system"
	"moss/engine/thread"
	"moss/imagesvc"
	"moss/imagesvc/registry"
	"moss/imagesvc/token"
	"moss/storage"
)

// newImages makes the images' service, and the way to registries for it.
func (p *parts) newImages(cfg config.Config, log zerolog.Logger) (_ *imagesvc.Service, err error) {
	downloads := cmp.Or(cfg.MaxDownloads, imagesvc.DefaultDownloads())
	thread.Prepare(downloads * storage.StagingThreads)
	tokens := token.New()
	p.registries, err = registry.New(registry.Config{
		Mirrors: cfg.RegistryMirrors, Insecure: cfg.InsecureRegistries, Redirects: cfg.RegistryRedirects, CertDirs: certDirs(os.Getenv),
		Files: &registry.HostFiles{UserID: hostUserID()}, UserAgent: "moss/" + version, Tokens: tokens, Log: log,
	})
	if err != nil {
		return nil, err
	}
	if err := p.registries.CheckFiles(); err != nil {
		log.Warn().Err(err).Msg("pulls and pushes fail until a damaged registries.conf is mended")
	}
	return imagesvc.New(imagesvc.StoreOf(p.store), imagesvc.Options{
		Events: p.bus, EngineVersion: version, Registry: p.registries, Tokens: tokens,
		MaxDownloads: downloads, MaxUploads: cfg.MaxUploads,
	}), nil
}

// hostUserID is the user's id as the host knows it.
func hostUserID() int {
	if user, _ := userIDs(); user.UID != 0 {
		return int(user.UID)
	}
	return os.Getuid()
}

// certDirs returns the folders of registries' certificates: moss's own first, then the user's and the machine's that
// other engines read as well.
func certDirs(env func(string) string) []string {
	var dirs []string
	home := env("HOME")
	switch config := env("XDG_CONFIG_HOME"); {
	case filepath.IsAbs(config):
		dirs = append(dirs, filepath.Join(config, "moss", "certs.d"))
	case filepath.IsAbs(home):
		dirs = append(dirs, filepath.Join(home, ".config", "moss", "certs.d"))
	}
	if filepath.IsAbs(home) {
		dirs = append(dirs, filepath.Join(home, ".config", "containers", "certs.d"))
	}
	return append(dirs, "/etc/docker/certs.d", "/etc/containers/certs.d")
}

// registryFacts is what info shows of registries.
func registryFacts(known registry.Settings) []system.Registry {
	all := make([]system.Registry, 0, len(known.Indexes))
	for _, r := range known.Indexes {
		all = append(all, system.Registry{Name: r.Name, Mirrors: r.Mirrors, Secure: r.Secure, Official: r.Official})
	}
	return all
}

// proxySetting reads one of the user's proxy settings, which are written in either case. A password in it is not for everyone
// who may ask the engine about itself.
func proxySetting(name string) string {
	v := os.Getenv(name)
	if v == "" {
		v = os.Getenv(strings.ToLower(name))
	}
	if u, err := url.Parse(v); err == nil && u.User != nil {
		u.User = url.UserPassword("xxxxx", "xxxxx") // as clients know it from other engines
		return u.String()
	}
	return v
}

// proxyVariables returns the variables of an environment that name proxies. Programs read them in lower or in upper case.
func proxyVariables(environ []string) []string {
	var found []string
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		switch strings.ToLower(name) {
		case "http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "all_proxy":
			if value != "" && (name == strings.ToLower(name) || name == strings.ToUpper(name)) {
				found = append(found, entry)
			}
		}
	}
	slices.Sort(found)
	return found
}
