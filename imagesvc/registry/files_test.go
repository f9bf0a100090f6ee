package registry_test

import (
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"moss/engine/fault"
	"moss/engine/image"
	"moss/imagesvc/registry"
	"moss/storage"
)

// hostFiles writes files below a new root, in which user is the user's folder of settings, and returns it.
func hostFiles(t *testing.T, files map[string]string) *registry.HostFiles {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(root, "user"))
	return &registry.HostFiles{UserID: 1000, Root: root}
}

const systemFile, userFile = "etc/containers/registries.conf", "user/containers/registries.conf"

func TestFilesMirrors(t *testing.T) {
	byDigest, byTag, origin := newServer(t), newServer(t), newServer(t)
	layer := noise(1000)
	raw, blob := origin.put("a/b", "v", layer)
	byTag.put("copy/a/b", "v", layer)
	byDigest.put("a/b", "v", layer)
	files := hostFiles(t, map[string]string{systemFile: `
[[registry]]
location = "` + origin.host + `"
[[registry.mirror]]
location = "` + byDigest.host + `"
pull-from-mirror = "digest-only"
[[registry.mirror]]
location = "` + byTag.host + `/copy"
pull-from-mirror = "tag-only"
`})
	c := newClient(t, registry.Config{Files: files})
	auth := image.RegistryAuth{Username: "u", Password: "p"}
	for _, tc := range []struct {
		name string
		asks *server
	}{{":v", byTag}, {"@" + digest.FromBytes(raw).String(), byDigest}} {
		before := len(tc.asks.seen("/blobs/"))
		if _, err := readBlob(t, open(t, c, origin.host+"/a/b"+tc.name, auth), blob); err != nil {
			t.Error(err)
		}
		if len(tc.asks.seen("/blobs/")) != before+1 {
			t.Errorf("%s did not come from its mirror", tc.name)
		}
		for _, r := range tc.asks.seen("/") {
			if r.Header.Get("Authorization") != "" {
				t.Errorf("%s: the mirror got credentials", tc.name)
			}
		}
	}
	if n := len(origin.seen("/manifests/")); n != 0 {
		t.Errorf("%d requests at the origin, want none", n)
	}
	tags, err := c.Tags(t.Context(), parse(t, origin.host+"/a/b"), auth)
	if err != nil || !slices.Equal(tags, []string{"v"}) || len(byTag.seen("/tags/list")) != 1 {
		t.Errorf("tags %q, %v, want the mirror's", tags, err)
	}
	clear(byTag.manifests)
	open(t, c, origin.host+"/a/b:v", auth)
	if n := len(origin.seen("/manifests/")); n != 1 {
		t.Errorf("%d requests at the origin for what the mirror does not have, want one", n)
	}
}

func TestFilesLocation(t *testing.T) {
	s := newServer(t)
	basic := func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/v2/" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	s.before = basic
	layer := noise(10)
	_, blob := s.put("other/x", "v", layer)
	c := newClient(t, registry.Config{Files: hostFiles(t, map[string]string{userFile: `
[[registry]]
prefix = "reg.example/team"
location = "` + s.host + `/other"
[[registry]]
prefix = "*.wild.example"
location = "` + s.host + `/other"
`})})
	for _, tc := range []struct{ name, address, want string }{
		{"reg.example/team/x:v", "", ""},
		{"reg.example/team/x:v", "reg.example", ""},
		{"reg.example/team/x:v", s.host, "Basic dTpw"},
		{"a.wild.example/x:v", "", ""},
	} {
		auth := image.RegistryAuth{Username: "u", Password: "p", ServerAddress: tc.address}
		if _, err := readBlob(t, open(t, c, tc.name, auth), blob); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		seen := s.seen("/v2/other/x/blobs/")
		if got := seen[len(seen)-1].Header.Get("Authorization"); got != tc.want {
			t.Errorf("%s with credentials for %q: Authorization %q, want %q", tc.name, tc.address, got, tc.want)
		}
	}
}

func TestFilesInsecure(t *testing.T) {
	const host = "reg.example:5000"
	s := newServer(t)
	s.writable()
	raw, _ := s.put("a/new", "v", nil)
	w := newWorld(t, map[string]*server{host: s})
	for _, insecure := range []bool{false, true} {
		files := hostFiles(t, map[string]string{userFile: "[[registry]]\nlocation = \"" + host + "\"\ninsecure = " + map[bool]string{true: "true", false: "false"}[insecure]})
		c := newClient(t, registry.Config{Files: files, Proxy: w.proxy})
		_, err := c.Source(t.Context(), parse(t, host+"/a/new:v"), image.RegistryAuth{})
		if (err == nil) != insecure {
			t.Errorf("insecure %t: pull: %v", insecure, err)
		}
		d, err := c.Destination(t.Context(), parse(t, host+"/a/new:v"), image.RegistryAuth{})
		if (err == nil) != insecure {
			t.Errorf("insecure %t: push: %v", insecure, err)
		}
		if err == nil {
			if _, err := d.PutManifest(t.Context(), raw); err != nil {
				t.Error(err)
			}
		}
		if _, bases, err := c.HTTP(host); err != nil || (len(bases) == 2) != insecure {
			t.Errorf("insecure %t: login at %q, %v", insecure, bases, err)
		}
	}
}

