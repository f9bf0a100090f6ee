package credential_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"moss/cmd/moss/credential"
)

func TestRegistry(t *testing.T) {
	for image, want := range map[string]string{
		"busybox": "docker.io docker.io/library/busybox", "a/b": "docker.io docker.io/a/b",
		"docker.io/busybox:1": "docker.io docker.io/library/busybox", "index.docker.io/a/b@sha256:1": "docker.io docker.io/a/b",
		"localhost/a": "localhost localhost/a", "localhost:5000/a/b:v1": "localhost:5000 localhost:5000/a/b",
		"reg.example.org/a": "reg.example.org reg.example.org/a", "Reg/a": "reg reg/a", "[::1]:5000/a": "[::1]:5000 [::1]:5000/a",
		"busybox:5000": "docker.io docker.io/library/busybox", "": "docker.io docker.io/library/",
	} {
		if got := credential.Registry(image) + " " + credential.Repository(image); got != want {
			t.Errorf("Registry and Repository of %q = %s, want %s", image, got, want)
		}
	}
	for server, want := range map[string]string{
		"": "https://index.docker.io/v1/", "docker.io": "https://index.docker.io/v1/", "https://reg:5000/v2/": "reg:5000", "Reg": "reg",
		"https://registry-1.docker.io/v2/": "https://index.docker.io/v1/",
	} {
		if got := credential.Address(server); got != want {
			t.Errorf("Address(%q) = %s, want %s", server, got, want)
		}
	}
}

// places is a home with credential files and helpers.
type places struct {
	t    *testing.T
	home string
	env  map[string]string
}

func newPlaces(t *testing.T) *places {
	t.Helper()
	home := t.TempDir()
	return &places{t: t, home: home, env: map[string]string{"HOME": home, "PATH": home + "/bin:/usr/bin:/bin"}}
}

