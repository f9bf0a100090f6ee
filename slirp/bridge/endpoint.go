package bridge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"moss/engine/fault"
)

// inside is the name of a container's device.
const inside = "eth0"

// Endpoint asks for a container's place in the network.
type Endpoint struct {
	ContainerID string
	ID          string // 64 hexadecimal digits, unique: the device's name comes from it, so that no two ever collide
	Addr        netip.Addr
	MAC         net.HardwareAddr
}

// Attach makes the container's network namespace with lo and eth0 up, addressed and routed, and returns the path where it
// is bound. What an earlier engine left for the same container is dropped first. On error nothing is left.
func (b *Bridge) Attach(ctx context.Context, e Endpoint) (path string, err error) {
	path, err = b.path(e.ContainerID)
	if err != nil {
		return "", err
	}
	l, err := b.ensure(ctx)
	if err != nil {
		return "", err
	}
	n, err := b.spare.take()
	if err != nil {
		return "", err
	}
	// Both once the container's part is done, so that the work behind does not compete with it.
	defer b.spare.refill()
	defer n.close()

	err = n.bind(path)
	if errors.Is(err, fs.ErrExist) {
		if err = unbind(path); err == nil {
			err = n.bind(path)
		}
	}
	if err != nil {
		return "", fmt.Errorf("attach %s to network bridge: %w", e.ContainerID, err)
	}
	if err := l.connect(n, e, b.opts.MTU); err != nil {
		return "", errors.Join(fmt.Errorf("attach %s to network bridge: %w", e.ContainerID, err), unbind(path))
	}
	return path, nil
}

// Detach drops the container's namespace and with it its devices, which the kernel takes away in its own time after the
// last process in there has ended. Detaching what is not attached is no error.
func (b *Bridge) Detach(containerID string) error {
	path, err := b.path(containerID)
	if err != nil {
		return err
	}
	if err := unbind(path); err != nil {
		return fmt.Errorf("detach %s from network bridge: %w", containerID, err)
	}
	return nil
}

// Attached lists the containers that have a namespace bound.
func (b *Bridge) Attached() ([]string, error) {
	entries, err := os.ReadDir(b.opts.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	ids := make([]string, 0, len(entries))
	for _, e := range entries {
		if !e.IsDir() {
			ids = append(ids, e.Name())
		}
	}
	return ids, nil
}

func (b *Bridge) path(containerID string) (string, error) {
	if containerID == "" || containerID[0] == '.' || filepath.Base(containerID) != containerID {
		return "", fault.Internal("%q is no container id", containerID)
	}
	return filepath.Join(b.opts.Dir, containerID), nil
}

// connect lays the cable and configures its inner end.
func (l *live) connect(n *namespace, e Endpoint, mtu int) error {
	if err := l.addCable(n, e, mtu); err != nil {
		return fmt.Errorf("make veth pair: %w", err)
	}
	link, err := n.handle.LinkByName(inside)
	if err != nil {
		return fmt.Errorf("find %s: %w", inside, err)
	}
	addr := &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(e.Addr, l.config.Subnet.Bits()))}
	if err := n.handle.AddrAdd(link, addr); err != nil {
		return fmt.Errorf("give %s the address %s: %w", inside, e.Addr, err)
	}
	if err := n.handle.LinkSetUp(link); err != nil {
		return fmt.Errorf("bring up %s: %w", inside, err)
	}
	route := &netlink.Route{LinkIndex: link.Attrs().Index, Gw: l.config.Gateway.AsSlice()}
	if err := n.handle.RouteAdd(route); err != nil {
		return fmt.Errorf("set the default route by %s: %w", l.config.Gateway, err)
	}
	return nil
}

// addCable makes both ends, each in its namespace, and the outer one up and a port of the bridge, in one request: the
// library's LinkAdd takes four, and each waits for the kernel's one lock on network devices.
func (l *live) addCable(n *namespace, e Endpoint, mtu int) error {
	req := nl.NewNetlinkRequest(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
	req.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: l.raw}

	outer := nl.NewIfInfomsg(unix.AF_UNSPEC)
	outer.Flags, outer.Change = unix.IFF_UP, unix.IFF_UP
	req.AddData(outer)
	req.AddData(nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(outerName(e.ID))))
	req.AddData(nl.NewRtAttr(unix.IFLA_MTU, nl.Uint32Attr(uint32(mtu))))
	req.AddData(nl.NewRtAttr(unix.IFLA_MASTER, nl.Uint32Attr(uint32(l.index))))

	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated("veth"))
	peer := info.AddRtAttr(nl.IFLA_INFO_DATA, nil).AddRtAttr(nl.VETH_INFO_PEER, nil)
	nl.NewIfInfomsgChild(peer, unix.AF_UNSPEC) // not up: the kernel would raise it before it knows the other end
	peer.AddRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(inside))
	peer.AddRtAttr(unix.IFLA_MTU, nl.Uint32Attr(uint32(mtu)))
	peer.AddRtAttr(unix.IFLA_ADDRESS, e.MAC)
	peer.AddRtAttr(unix.IFLA_NET_NS_FD, nl.Uint32Attr(uint32(n.file.Fd())))
	req.AddData(info)

	_, err := req.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// outerName fits the kernel's 15 characters with 44 bits of the endpoint's id.
func outerName(endpointID string) string {
	return "veth" + endpointID[:11]
}
