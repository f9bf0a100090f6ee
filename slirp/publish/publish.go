// Package publish opens containers' ports on the host through RootlessKit's API, whose outer process does the
// forwarding. A published port therefore goes on when this process dies; Restore finds it again.
//
// It knows owners, addresses and ports; it does not know what a container is doing.
package publish

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rootless-containers/rootlesskit/v3/pkg/api/client"
	"github.com/rootless-containers/rootlesskit/v3/pkg/port"
	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/network"
)

// The API's socket may appear after the engine: the outer process opens it once the port driver runs.
const (
	socketWait = 10 * time.Second      // then it is not coming
	socketPoll = 10 * time.Millisecond // between two looks
)

// callTime bounds one call of the API, which takes about a millisecond. A call is not cut short when the client hangs
// up: nobody could tell then whether the port is open.
const callTime = 10 * time.Second

// Target is where an owner's ports lead.
type Target struct {
	Owner      string     // container id
	EndpointID string     // for error messages
	Addr       netip.Addr // the container's, on its bridge
	Addr6      netip.Addr // likewise, for ports on the host's IPv6 addresses; invalid: they lead to Addr
}

// Published is an owner's state as its record has it.
type Published struct {
	Target
	Ports    []network.Port
	KeepOnly bool // what nobody forwards is not opened again
}

// Publisher keeps track of which ports are open for whom. All methods may be called at the same time, each owner by one
// caller at a time.
type Publisher struct {
	socket string
	anchor func(name, path string) (string, error)
	host   host

	mu     sync.Mutex // guards at, client, held
	at     string     // the socket's path once it is anchored
	client client.Client
	held   map[string][]open // by owner
}

// open is a port in use and RootlessKit's number for it.
type open struct {
	id   int
	spec port.Spec
	port network.Port
}

// New returns a publisher that talks to the API at a unix socket, which need not be there yet. anchor returns a path that leads
// to it even when its file is gone, once it is there.
func New(socket string, anchor func(name, path string) (string, error)) *Publisher {
	return &Publisher{socket: socket, anchor: anchor, host: host{proc: "/proc"}, held: make(map[string][]open)}
}

// Publish opens the ports that reqs ask for and returns those it got, in the same order; after an error none is open. A
// request that names no host address gives two where the host has IPv6, with one number. A protocol other than tcp and udp
// is a fault.Unsupported, an impossible request a fault.Invalid, a port in use an internal fault with the text that
// clients know, and an outer process that does not answer a fault.Unavailable.
func (p *Publisher) Publish(ctx context.Context, to Target, reqs []network.PortRequest) ([]network.Port, error) {
	if len(reqs) == 0 {
		return nil, nil
	}
	wants, err := p.host.parseRequests(reqs)
	if err != nil {
		return nil, err
	}
	ports, err := p.portManager(ctx)
	if err != nil {
		return nil, err
	}
	got, err := p.openFor(ctx, ports, to, wants)
	if err != nil {
		return nil, fmt.Errorf("driver failed programming external connectivity on endpoint %s: %w", to.EndpointID, err)
	}
	return got, nil
}

// Open is Publish of one port for an owner that is no container: its errors do not name an endpoint.
func (p *Publisher) Open(ctx context.Context, to Target, req network.PortRequest) error {
	wants, err := p.host.parseRequests([]network.PortRequest{req})
	if err != nil {
		return err
	}
	ports, err := p.portManager(ctx)
	if err == nil {
		_, err = p.openFor(ctx, ports, to, wants)
	}
	return err
}

// Holds reports whether the owner has ports that are open.
func (p *Publisher) Holds(owner string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.held[owner]) > 0
}

func (p *Publisher) openFor(ctx context.Context, ports port.Manager, to Target, wants []want) ([]network.Port, error) {
	got, err := p.openAll(ctx, ports, to, wants)
	if err != nil {
		return nil, errors.Join(err, p.closePorts(ctx, ports, to.Owner, got))
	}
	p.addHeld(to.Owner, got)
	return portsOf(got), nil
}

// Unpublish closes the owner's ports. It is no error when there are none, or when the outer process that forwarded them
// is gone. Ports that could not be closed stay on the owner, so that calling again tries again.
func (p *Publisher) Unpublish(ctx context.Context, owner string) error {
	p.mu.Lock()
	held := p.held[owner]
	delete(p.held, owner)
	p.mu.Unlock()
	if len(held) == 0 {
		return nil
	}
	ports, err := p.portManager(ctx)
	if err != nil {
		p.addHeld(owner, held)
		return err
	}
	return p.closePorts(ctx, ports, owner, held)
}

