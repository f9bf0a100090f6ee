package bridge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/thread"
)

// Device is a bridge that stands in the detached namespace.
type Device struct {
	Name  string
	Addrs []netip.Prefix
}

// Devices lists the bridges that stand, whoever made them.
func (f *Fabric) Devices(ctx context.Context) ([]Device, error) {
	l, err := f.ensureLive(ctx)
	if err != nil {
		return nil, err
	}
	links, err := l.listLinks()
	if err != nil {
		return nil, err
	}
	var found []Device
	for _, link := range links {
		if link.Type() != "bridge" {
			continue
		}
		addrs, err := l.handle.AddrList(link, unix.AF_UNSPEC)
		if err != nil {
			return nil, fmt.Errorf("list addresses of %s: %w", link.Attrs().Name, err)
		}
		d := Device{Name: link.Attrs().Name}
		for _, a := range addrs {
			ip, ok := netip.AddrFromSlice(a.IP)
			if bits, _ := a.Mask.Size(); ok && !ip.Unmap().IsLinkLocalUnicast() {
				d.Addrs = append(d.Addrs, netip.PrefixFrom(ip.Unmap(), bits))
			}
		}
		found = append(found, d)
	}
	return found, nil
}

// Taken reports whether there is a device of that name in the detached namespace.
func (f *Fabric) Taken(ctx context.Context, name string) (bool, error) {
	l, err := f.ensureLive(ctx)
	if err != nil {
		return false, err
	}
	link, err := l.findLink(name)
	return link != nil, err
}

// Up makes the network's device and rules. What an earlier engine, or a failed attempt, has made is kept and completed.
func (f *Fabric) Up(ctx context.Context, n Net) error {
	f.setup.Lock()
	defer f.setup.Unlock()
	l, err := f.ensureLiveLocked(ctx)
	if err != nil {
		return err
	}
	err = f.bringUpBridge(l, n)
	if err == nil {
		if err = f.setRules(l); err != nil {
			f.markDown(n.ID)
		}
	}
	if err != nil {
		return fmt.Errorf("set up network bridge %s: %w", n.Device, err)
	}
	return nil
}

// Down takes the network's device and rules away. A network that is not up is no error.
func (f *Fabric) Down(ctx context.Context, n Net) error {
	f.setup.Lock()
	defer f.setup.Unlock()
	l, err := f.ensureLiveLocked(ctx)
	if err != nil {
		return err
	}
	if err := l.removeLink(n.Device); err != nil {
		return err
	}
	if _, ok := f.indexOf(n.ID); !ok {
		return nil
	}
	f.markDown(n.ID)
	return f.setRules(l)
}

// Keep says which of the devices that stand are networks of ours: their rules are set anew, and all other bridges are
// taken away, with all cables but those to the endpoints named. The ports are those of Ports. It returns the ids of the
// networks that stand.
func (f *Fabric) Keep(
	ctx context.Context, nets []Net, endpoints []string, ports map[PortKey]PortTarget,
) (standing []string, err error) {
	f.setup.Lock()
	defer f.setup.Unlock()
	l, err := f.ensureLiveLocked(ctx)
	if err != nil {
		return nil, err
	}
	links, err := l.listLinks()
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, link := range links {
		name := link.Attrs().Name
		switch {
		case link.Type() == "veth" && strings.HasPrefix(name, cablePrefix):
			if !slices.ContainsFunc(endpoints, func(id string) bool { return outerName(id) == name }) {
				errs = append(errs, l.removeLink(name))
			}
		case link.Type() == "bridge":
			i := slices.IndexFunc(nets, func(n Net) bool { return n.Device == name })
			if i < 0 {
				errs = append(errs, l.removeLink(name))
				continue
			}
			if err := f.bringUpBridge(l, nets[i]); err != nil {
				errs = append(errs, fmt.Errorf("take up network bridge %s: %w", name, err))
				continue
			}
			standing = append(standing, nets[i].ID)
		}
	}
	f.ports = maps.Clone(ports)
	if len(standing) > 0 {
		errs = append(errs, f.setRules(l))
	}
	return standing, errors.Join(errs...)
}

