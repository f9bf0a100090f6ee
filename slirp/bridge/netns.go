package bridge

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/thread"
)

// loopback is the index of lo in every new network namespace.
const loopback = 1

// namespace is a new network namespace with its loopback up, held by a descriptor and by a socket inside.
type namespace struct {
	file   *os.File
	handle *netlink.Handle
	no6    *os.File // says whether devices that come have no IPv6; nil: the kernel has none anyway
}

// newNamespace also sets what is given beyond that which every namespace has.
func newNamespace(more ...Sysctl) (*namespace, error) {
	n := &namespace{}
	err := thread.Apart(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make a network namespace: %w", err)
		}
		if n.file, err = os.Open("/proc/thread-self/ns/net"); err != nil {
			return fmt.Errorf("hold a network namespace: %w", err)
		}
		if err := applySysctls(append(quietIPv6(), more...)); err != nil {
			return err
		}
		return n.openHere()
	})
	if err == nil {
		lo := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: loopback}}
		if err = n.handle.LinkSetUp(lo); err != nil {
			err = fmt.Errorf("bring up lo: %w", err)
		}
	}
	if err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

// openNamespace opens the namespace of a container that runs.
func openNamespace(path string) (*namespace, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	n := &namespace{file: file}
	if err := thread.InNetwork(file, n.openHere); err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

// openHere opens the ways into the namespace that the calling thread is in.
func (n *namespace) openHere() (err error) {
	if n.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return fmt.Errorf("open netlink in a network namespace: %w", err)
	}
	n.no6, err = os.OpenFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", os.O_WRONLY, 0)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("open a sysctl of a network namespace: %w", err)
	}
	return nil
}

// allowIPv6 says whether devices that come from now on have IPv6. The file is of the namespace that it was opened in: no
// thread has to go there.
func (n *namespace) allowIPv6(yes bool) error {
	if n.no6 == nil {
		return fault.Unavailable("the kernel has no IPv6 (as root: modprobe ipv6)")
	}
	value := "1"
	if yes {
		value = "0"
	}
	if _, err := n.no6.WriteAt([]byte(value), 0); err != nil {
		return fmt.Errorf("switch IPv6 on for a device: %w", err)
	}
	return nil
}

// close lets the namespace go; it lives on only where it is bound or a process is inside.
func (n *namespace) close() {
	if n.handle != nil {
		n.handle.Close()
	}
	if n.no6 != nil {
		_ = n.no6.Close()
	}
	if n.file != nil {
		_ = n.file.Close()
	}
}

// bind keeps the namespace at path, which must not exist.
func (n *namespace) bind(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE|os.O_EXCL, 0o400)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", n.file.Fd()), path, "", unix.MS_BIND, ""); err != nil {
		return errors.Join(fmt.Errorf("bind network namespace at %s: %w", path, err), os.Remove(path))
	}
	return nil
}

// unbindNamespace undoes bind. What is not there or not mounted is no error.
func unbindNamespace(path string) error {
	err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// spares keeps one namespace ready, because making one takes longer than all the rest. It is bound nowhere: when the
// process dies the kernel takes it back.
type spares struct {
	more []Sysctl // of every namespace
	work sync.WaitGroup

	mu      sync.Mutex // guards ready, filling, closed
	ready   *namespace
	filling bool
	closed  bool
}

// take returns a namespace, ready or made now.
func (s *spares) take() (*namespace, error) {
	s.mu.Lock()
	n := s.ready
	s.ready = nil
	s.mu.Unlock()
	if n != nil {
		return n, nil
	}
	return newNamespace(s.more...)
}

// refill makes a namespace in the background unless one is ready. Trouble is left to take, which tries again and has
// someone to tell.
func (s *spares) refill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.filling || s.ready != nil {
		return
	}
	s.filling = true
	s.work.Go(func() {
		n, err := newNamespace(s.more...)
		s.mu.Lock()
		s.filling = false
		if err == nil && !s.closed {
			s.ready, n = n, nil
		}
		s.mu.Unlock()
		if n != nil {
			n.close()
		}
	})
}

