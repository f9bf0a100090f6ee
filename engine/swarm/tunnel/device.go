package tunnel

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/tun"

	"moss/engine/swarm/table"
)

// tunDevice is WireGuard's device. The library asks the kernel for the MTU and the name by a socket of the calling thread,
// which is not where the device is.
type tunDevice struct {
	tun.Device

	name string
	mtu  int
}

func (d *tunDevice) MTU() (int, error)     { return d.mtu, nil }
func (d *tunDevice) Name() (string, error) { return d.name, nil }

// openDevice makes the device in the network namespace of the calling thread, or opens the one that stands there. One that
// another process holds is an error.
func openDevice(name string, mtu int) (*tunDevice, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/net/tun (the kernel needs tun): %w", err)
	}
	request, err := unix.NewIfreq(name)
	if err == nil {
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err == nil {
		err = unix.IoctlSetInt(fd, unix.TUNSETPERSIST, 1)
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	dev, got, err := tun.CreateUnmonitoredTUNFromFD(fd)
	if err != nil {
		return nil, err // the device's file is the library's: a second close would hit whatever has the number by then
	}
	return &tunDevice{Device: dev, name: got, mtu: mtu}, nil
}

// routes are those of the device, one for each address elsewhere.
type routes struct {
	handle *netlink.Handle
	index  int
	there  map[netip.Addr]bool
}

// openRoutes brings the device up in the network namespace of the calling thread, and reads what routes it has.
func openRoutes(name string, mtu int) (*routes, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	r := &routes{handle: h, there: map[netip.Addr]bool{}}
	link, err := h.LinkByName(name)
	if err == nil {
		r.index = link.Attrs().Index
		err = errors.Join(h.LinkSetMTU(link, mtu), h.LinkSetUp(link))
	}
	if err != nil {
		h.Close()
		return nil, err
	}
	all, err := h.RouteList(link, unix.AF_INET)
	if err != nil {
		h.Close()
		return nil, fmt.Errorf("list routes: %w", err)
	}
	for _, route := range all {
		if route.Dst == nil {
			continue
		}
		if a, ok := netip.AddrFromSlice(route.Dst.IP); ok {
			r.there[a.Unmap()] = true
		}
	}
	return r, nil
}

func (r *routes) closeHandle() { r.handle.Close() }

// setAddrs makes the routes those to the addresses that have a holder.
func (r *routes) setAddrs(holders map[netip.Addr]table.Key) error {
	for a := range r.there {
		if _, stays := holders[a]; stays {
			continue
		}
		if err := r.handle.RouteDel(r.routeTo(a)); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("remove the route to %s: %w", a, err)
		}
		delete(r.there, a)
	}
	for a := range holders {
		if r.there[a] {
			continue
		}
		if err := r.handle.RouteReplace(r.routeTo(a)); err != nil {
			return fmt.Errorf("add the route to %s: %w", a, err)
		}
		r.there[a] = true
	}
	return nil
}

func (r *routes) routeTo(a netip.Addr) *netlink.Route {
	dst := &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}
	return &netlink.Route{LinkIndex: r.index, Dst: dst, Scope: netlink.SCOPE_LINK}
}

func isNotFound(err error) bool {
	_, ok := errors.AsType[netlink.LinkNotFoundError](err)
	return ok
}
