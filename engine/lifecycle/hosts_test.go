package lifecycle

import (
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"moss/engine/container"
	"moss/engine/fault"
)

func TestReplaceLines(t *testing.T) {
	old, now := []string{"10.0.0.2\tweb", "10.0.2.2\thost.docker.internal"}, []string{"10.1.0.2\tweb", "10.0.2.2\thost.docker.internal"}
	for _, tc := range []struct{ name, in, want string }{
		{"empty", "", "10.1.0.2\tweb\n"},
		{"in its place", "::1 x\n10.0.0.2\tweb\n# y\n", "::1 x\n10.1.0.2\tweb\n# y\n"},
		{"without an end", "# y", "# y\n10.1.0.2\tweb\n"},
		{"edited", "10.0.0.2\tweb mine\n", "10.0.0.2\tweb mine\n10.1.0.2\tweb\n"},
		{"twice", "10.0.0.2\tweb\na\n10.0.0.2\tweb\n", "10.1.0.2\tweb\na\n"},
		{"done before", "10.1.0.2\tweb\n::1 x\n", "10.1.0.2\tweb\n::1 x\n"},
		{"the same line stays", "10.0.2.2\thost.docker.internal\n10.0.0.2\tweb\n", "10.0.2.2\thost.docker.internal\n10.1.0.2\tweb\n"},
	} {
		if got := string(replaceLines([]byte(tc.in), old, now)); got != tc.want {
			t.Errorf("%s: replaceLines(%q) = %q, want %q", tc.name, tc.in, got, tc.want)
		}
	}
	if got := string(replaceLines([]byte("a\n10.0.0.2\tweb\n"), old, nil)); got != "a\n" {
		t.Errorf("without new lines = %q", got)
	}
}

func FuzzReplaceLines(f *testing.F) {
	f.Add([]byte("127.0.0.1 localhost\n10.0.0.2\tweb\n"))
	f.Add([]byte("\xff\x00"))
	f.Fuzz(func(t *testing.T, content []byte) {
		old, now := []string{"10.0.0.2\tweb"}, []string{"10.1.0.2\tweb"}
		once := replaceLines(content, old, now)
		if twice := replaceLines(once, old, now); string(twice) != string(once) {
			t.Errorf("replaceLines(%q) = %q, and once more %q", content, once, twice)
		}
		if !slices.Contains(strings.Split(string(once), "\n"), now[0]) || slices.Contains(strings.Split(string(once), "\n"), old[0]) {
			t.Errorf("replaceLines(%q) = %q", content, once)
		}
		if same := replaceLines(content, old, old); string(same) != string(content) {
			t.Errorf("replaceLines(%q) without a change = %q", content, same)
		}
	})
}

// TestHostNames: the names of the host, and what host-gateway means, with and without a way to it.
func TestHostNames(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	w.create(m, "web", func(_ *container.Config, h *container.HostConfig) { h.ExtraHosts = []string{"gate:host-gateway"} })
	if err := m.Start(t.Context(), "web"); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "host-gateway") {
		t.Errorf("start without a way to the host: %v, want fault.Invalid", err)
	}
	if len(w.nets.joined) > 0 {
		t.Errorf("left: %v", w.nets.joined)
	}
	w.nets.host = netip.MustParseAddr("10.0.2.2")
	w.must(m.Start(t.Context(), "web"))
	if got := w.hosts(m, "web"); !strings.Contains(got, "10.0.2.2\tgate\n") || !strings.HasSuffix(got, "10.0.2.2\thost.docker.internal host.moss.internal\n") {
		t.Errorf("hosts = %q", got)
	}
	w.create(m, "own", func(_ *container.Config, h *container.HostConfig) {
		h.ExtraHosts, h.NetworkMode = []string{"host.docker.internal:192.0.2.1"}, "host"
	})
	w.nets.host = netip.Addr{}
	w.must(m.Start(t.Context(), "own"))
	if got := w.hosts(m, "own"); !strings.Contains(got, "192.0.2.1\thost.docker.internal\n") || !strings.HasSuffix(got, "127.0.0.1\thost.moss.internal\n") {
		t.Errorf("hosts = %q", got)
	}
	w.must(m.Kill(t.Context(), "web", ""))
	w.must(m.Kill(t.Context(), "own", ""))
}

// TestResolvConf: in a network that a user has made the resolver asks the client's servers, elsewhere the container does.
func TestResolvConf(t *testing.T) {
	for _, tc := range []struct {
		name, mode string
		host       container.HostConfig
		want       string
	}{
		{"default", "", container.HostConfig{}, "nameserver 172.17.0.1\n"},
		{
			"default, asked", "",
			container.HostConfig{DNS: []string{"192.0.2.53"}, DNSSearch: []string{"example"}, DNSOptions: []string{"ndots:3"}},
			"nameserver 192.0.2.53\nsearch example\noptions ndots:3\n",
		},
		{"user's", "n", container.HostConfig{}, "nameserver 127.0.0.11\noptions ndots:0\n"},
		{
			"user's, asked", "n",
			container.HostConfig{DNS: []string{"192.0.2.53"}, DNSOptions: []string{"timeout:3"}},
			"nameserver 127.0.0.11\noptions timeout:3 ndots:0\n",
		},
		{"user's, its dots", "n", container.HostConfig{DNSOptions: []string{"ndots:5"}}, "nameserver 127.0.0.11\noptions ndots:5\n"},
	} {
		w := newWorld(t)
		m := w.engine()
		w.nets.add("n", 10)
		id := w.create(m, "web", func(_ *container.Config, h *container.HostConfig) {
			*h = tc.host
			h.NetworkMode = tc.mode
		})
		w.must(m.Start(t.Context(), "web"))
		raw, err := os.ReadFile(must(m.inventory.Get("web")).ResolvConf)
		if err != nil || string(raw) != tc.want {
			t.Errorf("%s: resolv.conf = %q, %v, want %q", tc.name, raw, err, tc.want)
		}
		if asked := w.nets.requests[id].DNS; len(asked) != len(tc.host.DNS) {
			t.Errorf("%s: the network hears of servers %v, want %v", tc.name, asked, tc.host.DNS)
		}
		w.must(m.Kill(t.Context(), "web", ""))
	}
}
