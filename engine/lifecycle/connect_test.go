package lifecycle

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"moss/engine/container"
	"moss/engine/event"
	"moss/engine/fault"
	"moss/engine/network"
	"moss/engine/task"
	"moss/engine/task/tasktest"
)

// createIn makes a container with networks of its own.
func (w *world) createIn(m *Manager, name, mode string, nets map[string]container.EndpointConfig) string {
	w.t.Helper()
	id, _, err := m.Create(w.t.Context(), name, container.Config{Image: "busybox"}, container.HostConfig{NetworkMode: mode}, nets)
	if err != nil {
		w.t.Fatalf("create %s: %v", name, err)
	}
	return id
}

// in lists the networks of a container, those of its record and those that it has a place in.
func (w *world) in(m *Manager, ref string) (record, places []string) {
	w.t.Helper()
	r, err := m.inventory.Get(ref)
	w.must(err)
	return slices.Sorted(maps.Keys(r.Networks())), slices.Sorted(maps.Keys(r.Network.Endpoints))
}

// nets lists what happened to networks, as action:name:type, in order.
func (l *eventLog) nets() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []string
	for _, e := range l.list {
		if e.Type == event.TypeNetwork {
			list = append(list, e.Action+":"+e.Attributes["name"]+":"+e.Attributes["type"])
		}
	}
	return list
}

func (w *world) hosts(m *Manager, ref string) string {
	w.t.Helper()
	r, err := m.inventory.Get(ref)
	w.must(err)
	raw, err := os.ReadFile(r.HostsPath)
	w.must(err)
	return string(raw)
}

