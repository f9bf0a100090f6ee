package arg_test

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"moss/cmd/moss/arg"
)

func TestNetwork(t *testing.T) {
	for text, want := range map[string]string{
		"mine":                                  `mine {}`,
		"host":                                  `host {}`,
		"container:x":                           `container:x {}`,
		"name=mine":                             `mine {}`,
		"alias=a,name=mine,alias=b,ip=10.0.0.2": `mine {"IPAMConfig":{"IPv4Address":"10.0.0.2"},"Aliases":["a","b"]}`,
		"name=mine,IP6=fd00::2,link-local-ip=fe80::2": `mine {"IPAMConfig":{"IPv6Address":"fd00::2","LinkLocalIPs":["fe80::2"]}}`,
		"name=mine, mac-address=02:00:00:00:00:01":    `mine {"MacAddress":"02:00:00:00:00:01"}`,
		"": "!", "a,b": "!", "name=": "!", "alias=x": "!", "name=a,name=b": "!", "name=a,ip=1.2.3.4,ip=1.2.3.5": "!", "name=a,": "!",
		"name=a,b": "!", "name=a,ip=fd00::1": "!", "name=a,ip6=1.2.3.4": "!", "name=a,ip6=::ffff:1.2.3.4": "!", "name=a,ip6=fe80::1%eth0": "!",
		"name=a,mac-address=01:00:00:00:00:01": "!", "name=a,mac-address=02-00": "!", "name=a,link-local-ip=x": "!", "name=a,driver-opt=x": "!",
	} {
		name, endpoint, err := arg.Network(text)
		if want == "!" {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("Network(%q) = %s, %v, want an error that names it", text, name, err)
			}
			continue
		}
		raw, merr := json.Marshal(endpoint)
		if got := name + " " + string(raw); err != nil || merr != nil || got != want {
			t.Errorf("Network(%q) = %s, %v, want %s", text, got, err, want)
		}
	}
}

func FuzzNetwork(f *testing.F) {
	for _, seed := range []string{"mine", "name=mine,alias=a,ip=10.0.0.2,ip6=fd00::2", "name=a,mac-address=02:00:00:00:00:01", "=,=,name"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		name, endpoint, err := arg.Network(text)
		if err != nil {
			return
		}
		if name == "" {
			t.Errorf("Network(%q) names no network", text)
		}
		if ipam := endpoint.IPAMConfig; ipam != nil && ipam.IPv4Address != "" && !netip.MustParseAddr(ipam.IPv4Address).Is4() {
			t.Errorf("Network(%q) has the IPv4 address %s", text, ipam.IPv4Address)
		}
	})
}

func TestPools(t *testing.T) {
	list := strings.Fields
	for name, tc := range map[string]struct {
		flags arg.PoolFlags
		want  string
	}{
		"nothing": {arg.PoolFlags{}, `null`},
		"each to its subnet": {
			arg.PoolFlags{Subnets: list("10.1.0.0/16 10.2.0.0/16"), Ranges: list("10.2.3.0/24"), Gateways: list("10.2.0.1 10.1.0.1"), Aux: list("a=10.1.0.2 a=10.2.0.2")},
			`[{"Subnet":"10.1.0.0/16","Gateway":"10.1.0.1","AuxiliaryAddresses":{"a":"10.1.0.2"}},{"Subnet":"10.2.0.0/16","IPRange":"10.2.3.0/24","Gateway":"10.2.0.1","AuxiliaryAddresses":{"a":"10.2.0.2"}}]`,
		},
		"no subnet":               {arg.PoolFlags{Gateways: list("10.1.0.1")}, "! require a --subnet"},
		"a subnet that is none":   {arg.PoolFlags{Subnets: list("10.1.0.0")}, `! subnet "10.1.0.0"`},
		"overlapping subnets":     {arg.PoolFlags{Subnets: list("10.1.0.0/16 10.1.2.0/24")}, "! overlap"},
		"a gateway outside":       {arg.PoolFlags{Subnets: list("10.1.0.0/24"), Gateways: list("10.1.1.1")}, "! gateway 10.1.1.1 is in no --subnet"},
		"a gateway that is none":  {arg.PoolFlags{Subnets: list("10.1.0.0/24"), Gateways: list("x")}, `! gateway "x"`},
		"two gateways":            {arg.PoolFlags{Subnets: list("10.1.0.0/24"), Gateways: list("10.1.0.1 10.1.0.2")}, "! two values of --gateway"},
		"a range outside":         {arg.PoolFlags{Subnets: list("10.1.0.0/24"), Ranges: list("10.2.0.0/25")}, "! ip-range"},
		"a range that is larger":  {arg.PoolFlags{Subnets: list("10.1.0.0/24"), Ranges: list("10.1.0.0/23")}, "! ip-range"},
		"a range that is none":    {arg.PoolFlags{Subnets: list("10.1.0.0/24"), Ranges: list("10.1.0.1")}, "! ip-range"},
		"two ranges":              {arg.PoolFlags{Subnets: list("10.1.0.0/24"), Ranges: list("10.1.0.0/25 10.1.0.128/25")}, "! two values of --ip-range"},
		"an address without name": {arg.PoolFlags{Subnets: list("10.1.0.0/24"), Aux: list("10.1.0.2")}, "! aux-address"},
		"an address outside":      {arg.PoolFlags{Subnets: list("10.1.0.0/24"), Aux: list("a=10.2.0.2")}, "! aux-address 10.2.0.2"},
		"a name twice":            {arg.PoolFlags{Subnets: list("10.1.0.0/24"), Aux: list("a=10.1.0.2 a=10.1.0.3")}, "! both 10.1.0.2 and 10.1.0.3"},
	} {
		pools, err := tc.flags.Pools()
		if text, wrong := strings.CutPrefix(tc.want, "! "); wrong {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: error %v, want %q in it", name, err, text)
			}
			continue
		}
		raw, merr := json.Marshal(pools)
		if err != nil || merr != nil || string(raw) != tc.want {
			t.Errorf("%s: %s, %v, want %s", name, raw, err, tc.want)
		}
	}
}

func FuzzPools(f *testing.F) {
	f.Add("10.1.0.0/24", "10.1.0.128/25", "10.1.0.1", "a=10.1.0.2")
	f.Add("fd00::/64", "fd00::1:0/112", "fd00::1", "a=::ffff:1.2.3.4")
	f.Fuzz(func(t *testing.T, subnet, part, gateway, aux string) {
		pools, err := arg.PoolFlags{Subnets: []string{subnet}, Ranges: []string{part}, Gateways: []string{gateway}, Aux: []string{aux}}.Pools()
		if err != nil {
			return
		}
		if len(pools) != 1 || !netip.MustParsePrefix(pools[0].Subnet).Contains(netip.MustParseAddr(pools[0].Gateway)) {
			t.Errorf("the subnet %q with the gateway %q makes %v", subnet, gateway, pools)
		}
	})
}
