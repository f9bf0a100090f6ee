// Package ipam hands out the addresses of networks and chooses subnets. Who holds which address lives in memory only: the
// owner's record is what survives a restart, and Claim puts it back. It configures no device.
package ipam

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"moss/engine/fault"
)

// The longest prefixes in bits that still have room for a gateway and one more address.
const (
	smallest4 = 30
	smallest6 = 126
)

// cursorSize in bytes is that of the text in a cursor file: the longest address and a line feed.
const cursorSize = 40

// Options says which addresses a pool has. Only Subnet must be set.
type Options struct {
	Subnet  netip.Prefix
	Range   netip.Prefix // what Take gives; invalid: all of Subnet
	Gateway netip.Addr   // invalid: the first address of Subnet
	Aux     []netip.Addr // what nobody gets
	Cursor  string       // a file that remembers where to go on; its folder is made. Empty: none
}

// Pool is one network's addresses of one family. It goes round: a released address comes back only after all others had
// their turn, because the kernel takes a dead container's device away some time after its last process. All methods may
// be called at the same time.
type Pool struct {
	subnet      netip.Prefix
	gateway     netip.Addr
	first, last netip.Addr // of what Take gives
	cursor      *os.File   // remembers next over a restart of the engine; a hint, so never synced

	mu     sync.Mutex // guards owners, next
	owners map[netip.Addr]string
	next   netip.Addr
}

// reserved is the owner of addresses that nobody gets.
const reserved = ""

// Check reports what is impossible about the options, as a fault.Invalid that says what.
func Check(o Options) error {
	s := o.Subnet
	if !s.IsValid() {
		return fault.Invalid("a pool needs a subnet")
	}
	bits, family := smallest4, "IPv4"
	if s.Addr().Is6() {
		bits, family = smallest6, "IPv6"
	}
	if s.Bits() > bits {
		return fault.Invalid("subnet %s: need an %s network of /%d or larger", s, family, bits)
	}
	if o.Range.IsValid() && (o.Range.Bits() < s.Bits() || !s.Contains(o.Range.Addr())) {
		return fault.Invalid("range %s is not in the subnet %s", o.Range, s)
	}
	if o.Range.IsValid() && o.Range.IsSingleIP() && !isUsable(s, o.Range.Addr()) {
		return fault.Invalid("range %s has no address of the subnet %s to give", o.Range, s)
	}
	if o.Gateway.IsValid() && !isUsable(s, o.Gateway) {
		return fault.Invalid("gateway %s is no address of the subnet %s", o.Gateway, s)
	}
	for _, a := range o.Aux {
		if !isUsable(s, a) {
			return fault.Invalid("auxiliary address %s is no address of the subnet %s", a, s)
		}
		if a == gatewayOf(o) {
			return fault.Invalid("auxiliary address %s is the gateway's", a)
		}
	}
	return nil
}

// Open returns the pool of a network. The caller closes it. Options that Check refuses are a fault.Invalid.
func Open(o Options) (*Pool, error) {
	if err := Check(o); err != nil {
		return nil, err
	}
	give := o.Range
	if !give.IsValid() {
		give = o.Subnet
	}
	p := &Pool{
		subnet: o.Subnet.Masked(), gateway: gatewayOf(o),
		first: give.Masked().Addr(), last: lastAddress(give),
		owners: make(map[netip.Addr]string, 1+len(o.Aux)),
	}
	p.owners[p.gateway] = reserved
	for _, a := range o.Aux {
		p.owners[a] = reserved
	}
	if !isUsable(p.subnet, p.first) {
		p.first = p.first.Next()
	}
	if !isUsable(p.subnet, p.last) {
		p.last = p.last.Prev()
	}
	p.next = p.first
	if o.Cursor == "" {
		return p, nil
	}
	return p, p.openCursor(o.Cursor)
}

