package config_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"moss/engine/config"
	"moss/engine/fault"
)

func environ(pairs ...string) func(string) string {
	return func(name string) string {
		for _, p := range pairs {
			if k, v, _ := strings.Cut(p, "="); k == name {
				return v
			}
		}
		return ""
	}
}

func writeFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "moss.toml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDefaults(t *testing.T) {
	for _, tc := range []struct {
		name string
		env  []string
		root string
	}{
		{"home only", []string{"HOME=/home/u"}, "/home/u/.local/share/moss"},
		{"xdg", []string{"HOME=/home/u", "XDG_DATA_HOME=/data", "XDG_RUNTIME_DIR=/run/user/7"}, "/data/moss"},
		{"relative xdg is ignored", []string{"HOME=/home/u", "XDG_DATA_HOME=data"}, "/home/u/.local/share/moss"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := config.Load(config.Options{Environ: environ(tc.env...)})
			if err != nil {
				t.Fatal(err)
			}
			want := config.Config{
				Root: tc.root, LogLevel: "info", LogFormat: "text", EmulateIDs: true,
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
	if _, err := config.Load(config.Options{}); !fault.Is(err, fault.Invalid) {
		t.Errorf("without HOME: %v, want an Invalid", err)
	}
}

const wholeFile = `
root = "~/engine"
run-dir = "/tmp/run/../x"
host = ["unix:///tmp/a.sock", "fd://"]
insecure-tcp = true
socket-group = "staff"
tls = true
tlsverify = true
tlscacert = "~/ca.pem"
tlscert = "/etc/cert.pem"
tlskey = "/etc/key.pem"
api-min = "1.20"
api-max = "1.22"
api-cors-header = "https://a.example"
label = ["tier=dev", "empty="]
log-level = "debug"
log-format = "json"
debug-profiles = true
network-driver = "pasta"
mtu = 1500
host-loopback = true
http-proxy = true
log-driver = "local"
log-opt = ["max-size=1m", "tag="]
runtime = "runc"
storage-driver = "vfs"
emulate-ids = false
registry-mirror = ["mirror.example", "http://10.0.0.1:5000"]
insecure-registry = ["10.0.0.0/8", "reg.example:5000"]
registry-redirect = ["store.lan:9000", "192.168.0.0/16"]
max-concurrent-downloads = 3
max-concurrent-uploads = 2
build-cache-size = "10G"
swarm-dir = "~/swarm"
swarm-host-folder = ["/srv/a", "~/b/"]
swarm-data-addr = "eth0"
swarm-data-port = 4790
swarm-pool = "10.9.0.0/16,26"
`

// TestPrecedence gives every setting in all three sources and takes the sources away one by one.
func TestPrecedence(t *testing.T) {
	file := writeFile(t, wholeFile)
	env := []string{
		"HOME=/home/u",
		"MOSS_ROOT=/env", "MOSS_RUN_DIR=/env/run", "MOSS_HOSTS=unix:///e1,unix:///e2", "MOSS_INSECURE_TCP=false",
		"MOSS_SOCKET_GROUP=50", "MOSSD_TLS=true", "MOSSD_TLS_VERIFY=true", "MOSSD_TLS_CACERT=/env/ca.pem", "MOSSD_TLS_CERT=/env/cert.pem", "MOSSD_TLS_KEY=/env/key.pem",
		"MOSS_API_MIN=1.19", "MOSS_API_MAX=1.23", "MOSS_API_CORS_HEADER=*", "MOSS_LABELS=a=1,b=2", "MOSS_LOG_LEVEL=warn", "MOSS_LOG_FORMAT=text", "MOSS_DEBUG_PROFILES=false", "MOSS_NETWORK_DRIVER=gvisor-tap-vsock", "MOSS_MTU=0",
		"MOSS_HOST_LOOPBACK=false", "MOSS_HTTP_PROXY=0", "MOSS_LOG_DRIVER=journald", "MOSS_LOG_OPTS=mode=blocking,env=A", "MOSS_RUNTIME=/opt/crun", "MOSS_STORAGE_DRIVER=overlay", "MOSS_EMULATE_IDS=true",
		"MOSS_REGISTRY_MIRROR=a.example,https://b.example/", "MOSS_INSECURE_REGISTRY=fd00::/8,[fd00::1]:5000", "MOSS_REGISTRY_REDIRECT=store.lan",
		"MOSS_MAX_CONCURRENT_DOWNLOADS=64", "MOSS_MAX_CONCURRENT_UPLOADS=1", "MOSS_BUILD_CACHE_SIZE=500MiB",
		"MOSS_SWARM_DIR=/env/swarm", "MOSS_SWARM_HOST_FOLDERS=/env/a,/env/b",
		"MOSS_SWARM_DATA_ADDR=fd00::1", "MOSS_SWARM_DATA_PORT=65535", "MOSS_SWARM_POOL=10.9.0.0/16",
	}
	flags := map[string][]string{
		"root": {"/flag"}, "run-dir": {"/flag/run"}, "host": {"tcp://127.0.0.1:2375", "tcp://[::1]:1"}, "insecure-tcp": {"true"},
		"socket-group": {"adm"}, "tls": {"true"}, "tlsverify": {"true"}, "tlscacert": {"/flag/ca.pem"}, "tlscert": {"/flag/cert.pem"}, "tlskey": {"/flag/key.pem"},
		"api-min": {"1.18"}, "api-max": {"1.20", "1.21"}, "api-cors-header": {""}, "label": {"c=3"}, "log-level": {"info", "error"}, "log-format": {"json"}, "debug-profiles": {"true"}, "network-driver": {"none"}, "mtu": {"65520"},
		"host-loopback": {"true"}, "http-proxy": {"1"}, "log-driver": {"none"}, "log-opt": {"labels=a,b"}, "runtime": {"auto"}, "storage-driver": {"auto"}, "emulate-ids": {"0"},
		"registry-mirror": {"c.example:443"}, "insecure-registry": {"d", "127.1.2.3"}, "registry-redirect": {"10.0.0.1:9000"},
		"max-concurrent-downloads": {"0"}, "max-concurrent-uploads": {"7"}, "build-cache-size": {"4096"},
		"swarm-dir": {"/flag/swarm"}, "swarm-host-folder": {"/flag/a"},
		"swarm-data-addr": {"none"}, "swarm-data-port": {"0"}, "swarm-pool": {""},
	}
	for _, s := range config.Settings() {
		if !strings.Contains(wholeFile, "\n"+s.Key+" = ") || !strings.Contains(strings.Join(env, "\n"), s.Env+"=") || flags[s.Key] == nil {
			t.Errorf("%s is not in all sources of this test", s.Key)
		}
	}
	for _, tc := range []struct {
		name string
		opts config.Options
		want config.Config
	}{
		{"file", config.Options{Environ: environ("HOME=/home/u")}, config.Config{
			Root: "/home/u/engine", RunDir: "/tmp/x", Hosts: []string{"unix:///tmp/a.sock", "fd://"}, InsecureTCP: true,
			SocketGroup: "staff", TLS: true, TLSVerify: true, TLSCACert: "/home/u/ca.pem", TLSCert: "/etc/cert.pem", TLSKey: "/etc/key.pem",
			Labels: []string{"tier=dev", "empty="}, APIMin: "1.20", APIMax: "1.22", CORS: "https://a.example",
			LogLevel: "debug", LogFormat: "json", DebugProfiles: true, NetworkDriver: "pasta", MTU: 1500, HostLoopback: true, HTTPProxy: true, LogDriver: "local", LogOptions: []string{"max-size=1m", "tag="}, Runtime: "runc", StorageDriver: "vfs",
			RegistryMirrors: []string{"mirror.example", "http://10.0.0.1:5000"}, InsecureRegistries: []string{"10.0.0.0/8", "reg.example:5000"},
			RegistryRedirects: []string{"store.lan:9000", "192.168.0.0/16"},
			MaxDownloads:      3, MaxUploads: 2, BuildCacheSize: 10 << 30,
			SwarmDir: "/home/u/swarm", SwarmHostFolders: []string{"/srv/a", "/home/u/b"},
			SwarmDataAddr: "eth0", SwarmDataPort: 4790, SwarmPool: "10.9.0.0/16,26",
		}},
		{"environment over file", config.Options{Environ: environ(env...)}, config.Config{
			Root: "/env", RunDir: "/env/run", Hosts: []string{"unix:///e1", "unix:///e2"},
			SocketGroup: "50", TLS: true, TLSVerify: true, TLSCACert: "/env/ca.pem", TLSCert: "/env/cert.pem", TLSKey: "/env/key.pem", Labels: []string{"a=1", "b=2"},
			APIMin: "1.19", APIMax: "1.23", CORS: "*",
			LogLevel: "warn", LogFormat: "text", NetworkDriver: "gvisor-tap-vsock", LogDriver: "journald", LogOptions: []string{"mode=blocking", "env=A"}, Runtime: "/opt/crun", StorageDriver: "overlay", EmulateIDs: true,
			RegistryMirrors: []string{"a.example", "https://b.example/"}, InsecureRegistries: []string{"fd00::/8", "[fd00::1]:5000"}, RegistryRedirects: []string{"store.lan"},
			MaxDownloads: 64, MaxUploads: 1, BuildCacheSize: 500 << 20,
			SwarmDir: "/env/swarm", SwarmHostFolders: []string{"/env/a", "/env/b"},
			SwarmDataAddr: "fd00::1", SwarmDataPort: 65535, SwarmPool: "10.9.0.0/16",
		}},
		{"flags over both", config.Options{Environ: environ(env...), Flags: flags}, config.Config{
			Root: "/flag", RunDir: "/flag/run", Hosts: []string{"tcp://127.0.0.1:2375", "tcp://[::1]:1"}, InsecureTCP: true,
			SocketGroup: "adm", TLS: true, TLSVerify: true, TLSCACert: "/flag/ca.pem", TLSCert: "/flag/cert.pem", TLSKey: "/flag/key.pem", Labels: []string{"c=3"},
			APIMin: "1.18", APIMax: "1.21",
			LogLevel: "error", LogFormat: "json", DebugProfiles: true, NetworkDriver: "none", MTU: 65520, HostLoopback: true, HTTPProxy: true, LogDriver: "none", LogOptions: []string{"labels=a,b"},
			RegistryMirrors: []string{"c.example:443"}, InsecureRegistries: []string{"d", "127.1.2.3"}, RegistryRedirects: []string{"10.0.0.1:9000"}, MaxUploads: 7, BuildCacheSize: 4096,
			SwarmDir: "/flag/swarm", SwarmHostFolders: []string{"/flag/a"}, SwarmDataAddr: "none",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.opts.File = file
			got, err := config.Load(tc.opts)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got  %+v\nwant %+v", got, tc.want)
			}
		})
	}
}

func TestTLSFiles(t *testing.T) {
	for _, tc := range []struct {
		name            string
		env             []string
		flags           map[string][]string
		tls             bool
		ca, cert, given string
	}{
		{name: "none"},
		{name: "verify", flags: map[string][]string{"tlsverify": {"true"}}, tls: true, ca: "/home/u/.config/moss/ca.pem", cert: "/home/u/.config/moss/cert.pem", given: "/home/u/.config/moss/key.pem"},
		{name: "without clients' certificates", flags: map[string][]string{"tls": {"true"}}, tls: true, cert: "/home/u/.config/moss/cert.pem", given: "/home/u/.config/moss/key.pem"},
		{
			name: "one given", env: []string{"XDG_CONFIG_HOME=/xdg"}, flags: map[string][]string{"tls": {"true"}, "tlskey": {"/k"}},
			tls: true, cert: "/xdg/moss/cert.pem", given: "/k",
		},
	} {
		got, err := config.Load(config.Options{Environ: environ(append(tc.env, "HOME=/home/u")...), Flags: tc.flags})
		if err != nil {
			t.Fatal(err)
		}
		if got.TLS != tc.tls || got.TLSCACert != tc.ca || got.TLSCert != tc.cert || got.TLSKey != tc.given {
			t.Errorf("%s: %v %q %q %q, want %v %q %q %q", tc.name, got.TLS, got.TLSCACert, got.TLSCert, got.TLSKey, tc.tls, tc.ca, tc.cert, tc.given)
		}
	}
}

func TestWhichFile(t *testing.T) {
	home := t.TempDir()
	put := func(dir, level string) string {
		path := filepath.Join(dir, "moss", "moss.toml")
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(`log-level = "`+level+`"`), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	put(filepath.Join(home, ".config"), "debug")
	put(filepath.Join(home, "xdg"), "warn")
	named := put(filepath.Join(home, "named"), "error")
	missing := filepath.Join(home, "missing.toml")
	for _, tc := range []struct {
		name string
		opts config.Options
		env  []string
		want string // level, or empty for NotFound
	}{
		{"home", config.Options{}, nil, "debug"},
		{"xdg", config.Options{}, []string{"XDG_CONFIG_HOME=" + home + "/xdg"}, "warn"},
		{"xdg without a file", config.Options{}, []string{"XDG_CONFIG_HOME=" + home}, "info"},
		{"MOSS_CONFIG", config.Options{}, []string{"MOSS_CONFIG=" + named}, "error"},
		{"option over MOSS_CONFIG", config.Options{File: named}, []string{"MOSS_CONFIG=" + missing}, "error"},
		{"missing", config.Options{File: missing}, nil, "info"},
		{"missing and required", config.Options{File: missing, FileRequired: true}, nil, ""},
		{"missing MOSS_CONFIG", config.Options{}, []string{"MOSS_CONFIG=" + missing}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.opts.Environ = environ(append(tc.env, "HOME="+home)...)
			got, err := config.Load(tc.opts)
			if tc.want == "" {
				if !fault.Is(err, fault.NotFound) || !strings.Contains(err.Error(), missing) {
					t.Errorf("got %v, want a NotFound that names %s", err, missing)
				}
				return
			}
			if err != nil || got.LogLevel != tc.want {
				t.Errorf("level %q, %v, want %q", got.LogLevel, err, tc.want)
			}
		})
	}
	if _, err := config.Load(config.Options{File: home, Environ: environ("HOME=" + home)}); err == nil {
		t.Error("a folder as the file: no error")
	}
}

func TestRefusals(t *testing.T) {
	for _, tc := range []struct {
		name  string
		file  string
		env   []string
		flags map[string][]string
		want  []string // parts of the text
	}{
		{name: "unknown key", file: "colour = 'red'", want: []string{"moss.toml", `"colour"`, "network-driver"}},
		{name: "unknown table", file: "[log]\nlevel = 'info'", want: []string{"moss.toml", `"log"`}},
		{name: "syntax", file: "a = 1\nroot = ", want: []string{"moss.toml", "line 2"}},
		{name: "twice", file: "mtu = 0\nmtu = 1500", want: []string{"moss.toml", "mtu"}},
		{name: "type", file: "root = 1.5", want: []string{"moss.toml", "root", "an absolute path"}},
		{name: "list where one is wanted", file: "runtime = ['crun']", want: []string{"moss.toml", "runtime", "wrong type"}},
		{name: "list of numbers", file: "host = [1]", want: []string{"moss.toml", "host", "wrong type"}},
		{name: "file value", file: "log-level = 'loud'", want: []string{"moss.toml", "log-level", `"loud"`, "debug, info, warn or error"}},
		{name: "env value", env: []string{"MOSS_NETWORK_DRIVER=wifi"}, want: []string{"environment", "MOSS_NETWORK_DRIVER", `"wifi"`, "slirp4netns, pasta"}},
		{name: "flag value", flags: map[string][]string{"mtu": {"12"}}, want: []string{"command line", "--mtu", `"12"`, "576 to 65520"}},
		{name: "mtu too big", flags: map[string][]string{"mtu": {"65521"}}, want: []string{"--mtu"}},
		{name: "mtu negative", flags: map[string][]string{"mtu": {"-1"}}, want: []string{"--mtu"}},
		{name: "mtu words", env: []string{"MOSS_MTU=big"}, want: []string{"MOSS_MTU", "big"}},
		{name: "unknown flag", flags: map[string][]string{"colour": {"red"}}, want: []string{"command line", "colour"}},
		{name: "relative root", flags: map[string][]string{"root": {"data"}}, want: []string{"--root", "absolute"}},
		{name: "bool", env: []string{"MOSS_HOST_LOOPBACK=yes"}, want: []string{"MOSS_HOST_LOOPBACK", "true or false"}},
		{name: "relative runtime", flags: map[string][]string{"runtime": {"./crun"}}, want: []string{"--runtime"}},
		{name: "host scheme", flags: map[string][]string{"host": {"http://x"}}, want: []string{"--host", "unix:///PATH"}},
		{name: "host relative", flags: map[string][]string{"host": {"unix://moss.sock"}}, want: []string{"--host"}},
		{name: "host empty", env: []string{"MOSS_HOSTS=fd://,"}, want: []string{"MOSS_HOSTS"}},
		{name: "tcp everywhere", flags: map[string][]string{"host": {"tcp://0.0.0.0:1"}, "insecure-tcp": {"true"}}, want: []string{"0.0.0.0:1", "loopback", "tlsverify"}},
		{name: "tcp everywhere with tls alone", flags: map[string][]string{"host": {"tcp://0.0.0.0:1"}, "tls": {"true"}, "insecure-tcp": {"true"}}, want: []string{"0.0.0.0:1", "tlsverify"}},
		{name: "tls alone not asked for", flags: map[string][]string{"host": {"tcp://[::1]:1"}, "tls": {"true"}}, want: []string{"insecure-tcp", "[::1]:1"}},
		{name: "tcp by name", flags: map[string][]string{"host": {"tcp://example.org:1"}, "tlsverify": {"true"}}, want: []string{"--host", "tcp://IP:PORT"}},
		{name: "fd with a path", flags: map[string][]string{"host": {"fd://a/b"}}, want: []string{"--host", "fd://NAME"}},
		{name: "group", env: []string{"MOSS_SOCKET_GROUP=a:b"}, want: []string{"MOSS_SOCKET_GROUP", "name or number"}},
		{name: "key without tls", file: "tlskey = '/key.pem'", want: []string{"tlskey", "no use without tls"}},
		{name: "authority without tlsverify", file: "tls = true\ntlscacert = '/ca.pem'", want: []string{"tlscacert", "tlsverify"}},
		{name: "relative certificate", file: "tls = true\ntlscert = 'cert.pem'", want: []string{"tlscert", "absolute"}},
		{name: "tcp with a path", flags: map[string][]string{"host": {"tcp://127.0.0.1:1/x"}, "insecure-tcp": {"true"}}, want: []string{"--host"}},
		{name: "tcp without port", flags: map[string][]string{"host": {"tcp://127.0.0.1"}, "insecure-tcp": {"true"}}, want: []string{"--host"}},
		{name: "tcp not asked for", flags: map[string][]string{"host": {"tcp://127.0.0.1:1"}}, want: []string{"insecure-tcp", "127.0.0.1:1"}},
		{name: "mirror scheme", env: []string{"MOSS_REGISTRY_MIRROR=ftp://x"}, want: []string{"MOSS_REGISTRY_MIRROR", "https://HOST[:PORT]"}},
		{name: "mirror path", file: "registry-mirror = 'https://x.example/y'", want: []string{"registry-mirror", "no path"}},
		{name: "mirror query", file: "registry-mirror = 'https://x.example?y'", want: []string{"registry-mirror", "no path"}},
		{name: "mirror user", file: "registry-mirror = 'https://u:p@x.example'", want: []string{"registry-mirror", "no credentials"}},
		{name: "mirror empty", env: []string{"MOSS_REGISTRY_MIRROR=a.example,"}, want: []string{"MOSS_REGISTRY_MIRROR"}},
		{name: "mirror port", file: "registry-mirror = 'x.example:0'", want: []string{"registry-mirror"}},
		{name: "insecure scheme", flags: map[string][]string{"insecure-registry": {"http://x"}}, want: []string{"--insecure-registry", "CIDR"}},
		{name: "insecure network", flags: map[string][]string{"insecure-registry": {"10.0.0.0/33"}}, want: []string{"--insecure-registry"}},
		{name: "redirect scheme", flags: map[string][]string{"registry-redirect": {"https://x"}}, want: []string{"--registry-redirect", "CIDR"}},
		{name: "insecure bare ipv6", flags: map[string][]string{"insecure-registry": {"fd00::1"}}, want: []string{"--insecure-registry"}},
		{name: "insecure port", flags: map[string][]string{"insecure-registry": {"x:70000"}}, want: []string{"--insecure-registry"}},
		{name: "insecure docker.io", flags: map[string][]string{"insecure-registry": {"registry-1.docker.io:443"}}, want: []string{"always reached by TLS"}},
		{name: "label without a value", flags: map[string][]string{"label": {"a"}}, want: []string{"--label", "KEY=VALUE"}},
		{name: "label without a key", file: "label = '=a'", want: []string{"label", "KEY=VALUE"}},
		{name: "label twice", env: []string{"MOSS_LABELS=a=1,a=2"}, want: []string{"MOSS_LABELS", `"a"`, "twice"}},
		{name: "api version", flags: map[string][]string{"api-min": {"v1.24"}}, want: []string{"--api-min", "1.24"}},
		{name: "api version with a zero", env: []string{"MOSS_API_MAX=1.024"}, want: []string{"MOSS_API_MAX"}},
		{name: "api version too long", file: "api-max = '1.24.1'", want: []string{"api-max"}},
		{name: "api version as a number", file: "api-max = 1.24", want: []string{"api-max", "wrong type"}},
		{name: "origin without a scheme", flags: map[string][]string{"api-cors-header": {"a.example"}}, want: []string{"--api-cors-header", "https://example.com"}},
		{name: "origin with a path", flags: map[string][]string{"api-cors-header": {"https://a.example/"}}, want: []string{"--api-cors-header", "ends with the host"}},
		{name: "two origins", env: []string{"MOSS_API_CORS_HEADER=https://a.example, https://b.example"}, want: []string{"MOSS_API_CORS_HEADER"}},
		{name: "origin with a line", flags: map[string][]string{"api-cors-header": {"https://a.example\nX: y"}}, want: []string{"--api-cors-header"}},
		{name: "downloads", flags: map[string][]string{"max-concurrent-downloads": {"65"}}, want: []string{"--max-concurrent-downloads", "1 to 64"}},
		{name: "data address with a port", flags: map[string][]string{"swarm-data-addr": {"10.0.0.1:4789"}}, want: []string{"--swarm-data-addr"}},
		{name: "data address of all", file: "swarm-data-addr = '0.0.0.0'", want: []string{"swarm-data-addr", "an IP address"}},
		{name: "data port", env: []string{"MOSS_SWARM_DATA_PORT=65536"}, want: []string{"MOSS_SWARM_DATA_PORT", "0 to 65535"}},
		{name: "pool without bits", flags: map[string][]string{"swarm-pool": {"10.9.0.0"}}, want: []string{"--swarm-pool", "IPv4 network"}},
		{name: "pool with an address", file: "swarm-pool = '10.9.0.1/16'", want: []string{"swarm-pool"}},
		{name: "pool of IPv6", file: "swarm-pool = 'fd00::/48'", want: []string{"swarm-pool"}},
		{name: "pool smaller than its subnets", file: "swarm-pool = '10.9.0.0/16,15'", want: []string{"swarm-pool"}},
		{name: "pool of tiny subnets", file: "swarm-pool = '10.9.0.0/16,30'", want: []string{"swarm-pool", "12 to 29"}},
		{name: "cache", flags: map[string][]string{"build-cache-size": {"9999999T"}}, want: []string{"--build-cache-size", "bytes"}},
		{name: "uploads", env: []string{"MOSS_MAX_CONCURRENT_UPLOADS=-1"}, want: []string{"MOSS_MAX_CONCURRENT_UPLOADS"}},
		{
			name: "weak source is checked too", file: "mtu = 1", flags: map[string][]string{"mtu": {"1500"}},
			want: []string{"moss.toml", "mtu"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			opts := config.Options{File: writeFile(t, tc.file), Environ: environ(append(tc.env, "HOME=/home/u")...), Flags: tc.flags}
			_, err := config.Load(opts)
			if !fault.Is(err, fault.Invalid) {
				t.Fatalf("got %v, want an Invalid", err)
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
		})
	}
}

// FuzzFile gives Load any file: it must refuse it by fault.Invalid or return settings that a second Load accepts.
func FuzzFile(f *testing.F) {
	f.Add(wholeFile)
	f.Add("[a.b]\nc = [[1], {x = 2020-01-01}]")
	f.Add("host = 'fd://'\n\"\\u0000\" = inf")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, content string) {
		file := filepath.Join(dir, "moss.toml")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(config.Options{File: file, FileRequired: true, Environ: environ("HOME=/home/u")})
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Errorf("%q: %v, want an Invalid", content, err)
			}
			return
		}
		if !filepath.IsAbs(cfg.Root) || cfg.LogLevel == "" || cfg.NetworkDriver == "" {
			t.Errorf("%q: accepted as %+v", content, cfg)
		}
	})
}
