// Package socket opens the sockets that clients come to, and decides who may reach them: unix sockets are for their owner,
// or for a group of the owner's choice; TCP is for those who show a certificate, or on the loopback when that was asked for.
// It runs once, in the outer process: engines come and go behind open sockets, and clients wait in their queues meanwhile.
// It accepts no connection.
package socket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
)

// Options say where to listen.
type Options struct {
	// Hosts are unix:///PATH, tcp://IP:PORT, and fd:// for all of Handed, fd://NAME or fd://NUMBER for those of a name or
	// the one of a number, which counts from 3 as the descriptors of socket activation do. At least one is needed.
	Hosts []string
	// Handed are sockets that listen already. Those that no host names are not in the Set.
	Handed []Handed
	// Group may use the unix sockets beside their owner: a name or a number. Empty: nobody.
	Group string
	// ClientCertificates says that TCP is served by TLS alone, to those with a certificate: it may be on any address then.
	ClientCertificates bool
	// AllowInsecureTCP lets Hosts name TCP addresses on the loopback otherwise. Every user of the machine can then use the
	// engine.
	AllowInsecureTCP bool
}

// Handed is a socket that systemd, or whoever started the engine, has opened.
type Handed struct {
	Name string // of LISTEN_FDNAMES; may be empty or shared
	File *os.File
}

// Set are sockets that listen. It is made by Open; whoever made it closes it.
type Set struct {
	files []*os.File
	own   []node
	notes []string
}

// node is the file of a socket that was opened here.
type node struct {
	path  string
	info  fs.FileInfo
	group *int
}

// Open opens the sockets of all hosts, or none. Hosts that are not allowed or malformed are fault.Invalid, a socket on which
// another engine answers is fault.Conflict.
func Open(ctx context.Context, opt Options) (_ *Set, err error) {
	if len(opt.Hosts) == 0 {
		return nil, fault.Invalid("no host to listen on")
	}
	s := &Set{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	group, err := findGroup(opt.Group)
	if err != nil {
		return nil, err
	}
	for _, host := range opt.Hosts {
		if err := s.openHost(ctx, host, group, opt); err != nil {
			return nil, fmt.Errorf("listen on %s: %w", host, err)
		}
	}
	return s, nil
}

// Files are the sockets, in the order of the hosts. They stay the Set's.
func (s *Set) Files() []*os.File { return s.files }

// Folders are those of the sockets that were opened here.
func (s *Set) Folders() []string {
	dirs := make([]string, 0, len(s.own))
	for _, n := range s.own {
		dirs = append(dirs, filepath.Dir(n.path))
	}
	return dirs
}

// Hosts are the sockets that were opened here, as clients name them.
func (s *Set) Hosts() []string {
	hosts := make([]string, 0, len(s.own))
	for _, n := range s.own {
		hosts = append(hosts, "unix://"+n.path)
	}
	return hosts
}

// Restore opens the sockets anew whose files are gone, and returns them: clients come to these from then on. The old ones
// listen as long as they are held, for clients that have kept their files. The caller closes what is returned. No folder above
// that of a socket is made. It must not be called beside Open or Close.
func (s *Set) Restore(ctx context.Context) (opened []*os.File, err error) {
	for i, n := range s.own {
		if now, lerr := os.Lstat(n.path); lerr == nil && os.SameFile(n.info, now) {
			continue
		}
		if _, aerr := os.Stat(filepath.Dir(filepath.Dir(n.path))); aerr != nil {
			err = errors.Join(err, aerr)
			continue
		}
		l, again, berr := s.bindUnix(ctx, n.path, n.group)
		if berr != nil {
			err = errors.Join(err, fmt.Errorf("listen on %s again: %w", n.path, berr))
			continue
		}
		s.own[i] = again
		f, ferr := detachSocket(l)
		if ferr != nil {
			err = errors.Join(err, ferr)
			continue
		}
		opened = append(opened, f)
	}
	return opened, err
}

// Notes are what people should know, one line each.
func (s *Set) Notes() []string { return s.notes }

// Close closes the sockets and removes the files of those that were opened here. Others' files stay. It is safe to call
// twice.
func (s *Set) Close() error {
	var all error
	for _, n := range s.own {
		// Somebody else may have taken the path meanwhile: that is theirs.
		if now, err := os.Lstat(n.path); err != nil || !os.SameFile(n.info, now) {
			continue
		}
		if err := os.Remove(n.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			all = errors.Join(all, fmt.Errorf("remove the socket: %w", err))
		}
	}
	for _, f := range s.files {
		all = errors.Join(all, f.Close())
	}
	s.own, s.files = nil, nil
	return all
}

func (s *Set) openHost(ctx context.Context, host string, group *int, opt Options) error {
	scheme, address, ok := strings.Cut(host, "://")
	if !ok {
		return fault.Invalid("want unix:///path, tcp://IP:port or fd://")
	}
	switch scheme {
	case "unix":
		return s.openUnix(ctx, address, group)
	case "tcp":
		return s.openTCP(ctx, address, opt)
	case "fd":
		return s.takeHanded(address, opt.Handed)
	default:
		return fault.Invalid("unknown scheme %q: want unix, tcp or fd", scheme)
	}
}

// openTCP listens where only those may come who have a certificate, or, when that was asked for, on the loopback.
func (s *Set) openTCP(ctx context.Context, address string, opt Options) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fault.Invalid("want tcp://IP:port: %v", err)
	}
	if host == "localhost" {
		host = "127.0.0.1" // without asking anybody who could answer otherwise
	}
	ip := net.ParseIP(host)
	if ip == nil {
		return fault.Invalid("the address %q is no IP address: want one of this machine, such as 127.0.0.1 or [::1]", host)
	}
	if err := CheckTCP(ip, opt.ClientCertificates, opt.AllowInsecureTCP); err != nil {
		return err
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return err
	}
	return s.addSocket(l)
}