func (p *places) write(path, text string) string {
	p.t.Helper()
	path = filepath.Join(p.home, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
	return path
}

func (p *places) store() *credential.Store {
	environ := make([]string, 0, len(p.env))
	for name, value := range p.env {
		environ = append(environ, name+"="+value)
	}
	return credential.Open(func(name string) string { return p.env[name] }, environ)
}

// helper installs a credential helper that keeps one record for each key in a folder, and the arguments of its calls.
func (p *places) helper(name string) (dir string) {
	p.t.Helper()
	dir = filepath.Join(p.home, "kept-"+name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		p.t.Fatal(err)
	}
	script := `#!/bin/sh
cd ` + dir + ` || exit 9
echo "$@" >>calls
input=$(cat)
file() { printf %s "$1" | tr -c 'a-zA-Z0-9.\n' _; }
case $1 in
store) printf %s "$input" >"$(file "$(printf %s "$input" | sed 's/.*"ServerURL":"\([^"]*\)".*/\1/')")" ;;
get) cat "$(file "$input")" 2>/dev/null || { echo "credentials not found in native keychain"; exit 1; } ;;
erase) rm "$(file "$input")" ;;
*) exit 8 ;;
esac
`
	path := p.write("bin/docker-credential-"+name, script)
	if err := os.Chmod(path, 0o700); err != nil {
		p.t.Fatal(err)
	}
	p.t.Setenv("PATH", p.env["PATH"]) // where programs are looked for
	return dir
}

// brief writes a credential with its secrets, which print does not show.
func brief(c credential.Credential) string {
	return strings.Join([]string{c.Username, c.Password, c.IdentityToken, c.RegistryToken}, "|")
}

func TestGet(t *testing.T) {
	const annSecret = "YW5uOnNlY3JldA==" // ann:secret
	for name, tc := range map[string]struct {
		config, image, want string
		fails               string // part of the error
	}{
		"host":                {`{"auths":{"reg:5000":{"auth":"` + annSecret + `"}}}`, "reg:5000/a", "ann|secret||", ""},
		"another port":        {`{"auths":{"reg:5000":{"auth":"` + annSecret + `"}}}`, "reg:5001/a", "|||", ""},
		"another host":        {`{"auths":{"reg.example.org":{"auth":"` + annSecret + `"}}}`, "reg.example.org.evil/a", "|||", ""},
		"hub":                 {`{"auths":{"https://index.docker.io/v1/":{"auth":"` + annSecret + `"}}}`, "busybox", "ann|secret||", ""},
		"hub of podman":       {`{"auths":{"docker.io":{"auth":"` + annSecret + `"}}}`, "busybox", "ann|secret||", ""},
		"legacy":              {`{"auths":{"https://reg.example.org/v1/":{"auth":"` + annSecret + `"}}}`, "reg.example.org/a", "ann|secret||", ""},
		"legacy http":         {`{"auths":{"http://reg:5000":{"auth":"` + annSecret + `"}}}`, "reg:5000/a", "ann|secret||", ""},
		"version only":        {`{"auths":{"reg:5000/v2/":{"auth":"` + annSecret + `"}}}`, "reg:5000/a", "ann|secret||", ""},
		"capitals":            {`{"auths":{"https://REG.example.org":{"auth":"` + annSecret + `"}}}`, "reg.example.org/a", "ann|secret||", ""},
		"folder":              {`{"auths":{"r.io/a":{"auth":"` + annSecret + `"},"r.io":{"username":"x","password":"y"}}}`, "r.io/a/b:v1", "ann|secret||", ""},
		"another folder":      {`{"auths":{"r.io/a":{"auth":"` + annSecret + `"}}}`, "r.io/ab/c", "|||", ""},
		"folder is no host":   {`{"auths":{"r.io/a":{"auth":"` + annSecret + `"}}}`, "r.io/b", "|||", ""},
		"identity token":      {`{"auths":{"r.io":{"auth":"YW5uOg==","identitytoken":"tok"}}}`, "r.io/a", "ann||tok|", ""},
		"registry token":      {`{"auths":{"r.io":{"registrytoken":"tok"}}}`, "r.io/a", "|||tok", ""},
		"colon in password":   {`{"auths":{"r.io":{"auth":"YTpiOmM="}}}`, "r.io/a", "a|b:c||", ""},
		"padded password":     {`{"auths":{"r.io":{"auth":"YTpiAAA="}}}`, "r.io/a", "a|b||", ""},
		"no padding":          {`{"auths":{"r.io":{"auth":"YW5uOnNlY3JldA"}}}`, "r.io/a", "ann|secret||", ""},
		"two fields":          {`{"auths":{"r.io":{"username":"ann","password":"secret"}}}`, "r.io/a", "ann|secret||", ""},
		"empty entry":         {`{"auths":{"r.io":{}}}`, "r.io/a", "|||", ""},
		"empty file":          {" \n", "r.io/a", "|||", ""},
		"null":                {"null", "r.io/a", "|||", ""},
		"nulls":               {`{"auths":null,"credHelpers":null,"credsStore":null}`, "r.io/a", "|||", ""},
		"half a file":         {`{"auths":{"r.io":{"auth":"` + annSecret, "r.io/a", "|||", "no JSON"},
		"a list":              {`[]`, "r.io/a", "|||", "no credential file"},
		"auths of a kind":     {`{"auths":["` + annSecret + `"]}`, "r.io/a", "|||", "no credential file (auths)"},
		"no base64":           {`{"auths":{"r.io":{"auth":"secret!"}}}`, "r.io/a", "|||", "auth of r.io"},
		"no colon":            {`{"auths":{"r.io":{"auth":"c2VjcmV0"}}}`, "r.io/a", "|||", "auth of r.io"},
		"a broken other one":  {`{"auths":{"x.io":{"auth":"secret!"},"r.io":{"auth":"` + annSecret + `"}}}`, "r.io/a", "ann|secret||", ""},
		"helper is no name":   {`{"credsStore":"../evil"}`, "r.io/a", "|||", "not the name of a program"},
		"helper is not there": {`{"credHelpers":{"r.io":"nowhere"}}`, "r.io/a", "|||", "docker-credential-nowhere get"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlaces(t)
			p.write(".docker/config.json", tc.config)
			got, err := p.store().Get(t.Context(), tc.image)
			if brief(got) != tc.want {
				t.Errorf("Get(%s) = %s, want %s", tc.image, brief(got), tc.want)
			}
			switch {
			case tc.fails == "" && err != nil:
				t.Errorf("Get(%s): %v", tc.image, err)
			case tc.fails != "" && (err == nil || !strings.Contains(err.Error(), tc.fails)):
				t.Errorf("Get(%s): %v, want an error with %q", tc.image, err, tc.fails)
			case err != nil && (strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), annSecret)):
				t.Errorf("Get(%s): the error shows a secret: %v", tc.image, err)
			}
		})
	}
}

