package uplink

import (
	"fmt"
	"net"
	"os"

	"github.com/rootless-containers/rootlesskit/v3/pkg/messages"
	"github.com/rootless-containers/rootlesskit/v3/pkg/network"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"moss/engine/thread"
)

// The uplink's own IPv6 network, which slirp4netns cannot have otherwise. Containers get none of its addresses.
const (
	cidr6    = "fd00::/64"
	address6 = "fd00::100" // of the tap device
	gateway6 = "fd00::2"
)

// ipv6Key is in the parent's message to the child when the uplink carries IPv6.
const ipv6Key = "moss.ipv6"

// outsidePrefixes lists what is sent outside by IPv6: all addresses that are anybody's, and local ones of the host's
// networks. There is no default route, since to a program of the host ::ffff:127.0.0.1 is its own loopback.
func outsidePrefixes() []string { return []string{"2000::/3", "fc00::/7"} }

// hostHasIPv6 reports whether what the host sends outside by IPv6 has an address that others can answer.
func hostHasIPv6() bool {
	routes, err := netlink.RouteGet(net.ParseIP("2001:db8::1")) // of nobody (RFC 3849)
	return err == nil && len(routes) > 0 && routes[0].Src.IsGlobalUnicast()
}

// tapChild leaves the tap device to RootlessKit, which gives it the IPv4 address and route that the parent says.
type tapChild struct{}

// ConfigureNetworkChild names the device, and gives it its IPv6 address and routes if the uplink carries that.
func (tapChild) ConfigureNetworkChild(msg *messages.ParentInitNetworkDriverCompleted, netns string) (string, error) {
	if msg.NetworkDriverOpaque[ipv6Key] == "" {
		return msg.Dev, nil
	}
	if err := thread.InNetworkAt(netns, func() error { return configureIPv6(msg.Dev) }); err != nil {
		return "", fmt.Errorf("set IPv6 up on %s: %w", msg.Dev, err)
	}
	return msg.Dev, nil
}

// ChildDriverInfo says that the device has no IPv4 address yet.
func (tapChild) ChildDriverInfo() (*network.ChildDriverInfo, error) {
	return &network.ChildDriverInfo{}, nil
}

// configureIPv6 acts on the network namespace of the calling thread. No router's word is believed there.
func configureIPv6(device string) error {
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+device+"/accept_ra", []byte("0"), 0); err != nil {
		return err
	}
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	defer handle.Close()
	link, err := handle.LinkByName(device)
	if err != nil {
		return err
	}
	_, subnet, err := net.ParseCIDR(cidr6)
	if err != nil {
		return err
	}
	own := &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(address6), Mask: subnet.Mask}, Flags: unix.IFA_F_NODAD}
	if err := handle.AddrAdd(link, own); err != nil {
		return fmt.Errorf("add %s: %w", own, err)
	}
	for _, to := range outsidePrefixes() {
		_, dst, err := net.ParseCIDR(to)
		if err != nil {
			return err
		}
		route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: dst, Gw: net.ParseIP(gateway6)}
		if err := handle.RouteAdd(route); err != nil {
			return fmt.Errorf("route %s: %w", to, err)
		}
	}
	return nil
}
