package mesh

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/moby/swarmkit/v2/api"

	"moss/engine/swarm/provider"
	"moss/engine/swarm/table"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

// attached is a place in a network, as the allocator writes it down.
func attached(network string, addrs ...string) *api.NetworkAttachment {
	return &api.NetworkAttachment{Network: &api.Network{ID: network}, Addresses: addrs}
}

// nodeWith is a node that tells these labels of itself.
func nodeWith(labels map[string]string) *api.Node {
	return &api.Node{
		ID:     "n1",
		Status: api.NodeStatus{State: api.NodeStatus_READY},
		Description: &api.NodeDescription{
			Hostname: "alpha", Engine: &api.EngineDescription{Labels: labels},
		},
	}
}

func TestConvertNode(t *testing.T) {
	key := table.Key{1, 2, 3}
	n := nodeWith(map[string]string{
		labelKey: key.String(), labelData: "192.0.2.1:4789", labelRoutes: "192.0.2.0/24,10.1.2.3/16", "disk": "fast",
	})
	n.Spec.Annotations.Name = "as the user calls it"
	n.Attachments = []*api.NetworkAttachment{attached("red", "10.208.1.2/24"), attached("blue", "10.208.2.2/24", "10.208.2.3/24")}
	n.Attachment = attached("ingress", "10.208.0.2/24")
	got, routes := convertNode(n)
	want := table.Node{
		Name: "alpha", Ready: true, Key: key, Data: netip.MustParseAddrPort("192.0.2.1:4789"),
		Addrs: map[string]netip.Addr{"red": addr("10.208.1.2"), "blue": addr("10.208.2.2"), "ingress": addr("10.208.0.2")},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	taken := []provider.Taken{
		{Prefix: netip.MustParsePrefix("192.0.2.0/24"), Holder: `node "alpha"`},
		{Prefix: netip.MustParsePrefix("10.1.0.0/16"), Holder: `node "alpha"`},
	}
	if !reflect.DeepEqual(routes, taken) {
		t.Errorf("routes %v, want %v", routes, taken)
	}

	n.Description, n.Status.State = nil, api.NodeStatus_DOWN
	if got, routes = convertNode(n); got.Name != "as the user calls it" || got.Ready || len(routes) > 0 || got.Key != (table.Key{}) {
		t.Errorf("a node that has told nothing is %+v with the routes %v", got, routes)
	}
}

// TestLabelsOfAHostileNode: a node tells managers what it likes, and managers tell all others.
func TestLabelsOfAHostileNode(t *testing.T) {
	short := base64.StdEncoding.EncodeToString(make([]byte, 31))
	for _, key := range []string{"", "x", short, short + "AAAA", "\n", strings.Repeat("A", 1<<16)} {
		if n, _ := convertNode(nodeWith(map[string]string{labelKey: key})); n.Key != (table.Key{}) {
			t.Errorf("key %.80q is taken for %v", key, n.Key)
		}
	}
	for _, data := range []string{
		"", "192.0.2.1", ":4789", "host:4789", "192.0.2.1:0", "192.0.2.1:65536", "0.0.0.0:4789", "[::]:4789", "224.0.0.1:4789",
		"[ff02::1]:4789", "[fe80::1%eth0]:4789", "[::ffff:0.0.0.0]:4789",
		"[fe80::1%x]:1\nallowed_ip=0.0.0.0/0\nendpoint=[fe80::1%y]:4789", "192.0.2.1:4789\nreplace_peers=true",
	} {
		if n, _ := convertNode(nodeWith(map[string]string{labelData: data})); n.Data.IsValid() {
			t.Errorf("data address %q is taken for %s", data, n.Data)
		}
	}
	for data, want := range map[string]string{"[2001:db8::1]:4789": "[2001:db8::1]:4789", "[::ffff:192.0.2.1]:4789": "192.0.2.1:4789"} {
		if n, _ := convertNode(nodeWith(map[string]string{labelData: data})); n.Data.String() != want {
			t.Errorf("data address %q is taken for %s, want %s", data, n.Data, want)
		}
	}
	for _, routes := range []string{
		"", ",,,", "0.0.0.0/0", "8.0.0.0/7", "::/64", "10.0.0.0", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/8\n", " 10.0.0.0/8", "x",
	} {
		if _, got := convertNode(nodeWith(map[string]string{labelRoutes: routes})); len(got) > 0 {
			t.Errorf("routes %q are taken for %v", routes, got)
		}
	}
	many := make([]string, 0, mostRoutes+10)
	for i := range mostRoutes + 10 {
		many = append(many, fmt.Sprintf("10.%d.%d.0/24", i/256, i%256))
	}
	if _, got := convertNode(nodeWith(map[string]string{labelRoutes: strings.Join(many, ",")})); len(got) != mostRoutes {
		t.Errorf("%d routes of one node, want %d at most", len(got), mostRoutes)
	}
	n := nodeWith(map[string]string{labelRoutes: "192.0.2.0/24"})
	n.Description.Hostname = "a\"\nb" + strings.Repeat("c", 1000)
	if _, got := convertNode(n); len(got) != 1 || strings.Contains(got[0].Holder, "\n") || len(got[0].Holder) > 100 {
		t.Errorf("the holder of a route is %q", got[0].Holder)
	}
}

func TestConvertNetwork(t *testing.T) {
	made := func(subnet, gateway string) *api.Network {
		return &api.Network{
			ID: "red", Spec: api.NetworkSpec{Annotations: api.Annotations{Name: "front"}, Internal: true},
			IPAM: &api.IPAMOptions{Configs: []*api.IPAMConfig{{Subnet: subnet, Gateway: gateway}}},
		}
	}
	got, ok := convertNetwork(made("10.208.1.0/24", "10.208.1.1"))
	want := table.Network{
		Name: "front", Subnet: netip.MustParsePrefix("10.208.1.0/24"), Gateway: addr("10.208.1.1"), Internal: true,
	}
	if !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, ok, want)
	}
	ingress := made("10.208.0.0/24", "10.208.0.1")
	ingress.Spec.Ingress = true
	if got, ok := convertNetwork(ingress); !ok || !got.Ingress {
		t.Errorf("the ingress network is %+v, %v", got, ok)
	}
	for name, n := range map[string]*api.Network{
		"no addresses yet": {ID: "red"}, "no subnet yet": {IPAM: &api.IPAMOptions{}}, "no gateway yet": made("10.208.1.0/24", ""),
		"broken subnet": made("10.208.1.0", "10.208.1.1"), "broken gateway": made("10.208.1.0/24", "10.208.1.1/24"),
	} {
		if got, ok := convertNetwork(n); ok {
			t.Errorf("%s: %+v, want it left out", name, got)
		}
	}
}