// bringUpBridge makes the device or completes one that stands.
func (f *Fabric) bringUpBridge(l *live, n Net) error {
	link, err := l.findLink(n.Device)
	if err != nil {
		return err
	}
	if n.IPv6.IsValid() && !l.has6 {
		return fault.Unavailable("the kernel has no IPv6 (as root: modprobe ipv6)")
	}
	if link == nil {
		if link, err = l.makeBridge(n); err != nil {
			return err
		}
	}
	if link.Type() != "bridge" {
		return fault.Conflict("device %s is there and no bridge", n.Device)
	}
	var more []Sysctl
	if n.IPv6.IsValid() {
		more = append(more, ipv6Sysctls(n.Device)...)
	}
	if n.Tunnel != "" {
		more = append(more, tunnelSysctls(n.Device)...)
	}
	if len(more) > 0 {
		if err := thread.InNetworkAt(f.opts.NetNS, func() error { return applySysctls(more) }); err != nil {
			return err
		}
	}
	if err := l.configureBridge(link, n); err != nil {
		return err
	}
	f.markUp(n, link.Attrs().Index)
	return nil
}

// makeBridge gives the bridge a fixed MAC address: otherwise it takes the lowest of its ports' and changes it under the
// containers' feet.
func (l *live) makeBridge(n Net) (netlink.Link, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.HardwareAddr = n.Device, n.MTU, MACFor(n.IPv4.Addr())
	link := &netlink.Bridge{LinkAttrs: attrs}
	if err := l.handle.LinkAdd(link); err != nil {
		return nil, fmt.Errorf("make the device: %w", err)
	}
	return link, nil
}

func (l *live) configureBridge(link netlink.Link, n Net) error {
	if link.Attrs().MTU != n.MTU {
		if err := l.handle.LinkSetMTU(link, n.MTU); err != nil {
			return fmt.Errorf("set the MTU to %d: %w", n.MTU, err)
		}
	}
	for _, p := range []netip.Prefix{n.IPv4, n.IPv6} {
		if !p.IsValid() {
			continue
		}
		if err := l.handle.AddrAdd(link, toNetlinkAddr(p)); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("give it the address %s: %w", p, err)
		}
	}
	if n.Tunnel != "" {
		if err := l.setOwnAddress(link, n.Own); err != nil {
			return err
		}
	}
	if err := l.handle.LinkSetUp(link); err != nil {
		return fmt.Errorf("bring it up: %w", err)
	}
	return nil
}

// setOwnAddress makes this the only address of a bridge that is without a subnet. An invalid one means none.
func (l *live) setOwnAddress(link netlink.Link, own netip.Addr) error {
	addrs, err := l.handle.AddrList(link, unix.AF_INET)
	if err != nil {
		return fmt.Errorf("list its addresses: %w", err)
	}
	for _, a := range addrs {
		ip, ok := netip.AddrFromSlice(a.IP.To4())
		if bits, _ := a.Mask.Size(); !ok || bits != ip.BitLen() || ip == own {
			continue
		}
		if err := l.handle.AddrDel(link, &a); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			return fmt.Errorf("take the address %s from it: %w", ip, err)
		}
	}
	if !own.IsValid() {
		return nil
	}
	err = l.handle.AddrAdd(link, toNetlinkAddr(netip.PrefixFrom(own, own.BitLen())))
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("give it the address %s: %w", own, err)
	}
	return nil
}

// toNetlinkAddr returns an address for use at once: nobody else can have an address that IPAM has given, so the kernel
// need not look.
func toNetlinkAddr(p netip.Prefix) *netlink.Addr {
	a := &netlink.Addr{IPNet: ipNet(p)}
	if p.Addr().Is6() {
		a.Flags = unix.IFA_F_NODAD
	}
	return a
}

// findLink returns nothing and no error when there is no device of that name.
func (l *live) findLink(name string) (netlink.Link, error) {
	link, err := l.handle.LinkByName(name)
	if _, missing := errors.AsType[netlink.LinkNotFoundError](err); missing {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for %s: %w", name, err)
	}
	return link, nil
}

// listLinks lists all devices. A list that changed while it was read is read again.
func (l *live) listLinks() ([]netlink.Link, error) {
	const tries = 10
	var err error
	for range tries {
		var links []netlink.Link
		if links, err = l.handle.LinkList(); err == nil {
			return links, nil
		}
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return nil, fmt.Errorf("list the devices of the containers' network namespace: %w", err)
}

// removeLink takes a device away. One that is not there is no error.
func (l *live) removeLink(name string) error {
	link, err := l.findLink(name)
	if err != nil || link == nil {
		return err
	}
	if err := l.handle.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}
