package main

import (
	"slices"
	"testing"
)

func TestCertDirs(t *testing.T) {
	shared := []string{"/etc/docker/certs.d", "/etc/containers/certs.d"}
	for _, tc := range []struct {
		name         string
		home, config string
		want         []string
	}{
		{"home", "/home/u", "", []string{"/home/u/.config/moss/certs.d", "/home/u/.config/containers/certs.d"}},
		{"xdg", "/home/u", "/cfg", []string{"/cfg/moss/certs.d", "/home/u/.config/containers/certs.d"}},
		{"relative", "u", "cfg", nil},
	} {
		env := map[string]string{"HOME": tc.home, "XDG_CONFIG_HOME": tc.config}
		got := certDirs(func(name string) string { return env[name] })
		if want := append(slices.Clone(tc.want), shared...); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", tc.name, got, want)
		}
	}
}

// TestProxyHidesPasswords is about what info shows.
func TestProxyHidesPasswords(t *testing.T) {
	for _, tc := range []struct{ upper, lower, want string }{
		{"http://proxy:3128", "", "http://proxy:3128"},
		{"", "http://u:secret@proxy:3128", "http://xxxxx:xxxxx@proxy:3128"},
		{"proxy:3128", "http://other", "proxy:3128"},
		{"", "", ""},
	} {
		t.Setenv("HTTPS_PROXY", tc.upper)
		t.Setenv("https_proxy", tc.lower)
		if got := proxySetting("HTTPS_PROXY"); got != tc.want {
			t.Errorf("HTTPS_PROXY=%q https_proxy=%q: got %q, want %q", tc.upper, tc.lower, got, tc.want)
		}
	}
}

// TestProxies is about what containers get.
func TestProxies(t *testing.T) {
	got := proxyVariables([]string{"no_proxy=a=b", "HTTP_PROXY=p", "PROXY=x", "Http_Proxy=x", "https_proxy=", "PATH=/bin"})
	if want := []string{"HTTP_PROXY=p", "no_proxy=a=b"}; !slices.Equal(got, want) {
		t.Errorf("proxies = %q, want %q", got, want)
	}
}