func TestFilesBlocked(t *testing.T) {
	s := newServer(t)
	s.put("a/b", "v", nil)
	files := hostFiles(t, map[string]string{systemFile + ".d/block.conf": "[[registry]]\nlocation = \"" + s.host + "/a\"\nblocked = true\n"})
	c := newClient(t, registry.Config{Files: files})
	_, pull := c.Source(t.Context(), parse(t, s.host+"/a/b:v"), image.RegistryAuth{})
	_, push := c.Destination(t.Context(), parse(t, s.host+"/a/b:v"), image.RegistryAuth{})
	_, tags := c.Tags(t.Context(), parse(t, s.host+"/a/b"), image.RegistryAuth{})
	for _, err := range []error{pull, push, tags} {
		if !fault.Is(err, fault.Forbidden) || !strings.Contains(err.Error(), "registry "+s.host+"/a is blocked in "+filepath.Join(files.Root, systemFile)+".d/block.conf") {
			t.Errorf("got %v, want that it is blocked, and by which file", err)
		}
	}
	if n := len(s.seen("/")); n != 0 {
		t.Errorf("%d requests, want none", n)
	}
}

func TestFilesAliases(t *testing.T) {
	s, hub := newServer(t), newServer(t)
	_, blob := s.put("real/tool", "v", noise(10))
	hub.put("library/plain", "v", nil)
	hub.put("library/reset", "v", nil)
	c := newClient(t, registry.Config{Mirrors: []string{"http://" + hub.host}, Files: hostFiles(t, map[string]string{
		systemFile:               "unqualified-search-registries = [\"" + s.host + "\"]\n[aliases]\n\"tool\" = \"" + s.host + "/real/tool\"\n",
		systemFile + ".d/a.conf": "[aliases]\n\"u/tool\" = \"" + s.host + "/real/tool\"\n\"reset\" = \"" + s.host + "/real/tool\"\n",
		userFile + ".d/b.conf":   "[aliases]\n\"reset\" = \"\"\n",
	})})
	auth := image.RegistryAuth{RegistryToken: "secret", ServerAddress: registry.IndexServer}
	for _, name := range []string{"tool:v", "docker.io/library/tool:v", "u/tool:v"} {
		if _, err := readBlob(t, open(t, c, name, auth), blob); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, r := range s.seen("/") {
		if got := r.Header.Get("Authorization"); got != "" {
			t.Errorf("the alias' registry got %q", got)
		}
	}
	open(t, c, "plain:v", image.RegistryAuth{})
	open(t, c, "reset:v", image.RegistryAuth{})
}

// TestFilesSettingsWin has a mirror of docker.io in the settings and another one in the files.
func TestFilesSettingsWin(t *testing.T) {
	own, theirs := newServer(t), newServer(t)
	own.put("library/x", "v", nil)
	theirs.put("library/x", "v", nil)
	files := hostFiles(t, map[string]string{systemFile: "[[registry]]\nlocation = \"docker.io\"\n[[registry.mirror]]\nlocation = \"" + theirs.host + "\"\n"})
	open(t, newClient(t, registry.Config{Files: files, Mirrors: []string{"http://" + own.host}}), "x:v", image.RegistryAuth{})
	if len(own.seen("/manifests/")) != 1 || len(theirs.seen("/")) != 0 {
		t.Error("the mirror of the files was asked")
	}
	open(t, newClient(t, registry.Config{Files: files}), "x:v", image.RegistryAuth{})
	if len(theirs.seen("/manifests/")) != 1 {
		t.Error("the mirror of the files was not asked where the settings name none")
	}
}

// TestFilesPlaces looks which files count: each leads the name reg.example to another path of one server.
func TestFilesPlaces(t *testing.T) {
	s := newServer(t)
	for _, path := range []string{"system", "user", "drop", "rootless", "named"} {
		s.put(path+"/x", "v", nil)
	}
	to := func(path string) string {
		return "[[registry]]\nprefix = \"reg.example\"\nlocation = \"" + s.host + "/" + path + "\"\n"
	}
	for _, tc := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"the system's", map[string]string{systemFile: to("system")}, "system"},
		{"the user's alone", map[string]string{systemFile: to("system"), userFile: to("user")}, "user"},
		{"a folder's", map[string]string{userFile: to("user"), systemFile + ".d/1.conf": to("drop")}, "drop"},
		{"a folder of all users but root", map[string]string{
			systemFile: to("system"), "etc/containers/registries.rootless.conf.d/1.conf": to("rootless"),
			"etc/containers/registries.rootful.conf.d/1.conf": to("system"),
		}, "rootless"},
		{"the one that a variable names", map[string]string{userFile: to("user"), "named": to("named")}, "named"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			files := hostFiles(t, tc.files)
			if tc.want == "named" {
				t.Setenv("CONTAINERS_REGISTRIES_CONF", filepath.Join(files.Root, "named"))
			}
			before := len(s.seen("/v2/" + tc.want + "/x/manifests/"))
			open(t, newClient(t, registry.Config{Files: files}), "reg.example/x:v", image.RegistryAuth{})
			if len(s.seen("/v2/"+tc.want+"/x/manifests/")) != before+1 {
				t.Errorf("%s was not asked for", tc.want)
			}
		})
	}
}