// CheckTCP returns fault.Invalid for an address of TCP at which those could come who must not: without client certificates
// nobody from other machines, and those of this machine only when that is allowed.
func CheckTCP(ip net.IP, clientCertificates, allowInsecure bool) error {
	switch {
	case clientCertificates:
	case !ip.IsLoopback():
		return fault.Invalid("it is not on the loopback: others may come only with TLS client certificates (tlsverify)")
	case !allowInsecure:
		return fault.Invalid("without client certificates every user of this machine could use the engine: it must be " +
			"allowed explicitly (insecure-tcp), or certificates be asked for (tlsverify)")
	}
	return nil
}

// takeHanded adds the sockets that were handed over and that want names; empty or * is all of them. The server looks at
// those of TCP.
func (s *Set) takeHanded(want string, handed []Handed) error {
	const first = 3 // after stdin, stdout and stderr
	if len(handed) == 0 {
		return fault.Invalid("no listening socket was handed over")
	}
	number, err := strconv.Atoi(want)
	if err != nil {
		number = -1
	}
	found := false
	for i, h := range handed {
		if want != "" && want != "*" && h.Name != want && number != first+i {
			continue
		}
		found = true
		if err := checkHanded(h.File); err != nil {
			return err
		}
		if !slices.Contains(s.files, h.File) {
			s.files = append(s.files, h.File)
		}
	}
	if !found {
		return fault.Invalid("no socket %q was handed over: there are %s", want, listHanded(handed))
	}
	return nil
}

// checkHanded refuses what does not listen, and a unix socket that every user of the machine can connect to, as systemd
// makes them unless it is told not to: the file must have a mode that keeps others out, or be in a folder that does.
func checkHanded(f *os.File) error {
	fd := int(f.Fd())
	if listens, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err != nil || listens == 0 {
		return fault.Invalid("%s does not listen: it must be handed over before anybody has connected (Accept=no)", f.Name())
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return fmt.Errorf("ask for the address of %s: %w", f.Name(), err)
	}
	local, ok := name.(*unix.SockaddrUnix)
	if !ok {
		return nil
	}
	if !filepath.IsAbs(local.Name) {
		return fault.Invalid("%q names no file: every user of this machine could use the engine", local.Name)
	}
	info, err := os.Stat(local.Name)
	if err != nil {
		return fmt.Errorf("check who may connect: %w", err)
	}
	const othersConnect = 0o002
	if info.Mode().Perm()&othersConnect != 0 && closedTo(noGroup, filepath.Dir(local.Name)) == "" {
		return fault.Invalid("every user of this machine could use the engine by %s, which has mode %04o: chmod 600 (SocketMode=0600)",
			local.Name, info.Mode().Perm())
	}
	return nil
}

func listHanded(handed []Handed) string {
	texts := make([]string, 0, len(handed))
	for i, h := range handed {
		text := strconv.Itoa(3 + i)
		if h.Name != "" {
			text += " (" + h.Name + ")"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

// addSocket takes a listener's socket out of it and adds it to the set.
func (s *Set) addSocket(l net.Listener) error {
	f, err := detachSocket(l)
	if err == nil {
		s.files = append(s.files, f)
	}
	return err
}

// detachSocket closes a listener and returns its socket, which goes on listening.
func detachSocket(l net.Listener) (*os.File, error) {
	filer, ok := l.(interface{ File() (*os.File, error) })
	if !ok {
		return nil, errors.Join(fault.Internal("a %s listener has no socket", l.Addr().Network()), l.Close())
	}
	f, err := filer.File()
	return f, errors.Join(err, l.Close())
}
