package network

import (
	"strings"
	"testing"

	"moss/engine/fault"
)

func pool(subnet string) IPAMRequest { return IPAMRequest{Pools: []PoolRequest{{Subnet: subnet}}} }

func within(ipRange, gateway string, aux map[string]string) IPAMRequest {
	return IPAMRequest{Pools: []PoolRequest{{Subnet: "10.1.0.0/16", Range: ipRange, Gateway: gateway, Aux: aux}}}
}

func TestRefused(t *testing.T) {
	s, d, _ := open(t, t.TempDir())
	option := func(key, value string) CreateOptions {
		return CreateOptions{Name: "x", Options: map[string]string{key: value}}
	}
	addresses := func(r IPAMRequest) CreateOptions { return CreateOptions{Name: "x", IPAM: r} }
	for name, tc := range map[string]struct {
		opt  CreateOptions
		kind fault.Constructor
		text string
	}{
		"no name":           {CreateOptions{}, fault.Invalid, "name"},
		"a slash":           {CreateOptions{Name: "a/b"}, fault.Invalid, "a/b"},
		"a colon":           {CreateOptions{Name: "container:x"}, fault.Invalid, "container:x"},
		"a dot in front":    {CreateOptions{Name: ".x"}, fault.Invalid, ".x"},
		"too long":          {CreateOptions{Name: strings.Repeat("x", 256)}, fault.Invalid, "255"},
		"default":           {CreateOptions{Name: "default"}, fault.Forbidden, "predefined default network"},
		"bridge":            {CreateOptions{Name: "bridge"}, fault.Forbidden, "operation is not permitted on predefined bridge network"},
		"driver host":       {CreateOptions{Name: "x", Driver: "host"}, fault.Forbidden, `only one instance of "host" network is allowed`},
		"driver null":       {CreateOptions{Name: "x", Driver: "null"}, fault.Forbidden, `only one instance of "null" network is allowed`},
		"driver overlay":    {CreateOptions{Name: "x", Driver: "overlay"}, fault.NotFound, `plugin "overlay" not found`},
		"driver none":       {CreateOptions{Name: "x", Driver: "none"}, fault.NotFound, `plugin "none" not found`},
		"IPAM driver":       {addresses(IPAMRequest{Driver: "dhcp"}), fault.NotFound, `plugin "dhcp" not found`},
		"IPAM driver null":  {addresses(IPAMRequest{Driver: "null"}), fault.Invalid, "null"},
		"IPAM option":       {addresses(IPAMRequest{Options: map[string]string{"com.docker.network.ipam.serial": "1"}}), fault.Invalid, "ipam.serial"},
		"two of IPv4":       {addresses(IPAMRequest{Pools: []PoolRequest{{Subnet: "10.1.0.0/16"}, {Subnet: "10.2.0.0/16"}}}), fault.Invalid, "one family"},
		"two open ones":     {addresses(IPAMRequest{Pools: []PoolRequest{{}, {}}}), fault.Invalid, "one family"},
		"IPv6 not enabled":  {addresses(pool("fe80::/64")), fault.Invalid, "fe80::/10"},
		"a space in front":  {CreateOptions{Name: " x"}, fault.Invalid, "( x)"},
		"a space behind":    {CreateOptions{Name: "x "}, fault.Invalid, "(x )"},
		"no CIDR":           {addresses(pool("10.1.0.0")), fault.Invalid, "invalid subnet 10.1.0.0: invalid CIDR block notation"},
		"no address":        {addresses(pool("ten/8")), fault.Invalid, "CIDR"},
		"a zone":            {addresses(pool("fd00::%eth0/64")), fault.Invalid, "CIDR"},
		"mapped":            {addresses(pool("::ffff:10.0.0.0/104")), fault.Invalid, "CIDR"},
		"host bits":         {addresses(pool("10.1.2.3/16")), fault.Invalid, "invalid subnet 10.1.2.3/16: it should be 10.1.0.0/16"},
		"too small":         {addresses(pool("10.1.2.2/31")), fault.Invalid, "30"},
		"loopback":          {addresses(pool("127.1.0.0/16")), fault.Invalid, "127.0.0.0/8"},
		"everything":        {addresses(pool("0.0.0.0/0")), fault.Invalid, "0.0.0.0/8"},
		"multicast":         {addresses(pool("239.0.0.0/16")), fault.Invalid, "224.0.0.0/3"},
		"range alone":       {addresses(IPAMRequest{Pools: []PoolRequest{{Range: "10.1.0.0/24"}}}), fault.Invalid, "Subnet"},
		"gateway alone":     {addresses(IPAMRequest{Pools: []PoolRequest{{Gateway: "10.1.0.1"}}}), fault.Invalid, "Subnet"},
		"aux alone":         {addresses(IPAMRequest{Pools: []PoolRequest{{Aux: map[string]string{"a": "10.1.0.1"}}}}), fault.Invalid, "Subnet"},
		"range outside":     {addresses(within("10.2.0.0/24", "", nil)), fault.Invalid, "doesn't contain"},
		"range bigger":      {addresses(within("10.0.0.0/8", "", nil)), fault.Invalid, "bigger"},
		"range no CIDR":     {addresses(within("10.1.0.1", "", nil)), fault.Invalid, "CIDR"},
		"range host bits":   {addresses(within("10.1.0.1/24", "", nil)), fault.Invalid, "it should be 10.1.0.0/24"},
		"range family":      {addresses(within("fd00::/64", "", nil)), fault.Invalid, "family"},
		"gateway outside":   {addresses(within("", "10.2.0.1", nil)), fault.Invalid, "invalid gateway 10.2.0.1: parent subnet 10.1.0.0/16 doesn't contain this address"},
		"gateway no IP":     {addresses(within("", "x", nil)), fault.Invalid, "invalid gateway x: invalid address"},
		"gateway network":   {addresses(within("", "10.1.0.0", nil)), fault.Invalid, "broadcast"},
		"gateway broadcast": {addresses(within("", "10.1.255.255", nil)), fault.Invalid, "broadcast"},
		"gateway family":    {addresses(within("", "fd00::1", nil)), fault.Invalid, "doesn't contain"},
		"aux outside":       {addresses(within("", "", map[string]string{"a": "10.2.0.1"})), fault.Invalid, "doesn't contain"},
		"aux no IP":         {addresses(within("", "", map[string]string{"a": ""})), fault.Invalid, "invalid address"},
		"aux twice":         {addresses(within("", "", map[string]string{"a": "10.1.0.7", "b": "10.1.0.7"})), fault.Invalid, "that of a"},
		"aux is gateway":    {addresses(within("", "10.1.0.7", map[string]string{"a": "10.1.0.7"})), fault.Invalid, "the gateway"},
		"aux is first":      {addresses(within("", "", map[string]string{"a": "10.1.0.1"})), fault.Invalid, "the gateway"},
		"aux without name":  {addresses(within("", "", map[string]string{"": "10.1.0.7"})), fault.Invalid, "no name"},
		"device too long":   {option(OptionName, "sixteen-byteslong"), fault.Invalid, OptionName},
		"device empty":      {option(OptionName, ""), fault.Invalid, OptionName},
		"device slash":      {option(OptionName, "a/b"), fault.Invalid, OptionName},
		"device space":      {option(OptionName, "a b"), fault.Invalid, OptionName},
		"device lo":         {option(OptionName, "lo"), fault.Invalid, OptionName},
		"device dots":       {option(OptionName, ".."), fault.Invalid, OptionName},
		"prefix":            {option(OptionPrefix, "twelve-bytes"), fault.Invalid, OptionPrefix},
		"mtu text":          {option(OptionMTU, "x"), fault.Invalid, OptionMTU},
		"mtu small":         {option(OptionMTU, "67"), fault.Invalid, "68 to 65535"},
		"mtu large":         {option(OptionMTU, "65536"), fault.Invalid, "68 to 65535"},
		"icc":               {option(OptionICC, "maybe"), fault.Invalid, OptionICC},
		"masquerade":        {option(OptionMasq, ""), fault.Invalid, OptionMasq},
		"default bridge":    {option(OptionDefault, "true"), fault.Invalid, OptionDefault},
		"host address":      {option(OptionHostIPv4, "x"), fault.Invalid, OptionHostIPv4},
		"host IPv6":         {option(OptionHostIPv4, "::1"), fault.Invalid, OptionHostIPv4},
		"unknown option":    {option("com.docker.network.bridge.trust", "1"), fault.Invalid, "com.docker.network.bridge.trust"},
		"mtu of IPv6": {
			CreateOptions{Name: "x", EnableIPv6: true, Options: map[string]string{OptionMTU: "1279"}}, fault.Invalid, "1280",
		},
		"IPv6 host bits": {CreateOptions{Name: "x", EnableIPv6: true, IPAM: pool("fd00::1/64")}, fault.Invalid, "it should be fd00::/64"},
		"link-local":     {CreateOptions{Name: "x", EnableIPv6: true, IPAM: pool("fe80::/64")}, fault.Invalid, "fe80::/10"},
		"IPv6 gateway": {
			CreateOptions{Name: "x", EnableIPv6: true, IPAM: IPAMRequest{Pools: []PoolRequest{{Subnet: "fd00::/64", Gateway: "fd00::1%e"}}}}, fault.Invalid, "invalid address",
		},
	} {
		_, _, err := s.Create(t.Context(), tc.opt)
		if err == nil || fault.KindOf(err) != fault.KindOf(tc.kind("")) || !strings.Contains(err.Error(), tc.text) {
			t.Errorf("%s: %v, want %v with %q", name, err, fault.KindOf(tc.kind("")), tc.text)
		}
	}
	if got := names(t, s, nil); got != "bridge host none" || len(d.ids()) != 1 {
		t.Errorf("networks %q, in the driver %q: something is left", got, d.ids())
	}
}

