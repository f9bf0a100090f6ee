package bridge

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"moss/engine/fault"
)

// saved is the form of Options.File.
type saved struct {
	ID     string       `json:"id"`
	Subnet netip.Prefix `json:"subnet"`
}

// settle decides on the network's id and subnet. A device that stands decides, then the file, so that addresses stay;
// but without a device a remembered subnet that the host meanwhile has a route to gives way, since containers could not
// reach that network any more.
func (b *Bridge) settle(device netip.Prefix) (Config, error) {
	old, err := load(b.opts.File)
	if err != nil {
		return Config{}, err
	}
	s := old
	if s.ID == "" {
		s.ID = NewID()
	}
	if device.IsValid() {
		s.Subnet = device
	} else {
		taken, err := hostRoutes()
		if err != nil {
			return Config{}, err
		}
		if s.Subnet, err = choose(s.Subnet, append(taken, b.opts.Avoid...)); err != nil {
			return Config{}, err
		}
	}
	if s != old {
		if err := store(b.opts.File, s); err != nil {
			return Config{}, err
		}
	}
	return Config{ID: s.ID, Subnet: s.Subnet, Gateway: s.Subnet.Addr().Next()}, nil
}

// NewID returns a fresh id of 64 hexadecimal digits.
func NewID() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}

// choose returns wish if it is free, otherwise the first free one of the usual candidates.
func choose(wish netip.Prefix, taken []netip.Prefix) (netip.Prefix, error) {
	free := func(p netip.Prefix) bool {
		return !slices.ContainsFunc(taken, p.Overlaps)
	}
	if wish.IsValid() && free(wish) {
		return wish, nil
	}
	for p := range candidates {
		if free(p) {
			return p, nil
		}
	}
	return netip.Prefix{}, fault.Unavailable("no free subnet for the default network: the host has routes to all of 172.17.0.0/16 to 172.31.0.0/16, 192.168.0.0/16 and 10.0.0.0/8")
}

// candidates are the subnets clients are used to see, in that order, and parts of 10.0.0.0/8 after them.
func candidates(yield func(netip.Prefix) bool) {
	for i := byte(17); i < 32; i++ {
		if !yield(netip.PrefixFrom(netip.AddrFrom4([4]byte{172, i, 0, 0}), 16)) {
			return
		}
	}
	for i := 0; i < 256; i += 16 {
		if !yield(netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 168, byte(i), 0}), 20)) {
			return
		}
	}
	for i := 255; i > 0; i-- {
		if !yield(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), 0, 0}), 16)) {
			return
		}
	}
}

// hostRoutes lists the networks that this process's own namespace, which is the host's, has routes to.
func hostRoutes() ([]netip.Prefix, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink on the host: %w", err)
	}
	defer h.Close()
	routes, err := h.RouteList(nil, unix.AF_INET)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, fmt.Errorf("list the host's routes: %w", err)
	}
	var nets []netip.Prefix
	for _, r := range routes {
		if r.Dst == nil {
			continue
		}
		ip, ok := netip.AddrFromSlice(r.Dst.IP.To4())
		// The default route, and the halves of it that VPNs set, do not name a network.
		if bits, _ := r.Dst.Mask.Size(); ok && bits > 1 {
			nets = append(nets, netip.PrefixFrom(ip, bits))
		}
	}
	return nets, nil
}

// load reads the file. One that is missing or not to be understood is as good as empty: the network then gets a new id
// and a subnet, and no container depends on either over a boot.
func load(path string) (saved, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return saved{}, nil
	}
	if err != nil {
		return saved{}, err
	}
	return parseSaved(data), nil
}

func parseSaved(data []byte) saved {
	var s saved
	if err := json.Unmarshal(data, &s); err != nil {
		return saved{}
	}
	if raw, err := hex.DecodeString(s.ID); err != nil || len(raw) != 32 {
		return saved{}
	}
	if !s.Subnet.IsValid() || !s.Subnet.Addr().Is4() || s.Subnet != s.Subnet.Masked() || s.Subnet.Bits() < 8 || s.Subnet.Bits() > 24 {
		s.Subnet = netip.Prefix{}
	}
	return s
}

// store replaces the file.
func store(path string, s saved) (err error) {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, ".bridge-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp.Name())
		}
	}()
	_, err = tmp.Write(append(data, '\n'))
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// MACFor returns the address that goes with an IPv4 address, as clients know it: 02:42 and the four bytes. A container
// that gets the address of one long gone has its MAC too, so that no neighbour remembers a wrong one.
func MACFor(addr netip.Addr) net.HardwareAddr {
	a := addr.As4()
	return net.HardwareAddr{0x02, 0x42, a[0], a[1], a[2], a[3]}
}
