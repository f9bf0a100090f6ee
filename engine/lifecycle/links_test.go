package lifecycle

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/network"
)

// linkRecord is of the container that links lead to.
var linkRecord = &container.Record{Name: "store", Config: container.Config{Hostname: "host"}} //nolint:gochecknoglobals // a constant

func TestRelink(t *testing.T) {
	const line = "172.17.0.9\tdb host store\n"
	now := map[string]neighbour{"db": {alias: "db", ip: "172.17.0.9", record: linkRecord}, "gone": {}}
	for _, tc := range []struct{ name, in, want string }{
		{"empty", "", line},
		{"no end", "::1 x", "::1 x\n" + line},
		{"a link's line", "172.17.0.2\tdb 0123456789ab store\n", "172.17.0.9\tdb 0123456789ab store\n"},
		{"without an end", "172.17.0.2 db host", "172.17.0.9 db host"},
		{"an extra host", "172.17.0.2\tdb\n", "172.17.0.2\tdb\n" + line},
		{"another alias", "172.17.0.2\tdb2 db x\n", "172.17.0.2\tdb2 db x\n" + line},
		{"a removed link", "1.2.3.4\tlocalhost\n172.17.0.2\tgone host\n::1 x\n", "1.2.3.4\tlocalhost\n::1 x\n" + line},
		{"no address", "# db host\n172 db host\n", "# db host\n172 db host\n" + line},
		{"indented", "  172.17.0.2 db host\n", "172.17.0.9 db host\n"},
		{"bytes", "\xff\x00 db host\n", "\xff\x00 db host\n" + line},
	} {
		if got := string(replaceLinkLines([]byte(tc.in), now)); got != tc.want {
			t.Errorf("%s: relink(%q) = %q, want %q", tc.name, tc.in, got, tc.want)
		}
	}
}

func FuzzRelink(f *testing.F) {
	f.Add([]byte("172.17.0.2\tdb host\n127.0.0.1 localhost\n"))
	f.Add([]byte(" 1.1.1.1 1.1.1.1 db x"))
	f.Fuzz(func(t *testing.T, content []byte) {
		now := map[string]neighbour{"db": {alias: "db", ip: "172.17.0.9", record: linkRecord}, "gone": {}}
		once := replaceLinkLines(content, now)
		if twice := replaceLinkLines(once, now); string(twice) != string(once) {
			t.Errorf("relink(%q) = %q, and once more %q", content, once, twice)
		}
		if lines := strings.Count(string(once), "\n"); lines > strings.Count(string(content), "\n")+2 {
			t.Errorf("relink(%q) = %q has more lines than the link's and the end of the last", content, once)
		}
	})
}

// TestRewriteHosts keeps the file, which is mounted in a container, and leaves no rest of a longer one.
func TestRewriteHosts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(path, []byte("172.17.0.222\tdb host\n1.2.3.4 tail\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := rewriteManaged(path, func(have []byte) []byte { return replaceLinkLines(have, map[string]neighbour{"db": {ip: "10.0.0.1"}}) }); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != "10.0.0.1\tdb host\n1.2.3.4 tail\n" {
		t.Errorf("hosts = %q, %v", got, err)
	}
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("the file was replaced: %v", err)
	}
}

func TestLinks(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	db := w.create(m, "db")
	web := w.create(m, "web", func(_ *container.Config, h *container.HostConfig) { h.Links = []string{"db:store"} })
	if err := m.Start(t.Context(), web); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "/db AS /web/store") {
		t.Errorf("start beside a stopped container: %v, want fault.Conflict", err)
	}
	if r, _ := m.inventory.Get(web); r.ExitCode != 128 || r.State != container.Created {
		t.Errorf("after that: code %d, %s, want 128, created", r.ExitCode, r.State)
	}
	w.must(m.Start(t.Context(), db))
	w.must(m.Start(t.Context(), web))
	r, err := m.inventory.Get("web")
	if err != nil || !slices.Equal(r.Host.Links, []string{"/db:/web/store"}) {
		t.Errorf("links = %v, %v", r.Host.Links, err)
	}
	hosts, err := os.ReadFile(r.HostsPath)
	if err != nil || !strings.Contains(string(hosts), "172.17.0.2\tstore "+db[:12]+" db\n") {
		t.Errorf("hosts = %s, %v", hosts, err)
	}
	if r, err := m.inventory.Get("web/store"); err != nil || r.ID != db {
		t.Errorf("web/store is not found: %v", err)
	}
	list, err := m.inventory.List(t.Context(), container.ListOptions{})
	if err != nil || len(list) != 2 || !slices.Equal(list[1].LinkedAs, []string{"/web/store"}) || list[0].LinkedAs != nil {
		t.Errorf("list of %d, %v", len(list), err)
	}
	w.must(m.Rename(t.Context(), "db", "base"))
	if r, _ := m.inventory.Get("web"); !slices.Equal(r.Host.Links, []string{"/base:/web/store"}) {
		t.Errorf("links after a rename = %v", r.Host.Links)
	}
	for name, like := range map[string]fault.Constructor{"web/other": fault.NotFound, "none/store": fault.NotFound, "web": fault.Conflict, "none": fault.NotFound} {
		if err := m.Remove(t.Context(), name, container.RemoveOptions{Link: true}); !fault.Is(err, like) {
			t.Errorf("removal of link %s: %v", name, err)
		}
	}
	w.must(m.Remove(t.Context(), "web/store", container.RemoveOptions{Link: true}))
	if r, _ := m.inventory.Get("web"); r.Host.Links != nil {
		t.Errorf("links after removal = %v", r.Host.Links)
	}
	if hosts, err = os.ReadFile(r.HostsPath); err != nil || strings.Contains(string(hosts), "store") {
		t.Errorf("hosts after removal = %s, %v", hosts, err)
	}
}