func TestTaken(t *testing.T) {
	s, _, _ := open(t, t.TempDir())
	for _, tc := range []struct {
		name    string
		opt     CreateOptions
		warning string
	}{
		{"nothing in particular", CreateOptions{Name: "a"}, ""},
		{"a name with all signs", CreateOptions{Name: "0a_b.c-d"}, ""},
		{"an empty pool", CreateOptions{Name: "a1", IPAM: IPAMRequest{Driver: "default", Pools: []PoolRequest{{}}}}, ""},
		{"only IPv6 named", CreateOptions{Name: "a2", EnableIPv6: true, IPAM: pool("fd00:2::/64")}, ""},
		{"a name with spaces", CreateOptions{Name: "two  words"}, ""},
		{
			"IPv6 without EnableIPv6",
			CreateOptions{Name: "a7", IPAM: IPAMRequest{Pools: []PoolRequest{{Subnet: "fd00:7::/64"}, {Subnet: "10.8.0.0/24"}}}},
			"The subnet fd00:7::/64 is not used: a network has IPv6 with EnableIPv6 only",
		},
		{"the smallest", CreateOptions{Name: "a3", IPAM: pool("10.9.0.0/30")}, ""},
		{"known options", CreateOptions{Name: "a4", Options: map[string]string{
			OptionName: "fifteen-bytes-x", OptionMTU: "68", OptionICC: "false", OptionMasq: "0", OptionHostIPv4: "127.0.0.1", OptionPrefix: "net", OptionDefault: "false",
		}}, ""},
		{
			"more than the way out takes",
			CreateOptions{Name: "a5", Options: map[string]string{OptionMTU: "65535"}},
			OptionMTU + ": packets of more than 65520 bytes are cut into pieces on the way out of this host",
		},
		{
			"foreign options",
			CreateOptions{Name: "a6", Options: map[string]string{"org.example.b": "2", "org.example.a": "1"}},
			"The driver bridge has no option org.example.a, org.example.b: kept and of no effect",
		},
	} {
		n, warning, err := s.Create(t.Context(), tc.opt)
		if err != nil || warning != tc.warning {
			t.Errorf("%s: %v, warning %q, want %q", tc.name, err, warning, tc.warning)
			continue
		}
		for key, value := range tc.opt.Options {
			if n.Options[key] != value {
				t.Errorf("%s: option %s = %q, want %q", tc.name, key, n.Options[key], value)
			}
		}
	}
}