func TestConnectLive(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	back := w.nets.add("back", 20)
	id := w.create(m, "web")
	w.must(m.Start(t.Context(), "web"))
	path := must(m.inventory.Get("web")).HostsPath
	w.must(os.WriteFile(path, []byte(w.hosts(m, "web")+"192.0.2.1\tmine"), 0o600))
	w.must(m.Networks().ConnectNetwork(t.Context(), "web", back, container.EndpointConfig{Aliases: []string{"db"}, Links: []string{"later:x"}}))

	if record, places := w.in(m, "web"); !slices.Equal(record, []string{"back", "bridge"}) || !slices.Equal(places, record) {
		t.Errorf("networks = %v, places = %v, want both", record, places)
	}
	asked := w.nets.requests[id].Attach[1]
	if want := []string{"web", id[:12], "db"}; asked.Network != back || !slices.Equal(asked.Names, want) || len(asked.Links) != 0 {
		t.Errorf("asked for %+v, want names %v", asked, want)
	}
	if got := w.hosts(m, "web"); !strings.HasSuffix(got, "192.0.2.1\tmine\n10.20.0.2\t"+id[:12]+"\nfd00:14::2\t"+id[:12]+"\n") {
		t.Errorf("hosts = %q", got)
	}
	if raw, _ := os.ReadFile(must(m.inventory.Get("web")).ResolvConf); string(raw) != "nameserver 127.0.0.11\noptions ndots:0\n" {
		t.Errorf("resolv.conf = %q, want that of a network with a resolver", raw)
	}
	if e, ok := w.log.last("connect"); !ok || e.ID != back.ID || e.Attributes["container"] != id || e.Attributes["type"] != "bridge" {
		t.Errorf("event = %+v", e)
	}
	later := w.create(m, "later")
	w.must(m.Start(t.Context(), "later"))
	if got := w.nets.requests[id].Attach[1].Links["x"]; got != later {
		t.Errorf("link to a container that came later = %q, want %s", got, later)
	}
	w.must(m.Rename(t.Context(), "web", "front"))
	if got := w.nets.requests[id].Attach[1].Names[0]; got != "front" {
		t.Errorf("name after a rename = %q", got)
	}

	again := w.engine()
	if j := w.nets.restored[id]; len(j.Request.Attach) != 2 || j.Request.Attach[0].Name != "bridge" || j.Sandbox.Endpoints["back"].Device != "eth1" ||
		j.Sandbox.Primary != "bridge" || j.Sandbox.Mode != network.Bridge {
		t.Errorf("the next engine takes up %+v", j)
	}
	w.must(again.Networks().DisconnectNetwork(t.Context(), "front", back, false))
	if got := w.hosts(again, "front"); strings.Contains(got, "10.20") || !strings.Contains(got, "mine\n") || !strings.Contains(got, "172.17.0.2\t") {
		t.Errorf("hosts after the disconnect = %q", got)
	}
	if e, ok := w.log.last("disconnect"); !ok || e.ID != back.ID {
		t.Errorf("event = %+v", e)
	}
	if record, places := w.in(again, "front"); !slices.Equal(record, []string{"bridge"}) || !slices.Equal(places, record) {
		t.Errorf("networks = %v, places = %v, want the default one", record, places)
	}
	w.must(again.Kill(t.Context(), "front", ""))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestConnectAtRest changes the record alone; the next start and all after it go by that.
func TestConnectAtRest(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	a, b := w.nets.add("a", 10), w.nets.add("b", 11)
	id := w.createIn(m, "web", b.ID[:8], nil)
	w.must(m.Networks().ConnectNetwork(t.Context(), "web", a, container.EndpointConfig{IPAMConfig: &container.IPAMConfig{IPv4Address: "10.10.0.9"}}))
	if got := w.log.nets(); got != nil {
		t.Errorf("events = %v, want none: nothing has happened yet", got)
	}
	m = w.engine()
	w.must(m.Start(t.Context(), "web"))
	req := w.nets.requests[id]
	if len(req.Attach) != 2 || req.Attach[0].Name != "b" || req.Attach[1].IPv4.String() != "10.10.0.9" || req.Mode != network.Bridge {
		t.Errorf("asked for %+v, want b first", req)
	}
	if got := must(m.inventory.Get("web")); got.Host.NetworkMode != "b" || got.Network.Primary != "b" {
		t.Errorf("mode = %q, primary = %q, want the name of the network", got.Host.NetworkMode, got.Network.Primary)
	}
	w.must(m.Stop(t.Context(), "web", container.StopOptions{Timeout: new(killWait)}))
	if want := []string{"connect:a:bridge", "connect:b:bridge", "disconnect:a:bridge", "disconnect:b:bridge"}; !slices.Equal(w.log.nets(), want) {
		t.Errorf("events = %v, want %v", w.log.nets(), want)
	}
	w.must(m.Networks().DisconnectNetwork(t.Context(), "web", b, false))
	w.must(m.Start(t.Context(), "web"))
	if _, places := w.in(m, "web"); !slices.Equal(places, []string{"a"}) {
		t.Errorf("places = %v, want a", places)
	}
	w.must(m.Networks().DisconnectNetwork(t.Context(), "web", a, false))
	w.must(m.Restart(t.Context(), "web", container.StopOptions{Timeout: new(killWait)}))
	if record, places := w.in(m, "web"); len(record)+len(places) != 0 || w.nets.requests[id].Mode != network.Bridge {
		t.Errorf("networks = %v, places = %v, asked for %+v, want none", record, places, w.nets.requests[id])
	}
	w.must(m.Kill(t.Context(), "web", ""))
}

func TestConnectRefused(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	n := w.nets.add("n", 10)
	builtin := map[string]*network.Network{}
	for _, name := range []string{"bridge", "host", "none"} {
		builtin[name] = must(w.nets.Find(name))
	}
	w.create(m, "web")
	w.create(m, "runs")
	w.must(m.Start(t.Context(), "runs"))
	w.createIn(m, "onhost", "host", nil)
	w.createIn(m, "alone", "none", nil)
	w.createIn(m, "shares", "container:web", nil)
	address := func(ip string) container.EndpointConfig {
		return container.EndpointConfig{IPAMConfig: &container.IPAMConfig{IPv4Address: ip}}
	}
	for _, tc := range []struct {
		ref  string
		n    *network.Network
		cfg  container.EndpointConfig
		kind fault.Constructor
		text string
	}{
		{"nobody", n, container.EndpointConfig{}, fault.NotFound, "No such container: nobody"},
		{"web", builtin["bridge"], container.EndpointConfig{}, fault.Forbidden, "endpoint with name web already exists in network bridge"},
		{"runs", builtin["bridge"], container.EndpointConfig{}, fault.Forbidden, "endpoint with name runs already exists in network bridge"},
		{"web", builtin["host"], container.EndpointConfig{}, fault.Invalid, "connected to host network"},
		{"web", builtin["none"], container.EndpointConfig{}, fault.Invalid, "private (none) mode"},
		{"alone", n, container.EndpointConfig{}, fault.Invalid, "private (none) mode"},
		{"onhost", n, container.EndpointConfig{}, fault.Invalid, "sharing network namespace"},
		{"shares", n, container.EndpointConfig{}, fault.Invalid, "sharing network namespace"},
		{"web", n, address("10.11.0.1"), fault.Invalid, "no configured subnet or ip-range contain the IP address 10.11.0.1"},
		{"runs", n, address("nonsense"), fault.Invalid, "invalid IPv4 address"},
		{"web", n, container.EndpointConfig{Links: []string{"a:b:c"}}, fault.Invalid, "bad format for links"},
	} {
		err := m.Networks().ConnectNetwork(t.Context(), tc.ref, tc.n, tc.cfg)
		if !fault.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.text) {
			t.Errorf("connect of %s to %s: %v, want %q", tc.ref, tc.n.Name, err, tc.text)
		}
	}
	for _, tc := range []struct {
		ref   string
		n     *network.Network
		force bool
		kind  fault.Constructor // nil: no error
		text  string
	}{
		{"nobody", n, false, fault.NotFound, "No such container: nobody"},
		{"nobody", n, true, nil, ""},
		{"web", n, false, fault.NotFound, "container web is not connected to network n"},
		{"runs", n, true, fault.NotFound, "container runs is not connected to network n"},
		{"onhost", builtin["host"], false, fault.Invalid, "disconnected from host network"},
	} {
		err := m.Networks().DisconnectNetwork(t.Context(), tc.ref, tc.n, tc.force)
		if tc.kind == nil && err != nil || tc.kind != nil && (!fault.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.text)) {
			t.Errorf("disconnect of %s from %s: %v, want %q", tc.ref, tc.n.Name, err, tc.text)
		}
	}
	w.must(m.Networks().DisconnectNetwork(t.Context(), "alone", builtin["none"], false))
	w.must(m.Networks().ConnectNetwork(t.Context(), "alone", n, container.EndpointConfig{}))
	w.must(m.Start(t.Context(), "alone"))
	if record, places := w.in(m, "alone"); !slices.Equal(record, []string{"n"}) || !slices.Equal(places, record) {
		t.Errorf("networks = %v, places = %v, want n", record, places)
	}
	w.must(m.Kill(t.Context(), "alone", ""))
	w.must(m.Kill(t.Context(), "runs", ""))
}

