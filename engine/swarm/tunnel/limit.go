package tunnel

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"sync/atomic"

	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun"

	"moss/engine/swarm/table"
)

// limitedDevice is the device with a bound on what the library takes from it.
type limitedDevice struct {
	tun.Device

	ledger  *ledger
	holders *atomic.Pointer[map[netip.Addr]table.Key] // the peers of addresses
	report  func(error)

	taken int // buffers that the library may have kept from the last Read
}

// Read is called by one goroutine of the library. A packet that cannot be read is lost and nothing more: after an error
// the library would close the tunnel.
func (d *limitedDevice) Read(bufs [][]byte, sizes []int, offset int) (int, error) {
	d.ledger.releaseBuffers(bufs[:d.taken])
	n, err := d.Device.Read(bufs, sizes, offset)
	if _, broken := errors.AsType[*fs.PathError](err); err != nil && (broken || errors.Is(err, os.ErrClosed)) {
		return 0, err
	}
	if err != nil {
		d.report(err)
	}
	n = max(n, 0)
	d.taken = n
	holders := *d.holders.Load()
	d.ledger.admitPackets(bufs, sizes[:n], func(i int) (flow, bool) {
		key, ok := holders[destinationOf(bufs[i][offset:offset+sizes[i]])]
		return flow{stage: outbound, peer: key}, ok
	})
	return n, nil
}

// destinationOf returns the address that an IPv4 packet goes to; the networks have no others.
func destinationOf(packet []byte) netip.Addr {
	if len(packet) < device.IPv4offsetDst+4 || packet[0]>>4 != 4 {
		return netip.Addr{}
	}
	return netip.AddrFrom4([4]byte(packet[device.IPv4offsetDst:]))
}

func (d *limitedDevice) Write(bufs [][]byte, offset int) (int, error) {
	defer d.ledger.releaseBuffers(bufs)
	return d.Device.Write(bufs, offset)
}

// limitedBind is the UDP socket with a bound on what the library takes from it.
type limitedBind struct {
	conn.Bind

	ledger *ledger
}

func (b *limitedBind) Open(port uint16) ([]conn.ReceiveFunc, uint16, error) {
	all, port, err := b.Bind.Open(port)
	for i := range all {
		all[i] = b.limitReceive(all[i])
	}
	return all, port, err
}

// limitReceive wraps what is called by one goroutine of the library.
func (b *limitedBind) limitReceive(receive conn.ReceiveFunc) conn.ReceiveFunc {
	taken := 0
	return func(bufs [][]byte, sizes []int, ends []conn.Endpoint) (int, error) {
		b.ledger.releaseBuffers(bufs[:taken])
		n, err := receive(bufs, sizes, ends)
		taken = n
		b.ledger.admitPackets(bufs, sizes[:n], func(i int) (flow, bool) { return flowOf(bufs[i][:sizes[i]]) })
		return n, err
	}
}

// flowOf tells what has come from anybody.
func flowOf(message []byte) (flow, bool) {
	if len(message) < device.MinMessageSize {
		return flow{}, false
	}
	switch binary.LittleEndian.Uint32(message) {
	case device.MessageTransportType:
		return flow{stage: inbound, receiver: binary.LittleEndian.Uint32(message[device.MessageTransportOffsetReceiver:])}, true
	case device.MessageInitiationType, device.MessageResponseType, device.MessageCookieReplyType:
		return flow{stage: handshakes}, true
	default:
		return flow{}, false
	}
}

func (b *limitedBind) Send(bufs [][]byte, end conn.Endpoint) error {
	defer b.ledger.releaseBuffers(bufs)
	return b.Bind.Send(bufs, end)
}
