package member

import (
	"net/netip"
	"strings"
	"testing"

	"moss/engine/fault"
)

func addrs(list ...string) (found []netip.Addr) {
	for _, a := range list {
		found = append(found, netip.MustParseAddr(a))
	}
	return found
}

var loopback = Interface{Name: "lo", Addrs: addrs("127.0.0.1", "::1")} //nolint:gochecknoglobals // a constant

// TestAddresses: what is asked for, on which host, and what becomes of it.
func TestAddresses(t *testing.T) {
	one := addressBook{loopback, {Name: "eth0", Addrs: addrs("10.0.0.5", "fe80::1", "2001:db8::5")}}
	two := addressBook{loopback, {Name: "eth0", Addrs: addrs("10.0.0.5")}, {Name: "wlan0", Addrs: addrs("192.168.1.7", "192.168.1.8")}}
	six := addressBook{loopback, {Name: "eth0", Addrs: addrs("fe80::1", "2001:db8::5")}}
	engines := addressBook{loopback, {Name: "eth0", Addrs: addrs("10.0.0.5")}, {Name: "docker0", Addrs: addrs("172.17.0.1")}}
	for _, tc := range []struct {
		name              string
		host              addressBook
		listen, advertise string
		want              string // "listen advertise", or words of the error
	}{
		{"nothing asked, one address", one, "", "", "0.0.0.0:2377 10.0.0.5:2377"},
		{"an engine's own network does not count", engines, "", "", "0.0.0.0:2377 10.0.0.5:2377"},
		{"nothing asked, two interfaces", two, "", "", "multiple addresses (10.0.0.5 on eth0, 192.168.1.7 on wlan0, 192.168.1.8 on wlan0)"},
		{"nothing asked, IPv6 alone", six, "", "", "0.0.0.0:2377 [2001:db8::5]:2377"},
		{"nothing asked, no address", addressBook{loopback}, "", "", "could not find the system's IP address"},
		{"a listen address is advertised", two, "192.168.1.7:99", "", "192.168.1.7:99 192.168.1.7:99"},
		{"the client's default", one, "0.0.0.0:2377", "", "0.0.0.0:2377 10.0.0.5:2377"},
		{"advertise without port", two, "0.0.0.0:4567", "10.0.0.5", "0.0.0.0:4567 10.0.0.5:4567"},
		{"advertise with port", two, "", "10.0.0.5:1", "0.0.0.0:2377 10.0.0.5:1"},
		{"interfaces", two, "eth0:12", "eth0", "10.0.0.5:12 10.0.0.5:12"},
		{"interface with an address of each kind", one, "eth0", "", "10.0.0.5:2377 10.0.0.5:2377"},
		{"interface with two addresses", two, "wlan0", "", "interface wlan0 has more than one address"},
		{"interface without", addressBook{{Name: "eth0"}}, "eth0", "", "interface eth0 has no usable address"},
		{"port alone", one, ":3000", "", "0.0.0.0:3000 10.0.0.5:3000"},
		{"IPv6", one, "[::]:2377", "[2001:db8::5]:7", "[::]:2377 [2001:db8::5]:7"},
		{"IPv6 without port", one, "2001:db8::5", "", "[2001:db8::5]:2377 [2001:db8::5]:2377"},
		{"no interface", one, "eth9", "", `ListenAddr "eth9" must be an IP address or a network interface`},
		{"a host name", one, "", "example.org", `AdvertiseAddr "example.org" must be`},
		{"foreign", one, "10.0.0.6", "", `ListenAddr "10.0.0.6" is not an address of this host, which has 127.0.0.1, ::1, 10.0.0.5`},
		{"foreign advertise", one, "", "203.0.113.9:1", `AdvertiseAddr "203.0.113.9:1" is not an address of this host`},
		{"unspecified advertise", one, "", "0.0.0.0", "AdvertiseAddr \"0.0.0.0\" must be a non-zero IP address"},
		{"port 0", one, "10.0.0.5:0", "", "port"},
		{"port too high", one, "", "10.0.0.5:65536", "port"},
		{"no port", one, "10.0.0.5:", "", "port"},
		{"no number", one, "eth0:x", "", "port"},
	} {
		m := &Member{opt: Options{Interfaces: func() ([]Interface, error) { return tc.host, nil }}}
		r, err := m.initRecord(InitOptions{ListenAddr: tc.listen, AdvertiseAddr: tc.advertise})
		switch {
		case err != nil && (!fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: got the error %v, want %q", tc.name, err, tc.want)
		case err == nil && r.ListenAddr+" "+r.AdvertiseAddr != tc.want:
			t.Errorf("%s: got %s %s, want %s", tc.name, r.ListenAddr, r.AdvertiseAddr, tc.want)
		}
	}
	list, err := systemInterfaces()
	if err != nil || !addressBook(list).hasAddress(netip.MustParseAddr("127.0.0.1")) {
		t.Errorf("systemInterfaces: got %v, %v", list, err)
	}
}
