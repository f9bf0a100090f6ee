// Package dns resolves names for containers: those of their own networks from memory, all others by asking what the host
// asks at that moment.
//
// A container reaches it on sockets in its own network namespace, or on the gateway address of its bridge. The package
// knows nothing of how networks are built; whoever builds them says who is in which (Put, Remove) and who sees what
// (View).
package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"moss/engine/fault"
)

// Keeper holds duplicates of descriptors by name for the next engine.
type Keeper interface {
	Put(name string, fd uintptr) error // the descriptor is used in the call only; an earlier one of the name is given up
	Drop(name string) error            // one that is not held is no error
	Names() []string                   // of what the last engine has left and nobody has taken yet
	Take(name string) *os.File         // nil: there is none
}

// Options says what a Server works with.
type Options struct {
	Host *Host  // what the host resolves with; nil: nothing, and names from outside do not resolve
	Keep Keeper // nil: a new engine makes new sockets, and queries in between are lost
	Log  zerolog.Logger
}

// View is what one container sees, or all those of the default network together.
type View struct {
	Networks []string         // ids, in the order in which they are looked at
	Links    map[string]Links // by network id: names that nobody else has
	Servers  []netip.Addr     // the container's own, asked from inside NS; empty: those of the host
	NS       string           // path of the container's network namespace; needed with Servers
	Outside  bool             // false: names that the networks do not know do not exist
	Host     netip.Addr       // of host.docker.internal and host.moss.internal; invalid: they do not exist
}

// Links are names that a container alone has for members of one network, as alias to container id.
type Links map[string]string

// findContainer returns the container that a name leads to, in whatever case it is written.
func (l Links) findContainer(name string) (id string, ok bool) {
	for alias, id := range l {
		if strings.EqualFold(alias, name) {
			return id, true
		}
	}
	return "", false
}

// Member is a container's place in one network. It is not changed afterwards.
type Member struct {
	ContainerID string
	Network     string       // the network's name, for NAME.NETWORK and PTR; empty: there are no such names
	Names       []string     // the first one is what its addresses resolve to
	Addrs       []netip.Addr // of either family
}

// Records are the names of a network that are no container's of this host. They are not changed afterwards.
type Records struct {
	Network string                  // the network's name, as in Member
	Addrs   map[string][]netip.Addr // by name; none: the name does not resolve, and is not asked for outside
	Names   map[netip.Addr]string   // what addresses resolve to
}

// Server answers queries. All methods may be called at the same time, each owner by one caller at a time.
type Server struct {
	opts  Options
	names registry
	limit *limiter
	packs sync.Pool       // *packet
	next  time.Duration   // nextServer; tests set it before the first query
	life  context.Context //nolint:containedctx // of the service itself: queries are of no caller
	end   context.CancelFunc

	mu      sync.Mutex // guards clients, kept, swept, closed
	clients map[string]*client
	kept    map[string]Sockets // by owner, of an earlier engine
	swept   bool
	closed  bool
}

// NewServer returns a Server that answers nobody yet. ctx gives it its values only. Close ends it.
func NewServer(ctx context.Context, opts Options) *Server {
	s := &Server{
		opts: opts, clients: make(map[string]*client), kept: make(map[string]Sockets),
		limit: newLimiter(maxForwards, maxForwardsEach), next: nextServer,
		packs: sync.Pool{New: func() any { return new(packet) }},
	}
	s.names.networks = make(map[string]*names)
	s.life, s.end = context.WithCancel(context.WithoutCancel(ctx))
	s.inheritSockets()
	return s
}

// Attach answers queries on these sockets, which are the Server's from now on, also after an error. The owner is a
// container's id, or any other name without a slash. An owner that is attached already is a fault.Conflict.
func (s *Server) Attach(owner string, sock Sockets, v View) error {
	if owner == "" || strings.Contains(owner, "/") || sock.UDP == nil || sock.TCP == nil {
		return errors.Join(fault.Internal("name server of %q: no sockets, or no name for them", owner), sock.Close())
	}
	s.mu.Lock()
	_, there := s.clients[owner]
	stale, kept := s.kept[owner]
	delete(s.kept, owner)
	s.mu.Unlock()
	if kept {
		_ = stale.Close() // replaced; the keeper's are replaced below
	}
	if there {
		return errors.Join(fault.Conflict("%s has a name server already", owner), sock.Close())
	}
	// First, so that no query is lost if the engine ends right now.
	if err := s.keepSockets(owner, sock); err != nil {
		s.opts.Log.Warn().Err(err).Str("owner", owner).Msg("name server: queries will be lost while the engine restarts")
	}
	if err := s.attachClient(owner, sock, v, true); err != nil {
		return errors.Join(err, s.dropSockets(owner))
	}
	return nil
}