// TestLinkMoves restarts a linked container at another address, in the middle of the engine's life and across it.
func TestLinkMoves(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	w.create(m, "db")
	w.create(m, "web", func(_ *container.Config, h *container.HostConfig) { h.Links = []string{"db"} })
	w.must(m.Start(t.Context(), "db"))
	w.must(m.Start(t.Context(), "web"))
	w.must(m.Stop(t.Context(), "db", container.StopOptions{Timeout: new(killWait)}))
	w.nets.address = "172.17.0.77"
	w.must(m.Start(t.Context(), "db"))
	r, _ := m.inventory.Get("web")
	hosts, err := os.ReadFile(r.HostsPath)
	if err != nil || !strings.Contains(string(hosts), "172.17.0.77\tdb ") || strings.Contains(string(hosts), "172.17.0.2\tdb ") {
		t.Errorf("hosts = %s, %v", hosts, err)
	}
}

// TestListLinking: a start looks only at containers with links, wherever they have them from: their create, another HostConfig,
// a network, or an earlier engine.
func TestListLinking(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	listNames := func(m *Manager) (names []string) {
		for _, c := range m.index.listLinking() {
			names = append(names, c.record().Name)
		}
		slices.Sort(names)
		return names
	}
	w.create(m, "db")
	w.create(m, "made", func(_ *container.Config, h *container.HostConfig) { h.Links = []string{"db"} })
	w.create(m, "changed")
	w.must(m.Reconfigure(t.Context(), "changed", container.HostConfig{Links: []string{"db"}}))
	w.create(m, "connected")
	w.must(m.Networks().ConnectNetwork(t.Context(), "connected", w.nets.add("back", 20), container.EndpointConfig{Links: []string{"db:x"}}))
	want := []string{"changed", "connected", "made"}
	if got := listNames(m); !slices.Equal(got, want) {
		t.Errorf("containers with links = %v, want %v", got, want)
	}
	again := w.engine()
	if got := listNames(again); !slices.Equal(got, want) {
		t.Errorf("containers with links of an earlier engine = %v, want %v", got, want)
	}
	w.must(again.Remove(t.Context(), "made", container.RemoveOptions{}))
	if got := listNames(again); !slices.Equal(got, []string{"changed", "connected"}) {
		t.Errorf("containers with links after a removal = %v, want those left", got)
	}
}

func TestResolve(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	other := w.create(m, "other", func(_ *container.Config, h *container.HostConfig) { h.IpcMode = "private" })
	for _, tc := range []struct {
		host container.HostConfig
		like fault.Constructor
	}{
		{container.HostConfig{NetworkMode: "container:self"}, fault.Invalid},
		{container.HostConfig{PidMode: "container:/self"}, fault.Invalid},
		{container.HostConfig{Links: []string{"self:x"}}, fault.Invalid},
		{container.HostConfig{NetworkMode: "container:none"}, fault.Invalid},
		{container.HostConfig{Links: []string{"none:x"}}, fault.Invalid},
		{container.HostConfig{IpcMode: "container:other"}, fault.Conflict},
	} {
		_, _, err := m.Create(t.Context(), "self", container.Config{Image: "busybox"}, tc.host, nil)
		if !fault.Is(err, tc.like) {
			t.Errorf("create with %+v: %v, want %v", tc.host, err, tc.like("x"))
		}
		if _, err := m.inventory.Get("self"); err == nil {
			t.Fatalf("create with %+v left a container", tc.host)
		}
	}
	side := w.create(m, "side", func(_ *container.Config, h *container.HostConfig) {
		h.NetworkMode, h.PidMode = "container:other", "container:other"
	})
	r, err := m.inventory.Get(side)
	if err != nil || r.Host.NetworkMode != "container:"+other || r.Host.PidMode != "container:"+other || r.Config.Hostname != other[:12] {
		t.Errorf("modes %s %s, host name %s, %v", r.Host.NetworkMode, r.Host.PidMode, r.Config.Hostname, err)
	}
	if err := m.Start(t.Context(), side); !fault.Is(err, fault.Conflict) {
		t.Errorf("start beside a stopped container: %v, want fault.Conflict", err)
	}
	w.must(m.Remove(t.Context(), other, container.RemoveOptions{}))
	if err := m.Start(t.Context(), side); !fault.Is(err, fault.NotFound) {
		t.Errorf("start beside a removed container: %v, want fault.NotFound", err)
	}
	if r, _ := m.inventory.Get(side); r.ExitCode != 128 {
		t.Errorf("code %d, want 128: it says nothing of the command", r.ExitCode)
	}
}

func TestPruneCgroups(t *testing.T) {
	mount := t.TempDir()
	for _, dir := range []string{"memory/base/a/b", "cpu/base/a/b/c", "cpu/base/a/used", "base/a"} {
		if err := os.MkdirAll(filepath.Join(mount, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	pruneCgroups(mount, "/base", "a/b")
	for dir, want := range map[string]bool{
		"memory/base": true, "memory/base/a": false, "cpu/base/a/b/c": true, "cpu/base/a/used": true, "base": true, "base/a": false,
	} {
		if _, err := os.Stat(filepath.Join(mount, dir)); (err == nil) != want {
			t.Errorf("%s: %v, want it there: %t", dir, err, want)
		}
	}
}

// TestSharedSandbox: what is another container's is not recorded as one's own.
func TestSharedSandbox(t *testing.T) {
	if n := recordNetwork(network.Sandbox{Mode: network.Container}); n.Path != "" || len(n.Endpoints) > 0 {
		t.Errorf("network = %+v", n)
	}
}