func TestGetReadsTheFilesInOrder(t *testing.T) {
	p := newPlaces(t)
	entry := func(user string) string { return `{"auths":{"r.io":{"username":"` + user + `","password":"x"}}}` }
	p.env["XDG_RUNTIME_DIR"] = filepath.Join(p.home, "run")
	p.env["REGISTRY_AUTH_FILE"] = filepath.Join(p.home, "named.json")
	user := func() string {
		t.Helper()
		got, err := p.store().Get(t.Context(), "r.io/a")
		if err != nil {
			t.Error(err)
		}
		return got.Username
	}
	for _, path := range []string{".config/containers/auth.json", "run/containers/auth.json", "named.json", ".docker/config.json"} {
		p.write(path, entry(path))
		if got := user(); got != path {
			t.Errorf("the user is that of %s, want that of %s", got, path)
		}
	}
	p.env["DOCKER_CONFIG"] = filepath.Join(p.home, "elsewhere")
	if got := user(); got != "named.json" {
		t.Errorf("with DOCKER_CONFIG elsewhere the user is that of %s, want that of named.json", got)
	}
	p.write("elsewhere/config.json", `{"auths":{"https://index.docker.io/v1/":{}},"credHelpers":{"own.io/folder":"x"}}`)
	if got, want := p.store().Known(), []string{"docker.io", "own.io", "r.io"}; !reflect.DeepEqual(got, want) {
		t.Errorf("Known = %q, want %q", got, want)
	}
	p.write("named.json", "{")
	got, err := p.store().Get(t.Context(), "r.io/a")
	if err != nil || got.Username != "run/containers/auth.json" {
		t.Errorf("beside a broken file: %s, %v, want the next one's", brief(got), err)
	}
}

func TestHelpers(t *testing.T) {
	p := newPlaces(t)
	all, own := p.helper("all"), p.helper("own")
	p.write(".docker/config.json", `{"credsStore":"all","credHelpers":{"own.io":"own","file.io":""}}`)
	store := p.store()
	for server, c := range map[string]credential.Credential{
		"r.io": {Username: "ann", Password: "secret"}, "own.io": {Username: "bob", IdentityToken: "token"},
		"file.io": {Username: "eve", Password: "plain"}, "": {Username: "hub", Password: "pass"},
	} {
		if _, err := store.Put(t.Context(), server, c); err != nil {
			t.Errorf("Put(%q) = %v", server, err)
		}
	}
	for image, want := range map[string]string{
		"r.io/a": "ann|secret||", "own.io/a": "||token|", "file.io/a": "eve|plain||", "busybox": "hub|pass||", "none.io/a": "|||",
	} {
		if got, err := store.Get(t.Context(), image); err != nil || brief(got) != want {
			t.Errorf("Get(%s) = %s, %v, want %s", image, brief(got), err, want)
		}
	}
	raw, err := os.ReadFile(store.Path())
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"secret", "token", "c2VjcmV0", "pass"} {
		if strings.Contains(string(raw), secret) {
			t.Errorf("the file holds %q, which a helper keeps:\n%s", secret, raw)
		}
	}
	for dir, secret := range map[string]string{all: "secret", own: "token"} {
		calls, err := os.ReadFile(filepath.Join(dir, "calls"))
		if err != nil || strings.Contains(string(calls), secret) || !strings.HasPrefix(string(calls), "store\n") {
			t.Errorf("calls %q, %v, want the actions alone", calls, err)
		}
	}
	if had, err := store.Erase(t.Context(), "r.io"); !had || err != nil {
		t.Errorf("Erase = %t, %v, want true", had, err)
	}
	if had, err := store.Erase(t.Context(), "r.io"); had || err != nil {
		t.Errorf("Erase again = %t, %v, want false", had, err)
	}
	if got, err := store.OfRegistry(t.Context(), "r.io"); err != nil || !got.Empty() {
		t.Errorf("after Erase: %s, %v", brief(got), err)
	}
}