func TestFilesDamaged(t *testing.T) {
	s := newServer(t)
	s.put("a/b", "v", nil)
	for name, content := range map[string]string{
		"no TOML":           "[[registry",
		"the first version": "[registries.search]\nregistries = [\"x.example\"]\n",
		"no location":       "[[registry]]\ninsecure = true\n",
		"no alias":          "[aliases]\n\"a\" = \"b\"\n",
	} {
		t.Run(name, func(t *testing.T) {
			files := hostFiles(t, map[string]string{userFile: content})
			path := filepath.Join(files.Root, userFile)
			c := newClient(t, registry.Config{Files: files})
			_, pull := c.Source(t.Context(), parse(t, s.host+"/a/b:v"), image.RegistryAuth{})
			_, push := c.Destination(t.Context(), parse(t, s.host+"/a/b:v"), image.RegistryAuth{})
			for _, err := range []error{c.CheckFiles(), pull, push} {
				if err == nil || !strings.Contains(err.Error(), path) {
					t.Errorf("got %v, want an error that names %s", err, path)
				}
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			open(t, c, s.host+"/a/b:v", image.RegistryAuth{})
		})
	}
}

// TestFilesPush sends to the registry of the name, whatever the files say of pulls.
func TestFilesPush(t *testing.T) {
	s, mirror := newServer(t), newServer(t)
	s.takeUploads(relative, nil)
	files := hostFiles(t, map[string]string{systemFile: "[[registry]]\nprefix = \"" + s.host + "\"\nlocation = \"" + mirror.host + "\"\n"})
	d := openNew(t, newClient(t, registry.Config{Files: files}), s, image.RegistryAuth{})
	if b, err := d.Put(t.Context(), storage.Blob{Size: -1}, strings.NewReader("x")); err != nil || !s.has(b.Digest) || len(mirror.seen("/")) != 0 {
		t.Errorf("%v, %d requests at the mirror", err, len(mirror.seen("/")))
	}
}

// TestSettingsOfFiles: what clients are told of registries has the files' part in it, as it is at that moment.
func TestSettingsOfFiles(t *testing.T) {
	files := hostFiles(t, map[string]string{systemFile: `
[[registry]]
location = "docker.io"
[[registry.mirror]]
location = "hub.example"
[[registry]]
location = "lan.example:5000"
[[registry.mirror]]
location = "near.example/copy"
[[registry.mirror]]
location = "10.0.0.1:5000"
insecure = true
[[registry]]
location = "plain.example"
insecure = true
[[registry]]
location = "bad.example"
blocked = true
insecure = true
[[registry]]
prefix = "moved.example"
location = "new.example"
[[registry]]
location = "mine.example"
insecure = true
`, userFile + ".d/10-mine.conf": `
[[registry]]
location = "mine.example"
`})
	hub := registry.Index{Name: "docker.io", Mirrors: []string{"https://hub.example/"}, Secure: true, Official: true}
	lan := registry.Index{Name: "lan.example:5000", Secure: true, Mirrors: []string{"https://near.example/copy/", "http://10.0.0.1:5000/"}}
	plain := registry.Index{Name: "plain.example"}
	c := newClient(t, registry.Config{Files: files})
	if got, want := c.Config().Indexes, []registry.Index{hub, lan, plain}; !reflect.DeepEqual(got, want) {
		t.Errorf("indexes %+v, want %+v", got, want)
	}
	own := newClient(t, registry.Config{Files: files, Mirrors: []string{"own.example"}, Insecure: []string{"lan.example:5000"}})
	hub.Mirrors, lan.Secure = []string{"https://own.example/"}, false
	if got, want := own.Config().Indexes, []registry.Index{hub, lan, plain}; !reflect.DeepEqual(got, want) {
		t.Errorf("indexes beside settings of the engine %+v, want %+v", got, want)
	}
	if err := os.WriteFile(filepath.Join(files.Root, systemFile), []byte("["), 0o600); err != nil {
		t.Fatal(err)
	}
	hub.Mirrors = nil
	if got, want := c.Config().Indexes, []registry.Index{hub}; !reflect.DeepEqual(got, want) {
		t.Errorf("indexes with a damaged file %+v, want %+v", got, want)
	}
}
