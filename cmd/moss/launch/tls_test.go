package launch

import (
	"os"
	"path/filepath"
	"testing"

	"moss/api/client"
)

func TestFindTLS(t *testing.T) {
	full, empty := t.TempDir(), t.TempDir()
	for _, name := range []string{"ca.pem", "cert.pem", "key.pem"} {
		if err := os.WriteFile(filepath.Join(full, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all := &client.TLSFiles{CA: full + "/ca.pem", Cert: full + "/cert.pem", Key: full + "/key.pem"}
	for _, tc := range []struct {
		name  string
		host  string
		flags TLS
		env   map[string]string
		want  *client.TLSFiles
		at    string // empty: refused
	}{
		{name: "none", host: "tcp://h", at: "tcp://h:2375"},
		{name: "verify", host: "tcp://h", flags: TLS{Verify: true}, env: map[string]string{"DOCKER_CERT_PATH": full}, want: all, at: "tcp://h:2376"},
		{name: "the environment", host: "tcp://h:1", env: map[string]string{"DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": full}, want: all, at: "tcp://h:1"},
		{name: "moss's own words first", host: "tcp://h:1", env: map[string]string{"MOSS_TLS_VERIFY": "1", "MOSS_CERT_PATH": full, "DOCKER_CERT_PATH": empty}, want: all, at: "tcp://h:1"},
		{name: "docker's folder", host: "tcp://h:1", flags: TLS{Verify: true}, env: map[string]string{"DOCKER_CONFIG": full}, want: all, at: "tcp://h:1"},
		{name: "no certificate to show", host: "tcp://h:1", flags: TLS{Verify: true}, env: map[string]string{"DOCKER_CERT_PATH": empty}, want: &client.TLSFiles{CA: empty + "/ca.pem"}, at: "tcp://h:1"},
		{name: "whoever answers", host: "tcp://h:1", flags: TLS{On: true}, env: map[string]string{"HOME": empty}, want: &client.TLSFiles{}, at: "tcp://h:1"},
		{name: "flags over all", host: "tcp://h:1", flags: TLS{Verify: true, CACert: "/a", Cert: "/c", Key: "/k"}, env: map[string]string{"DOCKER_CERT_PATH": full}, want: &client.TLSFiles{CA: "/a", Cert: "/c", Key: "/k"}, at: "tcp://h:1"},
		{name: "the environment is not about unix sockets", host: "unix:///s", env: map[string]string{"DOCKER_TLS_VERIFY": "1"}, at: "unix:///s"},
		{name: "flags for a unix socket", host: "unix:///s", flags: TLS{On: true}},
		{name: "flags for the default socket", flags: TLS{Verify: true}},
		{name: "files without TLS", host: "tcp://h:1", flags: TLS{Cert: "/c", Key: "/k"}},
		{name: "authority without verifying", host: "tcp://h:1", flags: TLS{On: true, CACert: "/a"}},
	} {
		place, err := Find(tc.host, tc.flags, func(name string) string { return tc.env[name] })
		if (err != nil) != (tc.at == "") {
			t.Errorf("%s: %v, %v, want %q", tc.name, place, err, tc.at)
			continue
		}
		if err != nil {
			continue
		}
		if place.Host.String() != tc.at || (place.TLS == nil) != (tc.want == nil) || tc.want != nil && *place.TLS != *tc.want {
			t.Errorf("%s: %s with %+v, want %s with %+v", tc.name, place.Host, place.TLS, tc.at, tc.want)
		}
	}
}