func (s *spares) close() error {
	s.mu.Lock()
	s.closed = true
	n := s.ready
	s.ready = nil
	s.mu.Unlock()
	if n != nil {
		n.close()
	}
	s.work.Wait()
	return nil
}

// Sysctl is a file below /proc/sys and what it must hold.
type Sysctl struct{ Path, Value string }

// quietIPv6 is for all devices that come later: no address that nobody asked for, and no router's word believed.
func quietIPv6() []Sysctl {
	return []Sysctl{
		{"net/ipv6/conf/all/accept_ra", "0"},
		{"net/ipv6/conf/default/accept_ra", "0"},
		{"net/ipv6/conf/default/accept_dad", "0"}, // addresses are derived from MAC addresses, or given, once each: use them at once
		{"net/ipv6/conf/default/disable_ipv6", "1"},
	}
}

// sendSysctls keep connections of containers from having more bytes under way; 0: as many as the host's.
func sendSysctls(most int) []Sysctl {
	if most == 0 {
		return nil
	}
	const least, first = 4096, 16384 // as the kernel has them
	return []Sysctl{{"net/ipv4/tcp_wmem", fmt.Sprintf("%d %d %d", least, first, most)}}
}

// detachedSysctls are for the namespace that the bridges are in.
func detachedSysctls(uplink string) []Sysctl {
	return append(quietIPv6(),
		Sysctl{"net/ipv6/conf/" + uplink + "/accept_ra", "0"},
		Sysctl{"net/ipv4/ip_forward", "1"},
		Sysctl{"net/ipv6/conf/all/forwarding", "1"},
	)
}

// bridgedSysctls keep frames within a bridge out of the rules, which takes time for nothing. The rules let them pass where
// an older kernel refuses.
func bridgedSysctls() []Sysctl {
	return []Sysctl{
		{"net/bridge/bridge-nf-call-iptables", "0"},
		{"net/bridge/bridge-nf-call-ip6tables", "0"},
		{"net/bridge/bridge-nf-call-arptables", "0"},
	}
}

// ipv6Sysctls switch IPv6 on for one device. Its link-local address is of use at once: neighbours are asked from it on
// behalf of published ports, and nobody else is there to have the same.
func ipv6Sysctls(device string) []Sysctl {
	return []Sysctl{
		{"net/ipv6/conf/" + device + "/accept_ra", "0"},
		{"net/ipv6/conf/" + device + "/accept_dad", "0"},
		{"net/ipv6/conf/" + device + "/disable_ipv6", "0"},
	}
}

// tunnelSysctls make a bridge answer ARP, at once, for containers that are behind a tunnel: the kernel would wait for up to 0.8 s
// before it answers for others. What comes from the bridge and goes back to it has been translated: nobody is to be told of a
// shorter way.
func tunnelSysctls(device string) []Sysctl {
	return []Sysctl{
		{"net/ipv4/conf/" + device + "/proxy_arp", "1"},
		{"net/ipv4/neigh/" + device + "/proxy_delay", "0"},
		{"net/ipv4/conf/" + device + "/send_redirects", "0"},
	}
}

// applySysctls acts on the network namespace of the calling thread. A file that is absent belongs to a part that the
// kernel lacks; one that cannot be written must already hold the value.
func applySysctls(all []Sysctl) error {
	for _, s := range all {
		path := filepath.Join("/proc/sys", s.Path)
		err := os.WriteFile(path, []byte(s.Value), 0)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if now, rerr := os.ReadFile(path); rerr == nil && string(bytes.TrimSpace(now)) == s.Value {
			continue
		}
		return fmt.Errorf("set %s to %s: %w", s.Path, s.Value, err)
	}
	return nil
}

// setParameters sets parameters of a device in the namespace. fault.Invalid for one that the kernel does not have or take.
func (n *namespace) setParameters(all []Sysctl) error {
	if len(all) == 0 {
		return nil
	}
	return thread.InNetwork(n.file, func() error {
		for _, s := range all {
			if err := os.WriteFile(filepath.Join("/proc/sys", s.Path), []byte(s.Value), 0); err != nil {
				return fault.Invalid("set %s to %q: %w", s.Path, s.Value, err)
			}
		}
		return nil
	})
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