func (p *Pool) openCursor(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("open address cursor: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open address cursor: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(f, 2*cursorSize))
	if err != nil {
		return errors.Join(fmt.Errorf("read address cursor: %w", err), f.Close())
	}
	if addr, err := netip.ParseAddr(strings.TrimSpace(string(data))); err == nil && p.inRange(addr) {
		p.next = addr
	}
	p.cursor = f
	return nil
}

// Gateway returns the address that the bridge has.
func (p *Pool) Gateway() netip.Addr { return p.gateway }

// Subnet returns the network that the addresses are of.
func (p *Pool) Subnet() netip.Prefix { return p.subnet }

// Take gives owner, which is not empty, a free address. When none is left it is a fault.Unavailable.
func (p *Pool) Take(owner string) (netip.Addr, error) {
	addr, next, ok := p.takeNext(owner)
	if !ok {
		return netip.Addr{}, fault.Unavailable("no available addresses in %s", p.subnet)
	}
	if p.cursor == nil {
		return addr, nil
	}
	// Padded to the longest address, so that one write replaces the old text; two at once may end in either order.
	if _, err := p.cursor.WriteAt(fmt.Appendf(nil, "%-*s\n", cursorSize-1, next), 0); err != nil {
		p.Release(owner, addr)
		return netip.Addr{}, fmt.Errorf("save address cursor: %w", err)
	}
	return addr, nil
}

func (p *Pool) takeNext(owner string) (addr, next netip.Addr, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for addr = p.next; ; {
		next = addr.Next()
		if !p.inRange(next) {
			next = p.first
		}
		if _, taken := p.owners[addr]; !taken {
			p.owners[addr] = owner
			p.next = next
			return addr, next, true
		}
		if next == p.next {
			return netip.Addr{}, next, false
		}
		addr = next
	}
}

// Claim gives owner the address that it asks for, or that its record says it has; it need not be in the range. An address
// outside the subnet is a fault.Invalid, one that somebody else holds or nobody may a fault.Conflict; claiming one's own
// again is no error.
func (p *Pool) Claim(owner string, addr netip.Addr) error {
	if !p.subnet.Contains(addr) {
		return fault.Invalid("no configured subnet or ip-range contain the IP address %s", addr)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if holder, taken := p.owners[addr]; !isUsable(p.subnet, addr) || taken && holder != owner {
		return fault.Conflict("Address already in use: %s", addr)
	}
	p.owners[addr] = owner
	return nil
}

// Release takes the address back from owner. It does nothing when owner does not hold it.
func (p *Pool) Release(owner string, addr netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if owner != reserved && p.owners[addr] == owner {
		delete(p.owners, addr)
	}
}

// Len returns how many addresses are held.
func (p *Pool) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, owner := range p.owners {
		if owner != reserved {
			n++
		}
	}
	return n
}

// Close lets the cursor file go. The pool must not be used afterwards.
func (p *Pool) Close() error {
	if p.cursor == nil {
		return nil
	}
	return p.cursor.Close()
}

func (p *Pool) inRange(addr netip.Addr) bool {
	return addr.BitLen() == p.first.BitLen() && addr.Compare(p.first) >= 0 && addr.Compare(p.last) <= 0
}

func gatewayOf(o Options) netip.Addr {
	if o.Gateway.IsValid() {
		return o.Gateway
	}
	return o.Subnet.Masked().Addr().Next()
}

// isUsable reports whether a device may have the address: not that of the network itself, which in IPv6 is any router's,
// nor the broadcast address of IPv4.
func isUsable(subnet netip.Prefix, addr netip.Addr) bool {
	return subnet.Contains(addr) && addr != subnet.Masked().Addr() && (addr.Is6() || addr != lastAddress(subnet))
}

// lastAddress returns the last address of a network.
func lastAddress(prefix netip.Prefix) netip.Addr {
	a := prefix.Addr().AsSlice()
	for bit := prefix.Bits(); bit < 8*len(a); bit++ {
		a[bit/8] |= 0x80 >> (bit % 8)
	}
	addr, _ := netip.AddrFromSlice(a) // of the length it had
	return addr
}
