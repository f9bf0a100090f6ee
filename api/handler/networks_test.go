package handler_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/network"
)

// networks is a fake that records the last call. Its one container is web.
type networks struct {
	said string
	err  error
}

func (f *networks) one() *network.Network {
	return &network.Network{
		ID: "6b", Name: "blue", Driver: "bridge", Created: time.Unix(1448064000, 0), Internal: true, EnableIPv6: true,
		IPAM: network.IPAM{Driver: "default", Options: map[string]string{"o": "p"}, Pools: []network.Pool{{
			Subnet: netip.MustParsePrefix("10.1.0.0/16"), Range: netip.MustParsePrefix("10.1.2.0/24"), Gateway: netip.MustParseAddr("10.1.0.1"),
			Aux: map[string]netip.Addr{"r": netip.MustParseAddr("10.1.0.9")},
		}}},
		Options: map[string]string{"k": "v"}, Labels: map[string]string{"a": "1"},
	}
}

func (f *networks) FindAmong(ref, scope string, cluster []*network.Network) (*network.Network, error) {
	f.said = strings.TrimSpace("find " + ref + " " + scope)
	for _, n := range cluster {
		if n.Name == ref || n.ID == ref {
			return n, nil
		}
	}
	return f.one(), f.err
}

func (f *networks) List(filters map[string][]string, cluster []*network.Network, _ func(string) bool) ([]*network.Network, error) {
	f.said = fmt.Sprintf("list %v", filters)
	return append([]*network.Network{f.one()}, cluster...), f.err
}

func (f *networks) Create(_ context.Context, opt network.CreateOptions) (*network.Network, string, error) {
	f.said = fmt.Sprintf("create %+v", opt)
	return f.one(), "mind", f.err
}

func (f *networks) Remove(_ context.Context, ref string) error {
	f.said = "remove " + ref
	return f.err
}

func (f *networks) Prune(ctx context.Context, filters map[string][]string, opt network.PruneOptions) ([]string, error) {
	f.said = fmt.Sprintf("prune %v used=%v", filters, opt.Used("6b"))
	if f.err != nil {
		return nil, f.err
	}
	removed := []string{"blue"}
	for _, n := range opt.Cluster {
		if err := opt.RemoveCluster(ctx, n.ID); err == nil {
			removed = append(removed, n.Name)
		} else if !fault.Is(err, fault.Conflict) {
			return removed, err
		}
	}
	return removed, nil
}

func (f *networks) ConnectNetwork(_ context.Context, ref string, n *network.Network, cfg container.EndpointConfig) error {
	raw, err := json.Marshal(cfg)
	f.said = fmt.Sprintf("connect %s to %s %s", ref, n.Name, raw)
	return err
}

func (f *networks) DisconnectNetwork(_ context.Context, ref string, n *network.Network, force bool) error {
	f.said = fmt.Sprintf("disconnect %s from %s force=%v", ref, n.Name, force)
	return nil
}

func (f *networks) NetworkMembers(networkID string) []*container.Record {
	return []*container.Record{{ID: "4fa6e0", Name: "web", Network: container.Network{Sandbox: network.Sandbox{Endpoints: map[string]network.Endpoint{
		"bridge": {NetworkID: "5a", EndpointID: "5b", IPAddress: "172.17.0.2"},
		"blue": {
			NetworkID: networkID, EndpointID: "7c", IPAddress: "10.1.2.1", IPPrefixLen: 16, GlobalIPv6Address: "fd00::2", GlobalIPv6PrefixLen: 64,
			MacAddress: "02:42:0a:01:02:01",
		},
	}}}}}
}

func (f *networks) UsesNetwork(networkID string) bool { return networkID == "6b" }

