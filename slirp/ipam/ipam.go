// Package ipam hands out the addresses of one IPv4 network. Who holds which address lives in memory only: the owner's
// record is what survives a restart, and Claim puts it back. It configures no device.
package ipam

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"sync"

	"moss/engine/fault"
)

// smallest is the longest prefix in bits that still has room for a gateway and one more address.
const smallest = 30

// Pool is one network's addresses. It goes round: a released address comes back only after all others had their turn,
// because the kernel takes a dead container's device away some time after its last process. All methods may be called
// at the same time.
type Pool struct {
	prefix  netip.Prefix
	gateway netip.Addr
	last    netip.Addr // highest address that can be given
	cursor  *os.File   // remembers next over a restart of the engine; a hint, so never synced

	mu     sync.Mutex // guards owners, next
	owners map[netip.Addr]string
	next   netip.Addr
}

// Open returns the pool of a network; its first address is the gateway's and is never given. The place to go on from is
// kept in the file cursorPath, which need not exist. The caller closes the pool. A prefix that is not IPv4 or too small
// is a fault.Invalid.
func Open(prefix netip.Prefix, cursorPath string) (*Pool, error) {
	if !prefix.Addr().Is4() || prefix.Bits() > smallest {
		return nil, fault.Invalid("subnet %s: need an IPv4 network of /%d or larger", prefix, smallest)
	}
	prefix = prefix.Masked()
	f, err := os.OpenFile(cursorPath, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open address cursor: %w", err)
	}
	p := &Pool{
		prefix:  prefix,
		gateway: prefix.Addr().Next(),
		last:    broadcast(prefix).Prev(),
		cursor:  f,
		owners:  make(map[netip.Addr]string),
	}
	p.next = p.gateway.Next()
	data, err := io.ReadAll(io.LimitReader(f, 64))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read address cursor: %w", err), f.Close())
	}
	if addr, err := netip.ParseAddr(strings.TrimSpace(string(data))); err == nil && p.givable(addr) {
		p.next = addr
	}
	return p, nil
}

// Gateway returns the network's first address.
func (p *Pool) Gateway() netip.Addr { return p.gateway }

// Take gives owner a free address. When none is left it is a fault.Unavailable.
func (p *Pool) Take(owner string) (netip.Addr, error) {
	addr, next, ok := p.take(owner)
	if !ok {
		return netip.Addr{}, fault.Unavailable("no available IPv4 addresses in %s", p.prefix)
	}
	// Padded to the longest address, so that one write replaces the old text; two at once may end in either order.
	if _, err := p.cursor.WriteAt(fmt.Appendf(nil, "%-15s\n", next), 0); err != nil {
		p.Release(owner, addr)
		return netip.Addr{}, fmt.Errorf("save address cursor: %w", err)
	}
	return addr, nil
}

func (p *Pool) take(owner string) (addr, next netip.Addr, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for addr = p.next; ; {
		next = addr.Next()
		if !p.givable(next) {
			next = p.gateway.Next()
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

// Claim gives owner the address that its record says it has. An address outside the network is a fault.Invalid, one that
// somebody else holds a fault.Conflict; claiming one's own again is no error.
func (p *Pool) Claim(owner string, addr netip.Addr) error {
	if !p.givable(addr) {
		return fault.Invalid("address %s cannot be given out of %s", addr, p.prefix)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if holder, taken := p.owners[addr]; taken && holder != owner {
		return fault.Conflict("address %s is in use by %s", addr, holder)
	}
	p.owners[addr] = owner
	return nil
}

// Release takes the address back from owner. It does nothing when owner does not hold it.
func (p *Pool) Release(owner string, addr netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.owners[addr] == owner {
		delete(p.owners, addr)
	}
}

// Len returns how many addresses are held.
func (p *Pool) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.owners)
}

// Close lets the cursor file go. The pool must not be used afterwards.
func (p *Pool) Close() error { return p.cursor.Close() }

func (p *Pool) givable(addr netip.Addr) bool {
	return addr.Is4() && addr.Compare(p.gateway) > 0 && addr.Compare(p.last) <= 0
}

// broadcast returns the highest address of an IPv4 network.
func broadcast(prefix netip.Prefix) netip.Addr {
	a := prefix.Addr().As4()
	for bit := prefix.Bits(); bit < 32; bit++ {
		a[bit/8] |= 0x80 >> (bit % 8)
	}
	return netip.AddrFrom4(a)
}