func TestConvertService(t *testing.T) {
	s := &api.Service{
		Spec: api.ServiceSpec{
			Annotations: api.Annotations{Name: "web"},
			Endpoint:    &api.EndpointSpec{Mode: api.ResolutionModeDNSRoundRobin},
			Networks:    []*api.NetworkAttachmentConfig{{Target: "old", Aliases: []string{"not asked"}}},
			Task: api.TaskSpec{Networks: []*api.NetworkAttachmentConfig{
				{Target: "red", Aliases: []string{"www", "site"}}, {Target: "blue"},
			}},
		},
		Endpoint: &api.Endpoint{
			VirtualIPs: []*api.Endpoint_VirtualIP{
				{NetworkID: "red", Addr: "10.208.1.5/24"},
				{NetworkID: "blue", Addr: "10.208.2.5"},
				{NetworkID: "none yet"},
				{NetworkID: "broken", Addr: "10.208.3.5/99"},
				{NetworkID: "v6", Addr: "fd00::1%x/64"},
			},
			Ports: []*api.PortConfig{
				{Protocol: api.ProtocolTCP, PublishedPort: 8080, TargetPort: 80},
				{Protocol: api.ProtocolUDP, PublishedPort: 53, TargetPort: 5353},
				{Protocol: api.ProtocolSCTP, PublishedPort: 54, TargetPort: 54},
				{Protocol: api.ProtocolTCP, PublishedPort: 9000, TargetPort: 90, PublishMode: api.PublishModeHost},
				{Protocol: api.ProtocolTCP, TargetPort: 91},
				{Protocol: api.ProtocolTCP, PublishedPort: 1<<16 + 22, TargetPort: 22},
			},
		},
	}
	got := convertService(s)
	want := table.Service{
		Name: "web", DNSRR: true, VIPs: map[string]netip.Addr{"red": addr("10.208.1.5"), "blue": addr("10.208.2.5")},
		Aliases: map[string][]string{"red": {"www", "site"}},
		Ports:   []table.Port{{Proto: table.TCP, Published: 8080, Target: 80}, {Proto: table.UDP, Published: 53, Target: 5353}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	s.Spec.Task.Networks, s.Spec.Endpoint, s.Endpoint = nil, nil, nil
	want = table.Service{Name: "web", Aliases: map[string][]string{"old": {"not asked"}}}
	if got := convertService(s); !reflect.DeepEqual(got, want) {
		t.Errorf("as an older client sends it: got %+v, want %+v", got, want)
	}
}

func TestConvertTask(t *testing.T) {
	made := func(state, desired api.TaskState) *api.Task {
		return &api.Task{
			ID: "t1", ServiceID: "s1", NodeID: "n1", Slot: 3, Status: api.TaskStatus{State: state}, DesiredState: desired,
			Networks: []*api.NetworkAttachment{
				{Network: &api.Network{ID: "red"}, Addresses: []string{"10.208.1.7/24"}, Aliases: []string{"www"}},
				{Addresses: []string{"10.208.2.7/24"}},
				attached("blue"), attached("broken", "x"), attached("v6", "fd00::7/64"),
			},
		}
	}
	want := table.Task{
		Service: "s1", Node: "n1", Slot: 3, Ready: true,
		Attachments: map[string]table.Attachment{"red": {Addr: addr("10.208.1.7"), Aliases: []string{"www"}}},
	}
	if got, ok := convertTask(made(api.TaskStateRunning, api.TaskStateRunning)); !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, ok, want)
	}
	for state, name := range api.TaskState_name {
		task := made(api.TaskState(state), api.TaskStateRunning)
		got, ok := convertTask(task)
		in := task.Status.State >= api.TaskStateAssigned && task.Status.State <= api.TaskStateRunning
		if ok != in || got.Ready != (task.Status.State == api.TaskStateRunning) {
			t.Errorf("state %s: in %v, ready %v", name, ok, got.Ready)
		}
	}
	for _, desired := range []api.TaskState{api.TaskStateShutdown, api.TaskStateRemove, api.TaskStateCompleted} {
		if got, ok := convertTask(made(api.TaskStateRunning, desired)); !ok || got.Ready {
			t.Errorf("a task that is to be %s: in %v, ready %v, want it in and not ready", desired, ok, got.Ready)
		}
	}
	nobodys := made(api.TaskStateRunning, api.TaskStateRunning)
	nobodys.NodeID = ""
	if got, ok := convertTask(nobodys); ok {
		t.Errorf("a task without a node: %+v, want it left out", got)
	}
}

// FuzzLabels: whatever a node says of itself can be told to others as it is.
func FuzzLabels(f *testing.F) {
	f.Add("AAAA", "[fe80::1%x]:1\n:4789", "10.0.0.0/8,", "a\nb")
	f.Fuzz(func(t *testing.T, key, data, routes, name string) {
		n := nodeWith(map[string]string{labelKey: key, labelData: data, labelRoutes: routes})
		n.Description.Hostname = name
		got, taken := convertNode(n)
		if text := got.Data.String(); strings.ContainsAny(text, "\n%") || got.Data.IsValid() && netip.MustParseAddrPort(text) != got.Data {
			t.Errorf("data address %q is taken for %q", data, text)
		}
		if len(taken) > mostRoutes {
			t.Errorf("%d routes", len(taken))
		}
		for _, r := range taken {
			if r.Prefix.Bits() < shortestRoute || strings.Contains(r.Holder, "\n") {
				t.Errorf("route %v", r)
			}
		}
	})
}