// TestLaterNetworks: what versions after 1.24 do otherwise.
func TestLaterNetworks(t *testing.T) {
	for _, tc := range []struct {
		method, path, body string
		status             int
		said, answer       string
	}{
		{http.MethodGet, "/v1.27/networks", "", 200, "list map[]", `"Containers":{"4fa6e0":`},
		{http.MethodGet, "/v1.28/networks", "", 200, "list map[]", `"Containers":{},`},
		{http.MethodGet, "/v1.51/networks/blue", "", 200, "find blue", `"Containers":{"4fa6e0":`},
		{http.MethodDelete, "/v1.25/networks/blue", "", 204, "remove 6b", ""},
		{http.MethodPost, "/v1.43/networks/create", `{"Name":"n"}`, 201, "create {Name:n CheckDuplicate:false", ""},
		{http.MethodPost, "/v1.44/networks/create", `{"Name":"n"}`, 201, "create {Name:n CheckDuplicate:true", ""},
	} {
		a := newAPI(t)
		status, answer := a.ask(tc.method, tc.path, tc.body)
		if status != tc.status || !strings.HasPrefix(a.networks.said, tc.said) || !strings.Contains(answer, tc.answer) {
			t.Errorf("%s %s %s: %d %s, asked for %q; want %d %s, %q", tc.method, tc.path, tc.body, status, answer, a.networks.said, tc.status, tc.answer, tc.said)
		}
	}
}

