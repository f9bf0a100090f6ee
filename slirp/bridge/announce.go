package bridge

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// announceAddresses tells the network which MAC address the endpoint's addresses have now. It goes out of the bridge
// itself, to all ports that are open already: the endpoint's own takes a moment, in which what it sent would be lost.
func (l *live) announceAddresses(bridge int, e Endpoint) error {
	for _, p := range e.Addrs {
		frame, protocol := gratuitousARP(p.Addr(), e.MAC), uint16(unix.ETH_P_ARP)
		if p.Addr().Is6() {
			frame, protocol = unsolicitedAdvertisement(p.Addr(), e.MAC), unix.ETH_P_IPV6
		}
		to := &unix.SockaddrLinklayer{
			Protocol: binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, protocol)),
			Ifindex:  bridge,
		}
		if err := unix.Sendto(l.packet, frame, 0, to); err != nil {
			return fmt.Errorf("announce %s: %w", p.Addr(), err)
		}
	}
	return l.forgetNeighbours(bridge, e)
}

// forgetNeighbours drops what the detached namespace itself remembers of the addresses: it does not hear what it sends.
func (l *live) forgetNeighbours(bridge int, e Endpoint) error {
	for _, p := range e.Addrs {
		err := l.handle.NeighDel(&netlink.Neigh{LinkIndex: bridge, IP: p.Addr().AsSlice()})
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("forget the neighbour %s: %w", p.Addr(), err)
		}
	}
	return nil
}

// gratuitousARP is a request for one's own address (RFC 826, RFC 5227), which everybody takes note of.
func gratuitousARP(addr netip.Addr, mac net.HardwareAddr) []byte {
	const ethernet, request = 1, 1
	b := ethernetHeader(net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, mac, unix.ETH_P_ARP)
	b = binary.BigEndian.AppendUint16(b, ethernet)
	b = binary.BigEndian.AppendUint16(b, unix.ETH_P_IP)
	b = append(b, 6, 4)
	b = binary.BigEndian.AppendUint16(b, request)
	b = append(append(b, mac...), addr.AsSlice()...)
	return append(append(b, 0, 0, 0, 0, 0, 0), addr.AsSlice()...)
}

// unsolicitedAdvertisement tells all nodes, and to override what they know (RFC 4861, 4.4 and 7.2.6).
func unsolicitedAdvertisement(addr netip.Addr, mac net.HardwareAddr) []byte {
	const (
		advertisement = 136
		override      = 1 << 29
		targetAddress = 2 // option: the target's link-layer address, in units of 8 bytes
		hopLimit      = 255
	)
	allNodes := netip.IPv6LinkLocalAllNodes()
	m := []byte{advertisement, 0, 0, 0}
	m = binary.BigEndian.AppendUint32(m, override)
	m = append(append(m, addr.AsSlice()...), targetAddress, 1)
	m = append(m, mac...)
	binary.BigEndian.PutUint16(m[2:], icmpv6Checksum(addr, allNodes, m))

	b := ethernetHeader(net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1}, mac, unix.ETH_P_IPV6)
	b = append(b, 0x60, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(len(m)))
	b = append(b, unix.IPPROTO_ICMPV6, hopLimit)
	b = append(append(b, addr.AsSlice()...), allNodes.AsSlice()...)
	return append(b, m...)
}

func ethernetHeader(to, from net.HardwareAddr, protocol uint16) []byte {
	b := append(append(make([]byte, 0, 96), to...), from...)
	return binary.BigEndian.AppendUint16(b, protocol)
}

// icmpv6Checksum includes the pseudo-header (RFC 8200, 8.1). The message has an even length.
func icmpv6Checksum(from, to netip.Addr, message []byte) uint16 {
	var sum uint32
	add := func(b []byte) {
		for i := 0; i+1 < len(b); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(b[i:]))
		}
	}
	add(from.AsSlice())
	add(to.AsSlice())
	add(message)
	sum += uint32(len(message)) + unix.IPPROTO_ICMPV6
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