// TestLiveWithoutNetwork: a container that was started with none can be taken out of that, and be connected after a stop.
func TestLiveWithoutNetwork(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	n, none := w.nets.add("n", 10), must(w.nets.Find("none"))
	w.createIn(m, "web", "none", nil)
	w.must(m.Start(t.Context(), "web"))
	if want := []string{"connect:none:null"}; !slices.Equal(w.log.nets(), want) {
		t.Errorf("events = %v, want %v", w.log.nets(), want)
	}
	w.must(m.Networks().DisconnectNetwork(t.Context(), "web", none, false))
	if err := m.Networks().ConnectNetwork(t.Context(), "web", n, container.EndpointConfig{}); !fault.Is(err, fault.Conflict) {
		t.Errorf("connect: %v, want fault.Conflict", err)
	}
	if record, places := w.in(m, "web"); len(record)+len(places) > 0 {
		t.Errorf("networks = %v, places = %v, want none", record, places)
	}
	w.must(m.Stop(t.Context(), "web", container.StopOptions{Timeout: new(killWait)}))
	w.must(m.Networks().ConnectNetwork(t.Context(), "web", n, container.EndpointConfig{}))
}

// TestConnectUndone: whatever goes wrong, the container has what it had.
func TestConnectUndone(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	n, more := w.nets.add("n", 10), w.nets.add("more", 11)
	id := w.createIn(m, "web", "n", nil)
	w.must(m.Start(t.Context(), "web"))
	c, before := must(m.index.find("web")), must(json.Marshal(must(m.inventory.Get("web")).Network))
	dir := c.dir
	for _, tc := range []struct {
		name  string
		spoil func()
	}{
		{"network", func() { w.nets.refuse = map[string]error{"connect": errors.New("no"), "disconnect": errors.New("no")} }},
		{"record", func() { c.dir = dir + "/none" }},
	} {
		tc.spoil()
		if err := m.Networks().ConnectNetwork(t.Context(), "web", more, container.EndpointConfig{}); err == nil {
			t.Errorf("%s: connected", tc.name)
		}
		if err := m.Networks().DisconnectNetwork(t.Context(), "web", n, false); err == nil {
			t.Errorf("%s: disconnected", tc.name)
		}
		w.nets.refuse, c.dir = nil, dir
		r := must(m.inventory.Get("web"))
		if after := must(json.Marshal(r.Network)); string(after) != string(before) || len(r.Endpoints) != 1 {
			t.Errorf("%s: network = %s, want %s", tc.name, after, before)
		}
		if asked := w.nets.requests[id].Attach; len(asked) != 1 || asked[0].Name != "n" {
			t.Errorf("%s: places = %+v, want one", tc.name, asked)
		}
	}
	saved, _, err := m.records.readRecord(id)
	w.must(err)
	if saved.Network.Leaving != "" {
		t.Errorf("the record says that it leaves %s", saved.Network.Leaving)
	}
	w.must(m.Kill(t.Context(), "web", ""))
}