func TestNetworks(t *testing.T) {
	const (
		ipam  = `{"Subnet":"10.1.0.0/16","IPRange":"10.1.2.0/24","Gateway":"10.1.0.1","AuxAddress":{"r":"10.1.0.9"},"AuxiliaryAddresses":{"r":"10.1.0.9"}}`
		ends  = `"EndpointID":"7c","MacAddress":"02:42:0a:01:02:01","IPv4Address":"10.1.2.1/16","IPv6Address":"fd00::2/64"}}`
		first = `{"Name":"blue","Id":"6b","Created":"2015-11-21T00:00:00Z","Scope":"local","Driver":"bridge",`

		at24 = first + `"EnableIPv6":true,"IPAM":{"Driver":"default","Options":{"o":"p"},"Config":[` + ipam +
			`]},"Internal":true,"Containers":{"4fa6e0":{NAME` + ends + `,"Options":{"k":"v"},"Labels":{"a":"1"}}`
		at22 = first + `"IPAM":{"Driver":"default","Options":{"o":"p"},"Config":[` + ipam + `]},"Internal":true,"Containers":{"4fa6e0":{NAME` + ends + `,"Options":{"k":"v"}}`
		at21 = first + `"IPAM":{"Driver":"default","Config":[` + ipam + `]},"Containers":{"4fa6e0":{NAME` + ends + `,"Options":{"k":"v"}}`

		whole = `{"Name":"n","CheckDuplicate":true,"Driver":"bridge","Internal":true,"EnableIPv6":true,"Options":{"k":"v"},"Labels":{"a":"1"},"Attachable":true,
			"IPAM":{"Driver":"default","Options":{"o":"p"},"Config":[{"Subnet":"10.0.0.0/8","IPRange":"10.1.0.0/16","Gateway":"10.0.0.1","AuxAddress":"h:10.0.0.2"},
			{"AuxAddress":{"a":"1"},"AuxiliaryAddresses":{"a":"1","b":"2"}}]}}`
		pools   = `Pools:[{Subnet:10.0.0.0/8 Range:10.1.0.0/16 Gateway:10.0.0.1 Aux:map[h:10.0.0.2]} {Subnet: Range: Gateway: Aux:map[a:1 b:2]}]}`
		connect = `{"Container":"web","EndpointConfig":{"IPAMConfig":{"IPv4Address":"10.1.2.3","IPv6Address":"fd00::3"},"Aliases":["w"],"Links":["db:d"],"MacAddress":"02:00:00:00:00:01"}}`
		asked   = `{"NetworkID":"","IPAMConfig":{"IPv4Address":"10.1.2.3","IPv6Address":"fd00::3","LinkLocalIPs":null},"Links":["db:d"],"Aliases":["w"],"MacAddress":"02:00:00:00:00:01","GwPriority":0,"DriverOpts":null}`
		nothing = `{"NetworkID":"","IPAMConfig":null,"Links":null,"Aliases":null,"MacAddress":"","GwPriority":0,"DriverOpts":null}`
	)
	named := func(s, name string) string { return strings.Replace(s, "NAME", name, 1) }
	for _, tc := range []struct {
		method, path, body string
		status             int
		said, answer       string
	}{
		{http.MethodGet, "/v1.24/networks", "", 200, "list map[]", "[" + named(at24, "") + "]"},
		{http.MethodGet, "/v1.22/networks", "", 200, "list map[]", "[" + named(at22, "") + "]"},
		{http.MethodGet, "/v1.21/networks", "", 200, "list map[]", "[" + named(at21, "") + "]"},
		{http.MethodGet, "/v1.20/networks", "", 404, "", ""},
		{http.MethodGet, "/v1.24/networks?filters=x", "", 500, "", ""},
		{http.MethodGet, "/v1.24/networks/blue", "", 200, "find blue", named(at24, `"Name":"web",`)},
		{http.MethodGet, "/v1.22/networks/blue", "", 200, "find blue", named(at22, `"Name":"web",`)},
		{http.MethodGet, "/v1.21/networks/blue", "", 200, "find blue", named(at21, "")},
		{http.MethodGet, "/v1.20/networks/blue", "", 404, "", ""},
		{http.MethodGet, "/v1.24/networks/blue?scope=swarm&verbose=false", "", 200, "find blue swarm", ""},
		{
			http.MethodPost, "/v1.24/networks/create", whole, 201, "create {Name:n CheckDuplicate:true Driver:bridge Internal:true Attachable:true EnableIPv6:true " +
				"IPAM:{Driver:default Options:map[o:p] " + pools + " Options:map[k:v] Labels:map[a:1] ConfigOnly:false ConfigFrom:}", `{"Id":"6b","Warning":"mind"}`,
		},
		{
			http.MethodPost, "/v1.22/networks/create", whole, 201, "create {Name:n CheckDuplicate:true Driver:bridge Internal:true Attachable:true EnableIPv6:false " +
				"IPAM:{Driver:default Options:map[o:p] " + pools + " Options:map[k:v] Labels:map[] ConfigOnly:false ConfigFrom:}", "",
		},
		{
			http.MethodPost, "/v1.21/networks/create", whole, 201, "create {Name:n CheckDuplicate:true Driver:bridge Internal:false Attachable:true EnableIPv6:false " +
				"IPAM:{Driver:default Options:map[] " + pools + " Options:map[k:v] Labels:map[] ConfigOnly:false ConfigFrom:}", "",
		},
		{http.MethodPost, "/v1.24/networks/create", `{"Name":[]}`, 500, "", ""},
		{http.MethodPost, "/v1.24/networks/create", `{"IPAM":{"Config":[{"AuxAddress":7}]}}`, 500, "", ""},
		{http.MethodPost, "/v1.24/networks/create", `{"IPAM":{"Config":[{"AuxAddress":"x"}]}}`, 500, "", ""},
		{http.MethodPost, "/v1.24/networks/create", `{"IPAM":{"Config":[{"AuxAddress":{"a":"1"},"AuxiliaryAddresses":{"a":"2"}}]}}`, 500, "", ""},
		{http.MethodPost, "/v1.24/networks/create", `{"Name":"n","EnableIPv4":false}`, 501, "", ""},
		{http.MethodPost, "/v1.24/networks/create", `{"Name":"n","Scope":"swarm"}`, 501, "", ""},
		{http.MethodPost, "/v1.24/networks/create", `{"Name":"n","Ingress":true}`, 501, "", ""},
		{
			http.MethodPost, "/v1.24/networks/create", `{"Name":"n","ConfigOnly":true,"ConfigFrom":{"Network":"m"}}`, 201,
			"create {Name:n CheckDuplicate:false Driver: Internal:false Attachable:false EnableIPv6:false IPAM:{Driver: Options:map[] Pools:[]} " +
				"Options:map[] Labels:map[] ConfigOnly:true ConfigFrom:m}", "",
		},
		{http.MethodPost, "/v1.20/networks/create", whole, 404, "", ""},
		{http.MethodPost, "/v1.24/networks/blue/connect", connect, 200, "connect web to blue " + asked, ""},
		{http.MethodPost, "/v1.22/networks/blue/connect", connect, 200, "connect web to blue " + asked, ""},
		{http.MethodPost, "/v1.21/networks/blue/connect", connect, 200, "connect web to blue " + nothing, ""},
		{
			http.MethodPost, "/v1.24/networks/blue/connect", `{"Container":"web","EndpointConfig":{"EndpointID":"7c","MacAddress":"02:42:0a:01:02:01"}}`, 200,
			"connect web to blue " + nothing, "",
		},
		{http.MethodPost, "/v1.24/networks/blue/connect", `{}`, 500, "", ""},
		{http.MethodPost, "/v1.24/networks/blue/connect", `{"Container":`, 500, "", ""},
		{http.MethodPost, "/v1.20/networks/blue/connect", connect, 404, "", ""},
		{http.MethodPost, "/v1.24/networks/blue/disconnect", `{"Container":"web","Force":true}`, 200, "disconnect web from blue force=true", ""},
		{http.MethodPost, "/v1.22/networks/blue/disconnect", `{"Container":"web","Force":true}`, 200, "disconnect web from blue force=true", ""},
		{http.MethodPost, "/v1.21/networks/blue/disconnect", `{"Container":"web","Force":true}`, 200, "disconnect web from blue force=false", ""},
		{http.MethodPost, "/v1.24/networks/blue/disconnect", "", 500, "", ""},
		{http.MethodPost, "/v1.20/networks/blue/disconnect", `{}`, 404, "", ""},
		{http.MethodDelete, "/v1.24/networks/blue", "", 200, "remove 6b", ""},
		{http.MethodDelete, "/v1.20/networks/blue", "", 404, "", ""},
		{
			http.MethodPost, "/v1.18/networks/prune?filters=%7B%22label%22%3A%5B%22a%22%5D%7D", "", 200, "prune map[label:[a]] used=true",
			`{"NetworksDeleted":["blue"]}`,
		},
		{http.MethodPost, "/v1.24/networks/prune?filters=x", "", 400, "", ""},
	} {
		a := newAPI(t)
		status, answer := a.ask(tc.method, tc.path, tc.body)
		if status != tc.status || a.networks.said != tc.said || tc.answer != "" && strings.TrimSpace(answer) != tc.answer {
			t.Errorf("%s %s %s: %d %s, asked for %q; want %d %s, %q", tc.method, tc.path, tc.body, status, answer, a.networks.said, tc.status, tc.answer, tc.said)
		}
	}
}