func TestHelperThatFails(t *testing.T) {
	p := newPlaces(t)
	p.helper("x")
	config := `{"credsStore":"x","auths":{"r.io":{"username":"inline","password":"i"}}}`
	for script, want := range map[string]string{
		"exit 3":                          "exit status 3",
		"echo locked; exit 1":             "locked",
		"echo 'not JSON'":                 "no record",
		"echo oops >&2; exit 1":           "oops",
		"head -c 2000000 /dev/zero":       "larger than",
		"echo line; echo secret; exit 1":  "line",
		"kill -9 $$":                      "killed",
		"echo credentials not found":      "no record",
		"echo credentials not found >&2;": "no record",
	} {
		p.write(".docker/config.json", config)
		p.write("bin/docker-credential-x", "#!/bin/sh\n"+script+"\n")
		_, err := p.store().Get(t.Context(), "r.io/a")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("helper %q: %v, want an error with %q", script, err, want)
		}
		if strings.Contains(script, "exit 1") {
			if _, err := p.store().Put(t.Context(), "r.io", credential.Credential{Username: "u", Password: "p"}); err == nil {
				t.Errorf("helper %q: Put passes", script)
			}
			if raw, err := os.ReadFile(p.store().Path()); err != nil || string(raw) != config {
				t.Errorf("helper %q: the file is changed: %s, %v", script, raw, err)
			}
		}
	}
	p.write("bin/docker-credential-x", "#!/bin/sh\necho credentials not found; exit 1\n")
	if got, err := p.store().Get(t.Context(), "r.io/a"); err != nil || brief(got) != "inline|i||" {
		t.Errorf("a helper without the key: %s, %v, want what the file has", brief(got), err)
	}
	p.write("bin/docker-credential-x", "#!/bin/sh\nsleep 100\n")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.store().Get(ctx, "r.io/a"); err == nil {
		t.Error("a cancelled Get passes")
	}
}