// TestRenewalInterrupted: the next engine renews the files of a container whose networks the last one had changed.
func TestRenewalInterrupted(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	n := w.nets.add("n", 10)
	w.create(m, "web")
	w.must(m.Start(t.Context(), "web"))
	c := must(m.index.find("web"))
	files := map[string][]byte{}
	for _, path := range []string{c.record().HostsPath, c.record().ResolvConf} {
		files[path] = must(os.ReadFile(path))
	}
	etc := must(etcOf(c.record()))
	w.must(m.Networks().ConnectNetwork(t.Context(), "web", n, container.EndpointConfig{}))
	for _, before := range []bool{false, true} {
		for path, content := range files {
			if before {
				w.must(os.WriteFile(path, content, 0o600))
			}
		}
		c.update(func(r *container.Record) { r.Network.Etc = etc })
		w.must(c.saveRecord(true))
		m.Close()
		m = w.engine()
		c = must(m.index.find("web"))
		resolv := must(os.ReadFile(c.record().ResolvConf))
		if hosts := w.hosts(m, "web"); strings.Count(hosts, "10.10.0.2\t") != 1 || string(resolv) != "nameserver 127.0.0.11\noptions ndots:0\n" {
			t.Errorf("hosts = %q, resolv.conf = %q, files as before: %t", hosts, resolv, before)
		}
		if c.record().Network.Etc != nil {
			t.Error("the renewal is still to be done")
		}
	}
	w.must(m.Kill(t.Context(), "web", ""))
}

// TestDisconnectInterrupted: the next engine goes on with a disconnect that the last one had begun.
func TestDisconnectInterrupted(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	n := w.nets.add("n", 10)
	w.createIn(m, "web", "bridge", map[string]container.EndpointConfig{"bridge": {}, "n": {}})
	w.must(m.Start(t.Context(), "web"))
	c := must(m.index.find("web"))
	c.update(func(r *container.Record) { r.Network.Leaving = n.ID })
	w.must(c.saveRecord(true))
	m.Close()
	m = w.engine()
	record, places := w.in(m, "web")
	if !slices.Equal(record, []string{"bridge"}) || !slices.Equal(places, record) || must(m.inventory.Get("web")).Network.Leaving != "" {
		t.Errorf("networks = %v, places = %v, want the default one", record, places)
	}
	w.must(m.Kill(t.Context(), "web", ""))
}

// TestConnectMeetsExit: a container may end while it is being connected; nothing of it is left in the network.
func TestConnectMeetsExit(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			end := make(chan struct{})
			w.tasks.Script = func(task.Spec, *tasktest.Proc) int { <-end; return 0 }
			m := w.engine()
			n := w.nets.add("n", 10)
			id := w.create(m, "web")
			w.must(m.Start(t.Context(), "web"))
			go close(end)
			w.must(m.Networks().ConnectNetwork(t.Context(), "web", n, container.EndpointConfig{}))
			must(m.inventory.Wait(t.Context(), "web"))
			synctest.Wait()
			record, places := w.in(m, "web")
			if !slices.Equal(record, []string{"bridge", "n"}) || len(places) > 0 || len(w.nets.joined[id].Endpoints) > 0 {
				t.Errorf("networks = %v, places = %v, left %v", record, places, w.nets.joined)
			}
			m.Close()
		})
	}
}