// Adopt goes on with the sockets that an earlier engine has left for the owner. If ok is false there are none, and the
// caller makes new ones. What waits in them is answered after Sweep, when all names are known again.
func (s *Server) Adopt(owner string, v View) (ok bool) {
	s.mu.Lock()
	sock, ok := s.kept[owner]
	delete(s.kept, owner)
	swept := s.swept
	s.mu.Unlock()
	return ok && s.attachClient(owner, sock, v, swept) == nil
}

func (s *Server) attachClient(owner string, sock Sockets, v View, begin bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.clients[owner]; there || s.closed {
		return errors.Join(fault.Conflict("%s has a name server already, or none can be had any more", owner), sock.Close())
	}
	c, err := s.newClient(sock, v)
	if err != nil {
		return errors.Join(fmt.Errorf("name server of %s: %w", owner, err), sock.Close())
	}
	s.clients[owner] = c
	if begin {
		c.startServing()
	}
	return nil
}

// Update changes what the owner sees, for all queries that come from now on. An owner that is not attached is a
// fault.NotFound.
func (s *Server) Update(owner string, v View) error {
	s.mu.Lock()
	c := s.clients[owner]
	s.mu.Unlock()
	if c == nil {
		return fault.NotFound("%s has no name server", owner)
	}
	c.view.Store(&v)
	return nil
}

// Detach ends the owner's name server, waits until nothing of it runs, and gives its sockets up. An owner that is not
// attached is no error.
func (s *Server) Detach(owner string) error {
	s.mu.Lock()
	c := s.clients[owner]
	sock, kept := s.kept[owner]
	delete(s.clients, owner)
	delete(s.kept, owner)
	s.mu.Unlock()
	var err error
	if c != nil {
		err = c.close()
	}
	if kept {
		err = errors.Join(err, sock.Close())
	}
	if c != nil || kept {
		err = errors.Join(err, s.dropSockets(owner))
	}
	if err != nil {
		return fmt.Errorf("end the name server of %s: %w", owner, err)
	}
	return nil
}

// Sweep is called once, when all that still runs is attached and known: it begins to answer on the sockets that were
// adopted, and gives those up that nobody has adopted. Until then they keep their network namespaces alive.
func (s *Server) Sweep() error {
	s.mu.Lock()
	kept := s.kept
	s.kept, s.swept = make(map[string]Sockets), true
	for _, c := range s.clients {
		c.startServing()
	}
	s.mu.Unlock()
	errs := make([]error, 0, 2*len(kept))
	for owner, sock := range kept {
		errs = append(errs, sock.Close(), s.dropSockets(owner))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("clear away name servers: %w", err)
	}
	return nil
}

// Close ends answering and waits for it. What the keeper holds stays for the next engine. The Server must not be used
// afterwards.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	clients, kept := s.clients, s.kept
	s.clients, s.kept = make(map[string]*client), make(map[string]Sockets)
	s.mu.Unlock()
	s.end()
	errs := make([]error, 0, len(clients)+len(kept))
	for _, c := range clients {
		errs = append(errs, c.close())
	}
	for _, sock := range kept {
		errs = append(errs, sock.Close())
	}
	return errors.Join(errs...)
}

// Put says that a container is in a network, or changes under which names and addresses.
func (s *Server) Put(networkID string, m Member) { s.names.putMember(networkID, m) }

// Remove says that a container has left a network. One that was not there is no error.
func (s *Server) Remove(networkID, containerID string) { s.names.removeMember(networkID, containerID) }

// SetRecords replaces the records of a network. Names of its containers that are the same lead where the records say.
func (s *Server) SetRecords(networkID string, r Records) { s.names.putRecords(networkID, r) }

// Sockets are where a name server is asked.
type Sockets struct {
	UDP *net.UDPConn
	TCP *net.TCPListener
}

// Close closes both, or what there is of them.
func (s Sockets) Close() error {
	var errs []error
	if s.UDP != nil {
		errs = append(errs, s.UDP.Close())
	}
	if s.TCP != nil {
		errs = append(errs, s.TCP.Close())
	}
	return errors.Join(errs...)
}
