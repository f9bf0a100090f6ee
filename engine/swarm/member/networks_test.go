package member

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/moby/swarmkit/v2/api"

	"moss/engine/fault"
	"moss/engine/swarm/provider"
)

// ingress waits for the network of published ports and returns its subnet.
func ingress(t *testing.T, m *Member) string {
	t.Helper()
	control, err := m.Control()
	if err != nil {
		t.Fatal(err)
	}
	subnet := ""
	await(t, "the ingress network has a subnet", func() bool {
		list, err := control.ListNetworks(t.Context(), &api.ListNetworksRequest{})
		if err == nil && len(list.Networks) == 1 && list.Networks[0].IPAM != nil {
			subnet = list.Networks[0].IPAM.Configs[0].Subnet
		}
		return subnet != ""
	})
	return subnet
}

// wantData looks at the address for the networks between nodes.
func wantData(t *testing.T, m *Member, want string) {
	t.Helper()
	if p, err := m.Place(); err != nil || p.Data.String() != want {
		t.Errorf("Place: got %+v, %v, want %s", p, err, want)
	}
}

// TestPool makes a swarm with a pool, and starts its node again with another setting: the swarm's record counts.
func TestPool(t *testing.T) {
	t.Parallel()
	opt := options(t)
	opt.Pool = "10.77.0.0/16,26"
	opt.Taken = func() []provider.Taken {
		return []provider.Taken{{Prefix: netip.MustParsePrefix("10.77.0.0/25"), Holder: `node "n"`}}
	}
	m := open(t, opt)
	id, _ := initSwarm(t, m, InitOptions{DataPathAddr: "127.0.0.9"})
	if got := ingress(t, m); got != "10.77.0.128/26" {
		t.Errorf("the ingress network has %s, want the first subnet that no node has a route to", got)
	}
	if c := cluster(t, m); !slices.Equal(c.DefaultAddressPool, []string{"10.77.0.0/16"}) || c.SubnetSize != 26 {
		t.Errorf("the swarm's record: %v, %d", c.DefaultAddressPool, c.SubnetSize)
	}
	spec := &api.NetworkSpec{IPAM: &api.IPAMOptions{Configs: []*api.IPAMConfig{{Subnet: "10.77.0.0/24"}}}}
	wantFault(t, "CheckNetwork", m.Networks().CheckNetwork(spec, nil), fault.Conflict, `node "n"`)
	wantData(t, m, "127.0.0.9")
	m.Close()
	opt.Pool = "10.78.0.0/16"
	next := open(t, opt)
	await(t, "the node is back", func() bool { return next.Status().ControlAvailable })
	wantData(t, next, "127.0.0.9")
	control, err := next.Control()
	if err != nil {
		t.Fatal(err)
	}
	await(t, "a network has a subnet", func() bool {
		_, err := control.CreateNetwork(t.Context(), &api.CreateNetworkRequest{Spec: &api.NetworkSpec{
			Annotations: api.Annotations{Name: "back"}, DriverConfig: &api.Driver{Name: provider.Driver},
		}})
		return err == nil
	})
	await(t, "a network has a subnet of the swarm's pool", func() bool {
		list, err := control.ListNetworks(t.Context(), &api.ListNetworksRequest{})
		return err == nil && slices.ContainsFunc(list.Networks, func(n *api.Network) bool {
			return n.Spec.Annotations.Name == "back" && n.IPAM != nil && n.IPAM.Configs[0].Subnet == "10.77.0.192/26"
		})
	})
	await(t, "the node has an address in the ingress network", func() bool {
		got, err := control.GetNode(t.Context(), &api.GetNodeRequest{NodeID: id})
		return err == nil && len(got.Node.Attachments) == 1
	})
}

// TestDefaultPoolIsRecorded looks that a swarm goes on with its pool whatever the default of a later version is.
func TestDefaultPoolIsRecorded(t *testing.T) {
	t.Parallel()
	m := open(t, options(t))
	initSwarm(t, m, InitOptions{})
	if c := cluster(t, m); !slices.Equal(c.DefaultAddressPool, []string{provider.DefaultPool}) || c.SubnetSize != 24 {
		t.Errorf("the swarm's record: %v, %d", c.DefaultAddressPool, c.SubnetSize)
	}
	if got := ingress(t, m); got != "10.208.0.0/24" {
		t.Errorf("the ingress network has %s", got)
	}
	wantData(t, m, "127.0.0.1")
}

func TestParsePool(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": provider.DefaultPool + " 24", "10.9.0.0/16": "10.9.0.0/16 24", " 10.9.0.0/16 , 28": "10.9.0.0/16 28", //nolint:gocritic // the spaces are what is read
		",20": provider.DefaultPool + " 20",
	} {
		c, err := ParsePool(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := strings.Join(c.DefaultAddrPool, "+") + fmt.Sprint(" ", c.SubnetSize); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
	for _, text := range []string{
		"x", "10.9.0.0", "10.9.0.0/16,", "10.9.0.0/16,x", "10.9.0.0/16,0", "10.9.0.0/16,30", "10.9.0.0/16,300", "fd00::/48",
	} {
		if _, err := ParsePool(text); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: got %v, want a refusal", text, err)
		}
	}
}

func TestWrongNetworkOptions(t *testing.T) {
	t.Parallel()
	opt := options(t)
	opt.Pool = "10.9.0.1/16"
	m := open(t, opt)
	_, err := m.Init(t.Context(), InitOptions{ListenAddr: "127.0.0.1:" + freePort(t)})
	wantFault(t, "a pool with bits behind it", err, fault.Invalid, "swarm-pool")
	for text, words := range map[string]string{
		"192.0.2.99": "is not an address of this host", "127.0.0.1:4789": "without a port", "0.0.0.0": "non-zero",
		"nosuch0": "an IP address or a network interface",
	} {
		_, err := m.Init(t.Context(), InitOptions{ListenAddr: "127.0.0.1:" + freePort(t), DataPathAddr: text})
		wantFault(t, "Init with DataPathAddr "+text, err, fault.Invalid, words)
		err = m.Join(t.Context(), JoinOptions{DataPathAddr: text, RemoteAddrs: []string{"127.0.0.1"}})
		wantFault(t, "Join with DataPathAddr "+text, err, fault.Invalid, words)
	}
}
