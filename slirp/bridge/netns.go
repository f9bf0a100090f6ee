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

	"moss/engine/thread"
)

// loopback is the index of lo in every new network namespace.
const loopback = 1

// namespace is a new network namespace with its loopback up, held by a descriptor and by a socket inside.
type namespace struct {
	file   *os.File
	handle *netlink.Handle
}

func newNamespace() (*namespace, error) {
	n := &namespace{}
	err := thread.Apart(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make a network namespace: %w", err)
		}
		if n.file, err = os.Open("/proc/thread-self/ns/net"); err != nil {
			return fmt.Errorf("hold a network namespace: %w", err)
		}
		if err := applySysctls(quietIPv6()); err != nil {
			return err
		}
		if n.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
			return fmt.Errorf("open netlink in a network namespace: %w", err)
		}
		return nil
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

// close lets the namespace go; it lives on only where it is bound or a process is inside.
func (n *namespace) close() {
	if n.handle != nil {
		n.handle.Close()
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

// unbind undoes bind. What is not there or not mounted is no error.
func unbind(path string) error {
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
	work sync.WaitGroup

	mu      sync.Mutex // guards ready, filling, closed
	ready   *namespace
	filling bool
	closed  bool
}

// take returns a namespace, ready or made now, and sees to the next one.
func (s *spares) take() (*namespace, error) {
	s.mu.Lock()
	n := s.ready
	s.ready = nil
	s.mu.Unlock()
	if n != nil {
		return n, nil
	}
	return newNamespace()
}

// refill makes a namespace in the background unless one is ready. Trouble is left to take, which has someone to tell.
func (s *spares) refill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.filling || s.ready != nil {
		return
	}
	s.filling = true
	s.work.Go(func() {
		n, err := newNamespace()
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

// sysctl is a file below /proc/sys and what it must hold.
type sysctl struct{ path, value string }

// quietIPv6 is for all devices that come later: no address that nobody asked for, and no router's word believed.
func quietIPv6() []sysctl {
	return []sysctl{
		{"net/ipv6/conf/all/accept_ra", "0"},
		{"net/ipv6/conf/default/accept_ra", "0"},
		{"net/ipv6/conf/default/disable_ipv6", "1"},
	}
}

// applySysctls acts on the network namespace of the calling thread. A file that is absent belongs to a part that the
// kernel lacks; one that cannot be written must already hold the value.
func applySysctls(all []sysctl) error {
	for _, s := range all {
		path := filepath.Join("/proc/sys", s.path)
		err := os.WriteFile(path, []byte(s.value), 0)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if now, rerr := os.ReadFile(path); rerr == nil && string(bytes.TrimSpace(now)) == s.value {
			continue
		}
		return fmt.Errorf("set %s to %s: %w", s.path, s.value, err)
	}
	return nil
}