// Restore takes over the ports that an earlier engine has published: those of live owners are kept, what their records
// name but nobody forwards is opened again, unless it is to be kept only, and all others are closed. When the API's socket is
// not there the outer process is new and forwards nothing yet; the ports of live owners are then opened once it is.
func (p *Publisher) Restore(ctx context.Context, live []Published) error {
	needs := func(l Published) bool { return len(l.Ports) > 0 && !l.KeepOnly }
	if _, ok := p.probeSocket(); !ok && !slices.ContainsFunc(live, needs) {
		return nil
	}
	ports, err := p.portManager(ctx)
	if err != nil {
		return err
	}
	list, err := ports.ListPorts(ctx)
	if err != nil {
		return fmt.Errorf("list published ports: %w", err)
	}
	wanted := make(map[port.Spec]string)
	specs := make(map[port.Spec]network.Port)
	keepOnly := make(map[string]bool)
	for _, l := range live {
		keepOnly[l.Owner] = l.KeepOnly
		for _, np := range l.Ports {
			spec, err := specOf(np, l.Target)
			if err != nil {
				return fmt.Errorf("restore ports of %s: %w", l.Owner, err)
			}
			wanted[spec], specs[spec] = l.Owner, np
		}
	}
	held := make(map[string][]open)
	var stale []int
	for _, st := range list {
		owner, ok := wanted[st.Spec]
		if !ok {
			stale = append(stale, st.ID)
			continue
		}
		held[owner] = append(held[owner], open{st.ID, st.Spec, specs[st.Spec]})
		delete(wanted, st.Spec)
	}
	// What is stale first: its port may be one that is wanted.
	left := make([]error, len(stale))
	runParallel(len(stale), func(i int) { left[i] = removePort(ctx, ports, stale[i]) })
	errs := []error{errors.Join(left...)}
	maps.DeleteFunc(wanted, func(_ port.Spec, owner string) bool { return keepOnly[owner] })
	lost := slices.Collect(maps.Keys(wanted))
	found := make([]*port.Status, len(lost))
	failed := make([]error, len(lost))
	runParallel(len(lost), func(i int) { found[i], failed[i] = addPort(ctx, ports, lost[i]) })
	for i, spec := range lost {
		owner := wanted[spec]
		if failed[i] != nil {
			errs = append(errs, fmt.Errorf("publish port %d of %s again: %w", spec.ParentPort, owner, failed[i]))
			continue
		}
		held[owner] = append(held[owner], open{found[i].ID, spec, specs[spec]})
	}
	p.mu.Lock()
	maps.Copy(p.held, held)
	p.mu.Unlock()
	return errors.Join(errs...)
}

// Close lets the connection to the outer process go. Ports stay open.
func (p *Publisher) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.client != nil {
		p.client.HTTPClient().CloseIdleConnections()
	}
}

func (p *Publisher) addHeld(owner string, opened []open) {
	if len(opened) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held[owner] = append(p.held[owner], opened...)
}

func addPort(ctx context.Context, ports port.Manager, spec port.Spec) (*port.Status, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTime)
	defer cancel()
	return ports.AddPort(ctx, spec)
}

// removePort is content when the port, or whoever forwarded it, is gone.
func removePort(ctx context.Context, ports port.Manager, id int) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTime)
	defer cancel()
	err := ports.RemovePort(ctx, id)
	if err == nil || errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.ENOENT) ||
		strings.Contains(err.Error(), "unknown id") {
		return nil
	}
	return fmt.Errorf("unpublish port number %d: %w", id, err)
}

// portManager waits for the API's socket the first time.
func (p *Publisher) portManager(ctx context.Context) (port.Manager, error) {
	p.mu.Lock()
	known := p.client
	p.mu.Unlock()
	if known != nil {
		return known.PortManager(), nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, socketWait, fault.Unavailable("the outer process does not answer at %s", p.socket))
	defer cancel()
	tick := time.NewTicker(socketPoll)
	defer tick.Stop()
	at, ok := p.probeSocket()
	for ; !ok; at, ok = p.probeSocket() {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("publish ports: %w", context.Cause(ctx))
		case <-tick.C:
		}
	}
	c, err := client.New(at)
	if err != nil {
		return nil, fmt.Errorf("publish ports: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.client == nil {
		p.client = c
	}
	return p.client.PortManager(), nil
}

// probeSocket connects, because the file may be there a moment before it listens, or long after.
func (p *Publisher) probeSocket() (at string, ok bool) {
	p.mu.Lock()
	at = p.at
	p.mu.Unlock()
	if at == "" {
		var err error
		if at, err = p.anchor("ports", p.socket); err != nil {
			return "", false
		}
		p.mu.Lock()
		p.at = at
		p.mu.Unlock()
	}
	conn, err := net.DialTimeout("unix", at, socketPoll)
	if err != nil {
		return "", false
	}
	_ = conn.Close()
	return at, true
}