func TestPutKeepsTheRest(t *testing.T) {
	p := newPlaces(t)
	path := p.write(".docker/config.json", `{"psFormat":"{{.ID}}<>&","auths":{"https://r.io/v1/":{"auth":"b2xkOm9sZA=="},"x.io":{"auth":"eDp5","email":"e"}},
		"big":12345678901234567890,"nested":{"a":[1,2]}}`)
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if helper, err := p.store().Put(t.Context(), "https://R.io/v2/", credential.Credential{Username: "ann", Password: "se:cret"}); err != nil || helper != "" {
		t.Fatalf("Put = %q, %v", helper, err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"psFormat": "{{.ID}}<>&"`, `"big": 12345678901234567890`, `"email": "e"`, "\t\"nested\""} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("the file lacks %s:\n%s", want, raw)
		}
	}
	var got struct{ Auths map[string]map[string]string }
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string]string{"r.io": {"auth": "YW5uOnNlOmNyZXQ="}, "x.io": {"auth": "eDp5", "email": "e"}}
	if !reflect.DeepEqual(got.Auths, want) {
		t.Errorf("auths %v, want %v", got.Auths, want)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v, want 0600", info.Mode(), err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("the folder holds %v, %v, want the file alone", left, err)
	}
}

func TestPutMakesFolderAndFollowsLinks(t *testing.T) {
	p := newPlaces(t)
	put := func() {
		t.Helper()
		if _, err := p.store().Put(t.Context(), "r.io", credential.Credential{Username: "u", Password: "p"}); err != nil {
			t.Fatal(err)
		}
	}
	put()
	if info, err := os.Stat(filepath.Join(p.home, ".docker")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the new folder: %v, %v, want mode 0700", info, err)
	}
	p.env["DOCKER_CONFIG"] = filepath.Join(p.home, "linked")
	if err := errorsOf(os.Mkdir(p.env["DOCKER_CONFIG"], 0o700), os.Mkdir(filepath.Join(p.home, "real"), 0o700),
		os.Symlink("../real/settings.json", filepath.Join(p.env["DOCKER_CONFIG"], "config.json"))); err != nil {
		t.Fatal(err)
	}
	for range 2 { // to a target that is missing, and to one that is there
		put()
		if to, err := os.Readlink(filepath.Join(p.env["DOCKER_CONFIG"], "config.json")); err != nil || to != "../real/settings.json" {
			t.Errorf("the link leads to %q, %v", to, err)
		}
		if info, err := os.Stat(filepath.Join(p.home, "real/settings.json")); err != nil || info.Size() == 0 {
			t.Errorf("the link's target: %v, %v", info, err)
		}
	}
	loop := filepath.Join(p.home, "loop")
	p.env["DOCKER_CONFIG"] = loop
	if err := errorsOf(os.Mkdir(loop, 0o700), os.Symlink("config.json", filepath.Join(loop, "config.json"))); err != nil {
		t.Fatal(err)
	}
	if _, err := p.store().Put(t.Context(), "r.io", credential.Credential{Username: "u", Password: "p"}); err == nil {
		t.Error("Put through a loop of links passes")
	}
	p.env = map[string]string{}
	if _, err := p.store().Put(t.Context(), "r.io", credential.Credential{Username: "u", Password: "p"}); err == nil {
		t.Error("Put without a home passes")
	}
}

func errorsOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestPutAtOnce writes with many stores at once, while a reader must always find a whole file.
func TestPutAtOnce(t *testing.T) {
	p := newPlaces(t)
	p.write(".docker/config.json", `{"other":"kept"}`)
	const writers = 20
	stop := make(chan struct{})
	var readers, group sync.WaitGroup
	readers.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := p.store().Get(t.Context(), "r0.io/a"); err != nil {
				t.Errorf("a reader meanwhile: %v", err)
				return
			}
		}
	})
	for i := range writers {
		group.Go(func() {
			server := fmt.Sprintf("r%d.io", i)
			if _, err := p.store().Put(t.Context(), server, credential.Credential{Username: server, Password: "p"}); err != nil {
				t.Errorf("Put(%s) = %v", server, err)
			}
			if i%2 == 1 {
				if had, err := p.store().Erase(t.Context(), server); !had || err != nil {
					t.Errorf("Erase(%s) = %t, %v", server, had, err)
				}
			}
		})
	}
	group.Wait()
	close(stop)
	readers.Wait()
	for i := range writers {
		server := fmt.Sprintf("r%d.io", i)
		want := server
		if i%2 == 1 {
			want = ""
		}
		if got, err := p.store().Get(t.Context(), server+"/a"); err != nil || got.Username != want {
			t.Errorf("%s: %s, %v, want the user %q", server, brief(got), err, want)
		}
	}
	if raw, err := os.ReadFile(p.store().Path()); err != nil || !strings.Contains(string(raw), `"other": "kept"`) {
		t.Errorf("the file: %s, %v", raw, err)
	}
}

func TestNothingPrintsSecrets(t *testing.T) {
	c := credential.Credential{Username: "ann", Password: "secret", IdentityToken: "tok", RegistryToken: "reg"}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d"} {
		if got := fmt.Sprintf(format, c); got != "{ann}" {
			t.Errorf("%s prints %s", format, got)
		}
	}
}
