package arg_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"moss/cmd/moss/arg"
)

func TestProxies(t *testing.T) {
	env := map[string]string{"http_proxy": "p", "HTTP_PROXY": "P", "HTTPS_PROXY": "s", "no_proxy": "", "OTHER_PROXY": "o", "all_proxy": "a"}
	lookup := func(name string) (string, bool) { value, set := env[name]; return value, set }
	for _, tc := range []struct{ given, want []string }{
		{nil, []string{"http_proxy=p", "HTTP_PROXY=P", "HTTPS_PROXY=s", "all_proxy=a"}},
		{[]string{"http_proxy=mine", "ALL_PROXY"}, []string{"HTTPS_PROXY=s"}},
	} {
		if got := arg.Proxies(lookup, tc.given); !slices.Equal(got, tc.want) {
			t.Errorf("Proxies beside %q = %q, want %q", tc.given, got, tc.want)
		}
	}
}

func TestHostCA(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ca.pem")
	lookup := func(name string) (string, bool) { return path, name == "SSL_CERT_FILE" }
	if _, err := arg.HostCA(lookup); err == nil {
		t.Error("a file of SSL_CERT_FILE that is not there is taken")
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := arg.HostCA(lookup); err != nil || got != path {
		t.Errorf("HostCA = %q, %v, want %q", got, err, path)
	}
}