func TestNetworkErrors(t *testing.T) {
	a := newAPI(t)
	for _, tc := range []struct {
		err    error
		status int
	}{
		{network.NoSuch("blue"), 404},
		{fault.Forbidden("bridge is a pre-defined network and cannot be removed"), 403},
		{fault.Conflict("network with name blue already exists"), 409},
		{fault.Invalid("invalid subnet"), 400},
		{fault.Internal("broken"), 500},
	} {
		a.networks.err = tc.err
		for _, call := range [][3]string{
			{http.MethodGet, "/v1.24/networks"},
			{http.MethodGet, "/v1.24/networks/blue"},
			{http.MethodPost, "/v1.24/networks/create", `{"Name":"blue"}`},
			{http.MethodPost, "/v1.24/networks/blue/connect", `{"Container":"web"}`},
			{http.MethodPost, "/v1.24/networks/blue/disconnect", `{"Container":"web"}`},
			{http.MethodDelete, "/v1.24/networks/blue"},
			{http.MethodPost, "/v1.24/networks/prune"},
		} {
			want := tc.status
			if want == 400 && !strings.HasSuffix(call[1], "/prune") {
				want = 500 // the documents list no 400
			}
			status, answer := a.ask(call[0], call[1], call[2])
			if status != want || field(t, answer, "message") != tc.err.Error() {
				t.Errorf("%s %s: %d %s, want %d", call[0], call[1], status, answer, want)
			}
		}
	}
}

// TestNetworkFiltersByVersion has 500, since the documents list no 400, for the filters that a version does not have.
func TestNetworkFiltersByVersion(t *testing.T) {
	a := newAPI(t)
	for _, tc := range []struct{ key, before, first string }{
		{"name", "", "1.21"}, {"id", "", "1.21"}, {"type", "1.21", "1.22"}, {"driver", "1.23", "1.24"}, {"label", "1.23", "1.24"},
	} {
		query := fmt.Sprintf("/networks?filters=%%7B%%22%s%%22%%3A%%5B%%22x%%22%%5D%%7D", tc.key)
		if tc.before != "" {
			if status, body := a.ask("GET", "/v"+tc.before+query, ""); status != 500 || !strings.Contains(body, tc.key) {
				t.Errorf("%s at %s = %d %q, want 500 naming it", tc.key, tc.before, status, body)
			}
		}
		if status, body := a.ask("GET", "/v"+tc.first+query, ""); status != 200 {
			t.Errorf("%s at %s = %d %q, want 200", tc.key, tc.first, status, body)
		}
	}
}