// FuzzPool reads one subnet: what is taken keeps the rules, what is not is fault.Invalid.
func FuzzPool(f *testing.F) {
	f.Add("10.1.0.0/16", "10.1.2.0/24", "10.1.0.1", "a", "10.1.0.2")
	f.Add("fd00::/64", "fd00::/80", "fd00::1", "", "")
	f.Add("0.0.0.0/0", "", "", "x", "::ffff:1.2.3.4")
	f.Fuzz(func(t *testing.T, subnet, ipRange, gateway, name, addr string) {
		r := PoolRequest{Subnet: subnet, Range: ipRange, Gateway: gateway}
		if name != "" || addr != "" {
			r.Aux = map[string]string{name: addr}
		}
		p, err := r.toPool()
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Errorf("%+v = %v, want fault.Invalid", r, err)
			}
			return
		}
		if !p.Subnet.IsValid() {
			if subnet != "" {
				t.Errorf("%+v = %+v: the subnet is lost", r, p)
			}
			return
		}
		inside := p.Subnet == p.Subnet.Masked() && (!p.Range.IsValid() || p.Subnet.Contains(p.Range.Addr()) && p.Range.Bits() >= p.Subnet.Bits()) &&
			(!p.Gateway.IsValid() || p.Subnet.Contains(p.Gateway))
		for _, aux := range p.Aux {
			inside = inside && p.Subnet.Contains(aux) && aux != p.Gateway
		}
		if !inside {
			t.Errorf("%+v = %+v: not inside the subnet", r, p)
		}
	})
}

// FuzzOptions reads one option.
func FuzzOptions(f *testing.F) {
	for _, key := range []string{OptionName, OptionMTU, OptionICC, OptionMasq, OptionHostIPv4, OptionPrefix, OptionDefault, OptionNamespace, "x"} {
		f.Add(key, "1500")
	}
	f.Fuzz(func(t *testing.T, key, value string) {
		s, err := parseOptions(map[string]string{key: value})
		if err != nil && !fault.Is(err, fault.Invalid) || err == nil && s.mtu != 0 && (s.mtu < LeastMTU || s.mtu > MostMTU) {
			t.Errorf("%q=%q: %+v, %v", key, value, s, err)
		}
	})
}
