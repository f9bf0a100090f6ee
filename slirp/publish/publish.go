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
}

// Published is an owner's state as its record has it.
type Published struct {
	Target
	Ports []network.Port
}

// Publisher keeps track of which ports are open for whom. All methods may be called at the same time, each owner by one
// caller at a time.
type Publisher struct {
	socket string
	host   host

	mu     sync.Mutex // guards client, held
	client client.Client
	held   map[string][]open // by owner
}

// open is a port in use and RootlessKit's number for it.
type open struct {
	id   int
	port network.Port
}

// New returns a publisher that talks to the API at a unix socket, which need not be there yet.
func New(socket string) *Publisher {
	return &Publisher{socket: socket, host: host{procSys: "/proc/sys"}, held: make(map[string][]open)}
}

// Publish opens the ports that reqs ask for and returns those it got, in the same order; after an error none is open.
// A protocol other than tcp and udp is a fault.Unsupported, an impossible request a fault.Invalid, a port in use an
// internal fault with the text that clients know, and an outer process that does not answer a fault.Unavailable.
func (p *Publisher) Publish(ctx context.Context, to Target, reqs []network.PortRequest) (_ []network.Port, err error) {
	if len(reqs) == 0 {
		return nil, nil
	}
	wants := make([]want, 0, len(reqs))
	for _, r := range reqs {
		w, err := parse(r)
		if err != nil {
			return nil, err
		}
		wants = append(wants, w)
	}
	ports, err := p.manager(ctx)
	if err != nil {
		return nil, err
	}
	var got []open
	defer func() {
		if err != nil {
			err = errors.Join(err, p.withdraw(ctx, ports, to.Owner, got))
		}
	}()
	result := make([]network.Port, 0, len(wants))
	for _, w := range wants {
		o, err := p.openOne(ctx, ports, to, w)
		if err != nil {
			return nil, fmt.Errorf("driver failed programming external connectivity on endpoint %s: %w", to.EndpointID, err)
		}
		got = append(got, o)
		result = append(result, o.port)
	}
	p.mu.Lock()
	p.held[to.Owner] = append(p.held[to.Owner], got...)
	p.mu.Unlock()
	return result, nil
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
	ports, err := p.manager(ctx)
	if err != nil {
		p.keep(owner, held)
		return err
	}
	return p.withdraw(ctx, ports, owner, held)
}

// Restore takes over the ports that an earlier engine has published: those of live owners are kept, what their records
// name but nobody forwards is opened again, and all others are closed. When the API's socket is not there the outer
// process is new and forwards nothing yet; the ports of live owners are then opened once it is.
func (p *Publisher) Restore(ctx context.Context, live []Published) error {
	if !p.answers() && !slices.ContainsFunc(live, func(l Published) bool { return len(l.Ports) > 0 }) {
		return nil
	}
	ports, err := p.manager(ctx)
	if err != nil {
		return err
	}
	list, err := ports.ListPorts(ctx)
	if err != nil {
		return fmt.Errorf("list published ports: %w", err)
	}
	wanted := make(map[port.Spec]string)
	specs := make(map[port.Spec]network.Port)
	for _, l := range live {
		for _, np := range l.Ports {
			spec, err := specOf(np, l.Addr)
			if err != nil {
				return fmt.Errorf("restore ports of %s: %w", l.Owner, err)
			}
			wanted[spec], specs[spec] = l.Owner, np
		}
	}
	held := make(map[string][]open)
	var errs []error
	for _, st := range list {
		owner, ok := wanted[st.Spec]
		if !ok {
			errs = append(errs, remove(ctx, ports, st.ID))
			continue
		}
		held[owner] = append(held[owner], open{st.ID, specs[st.Spec]})
		delete(wanted, st.Spec)
	}
	for spec, owner := range wanted {
		st, err := add(ctx, ports, spec)
		if err != nil {
			errs = append(errs, fmt.Errorf("publish port %d of %s again: %w", spec.ParentPort, owner, err))
			continue
		}
		held[owner] = append(held[owner], open{st.ID, specs[spec]})
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

// openOne tries each port that the wish allows.
func (p *Publisher) openOne(ctx context.Context, ports port.Manager, to Target, w want) (open, error) {
	for n := range w.attempts() {
		hostPort, err := p.host.pick(ctx, w, n)
		if err != nil {
			return open{}, err
		}
		np := network.Port{Proto: w.proto, ContainerPort: w.container, HostIP: w.ip.String(), HostPort: hostPort}
		spec, err := specOf(np, to.Addr)
		if err != nil {
			return open{}, err
		}
		st, err := add(ctx, ports, spec)
		if err == nil {
			return open{st.ID, np}, nil
		}
		if !isConflict(err) {
			return open{}, p.host.explain(err, w.ip, hostPort)
		}
	}
	return open{}, allocated(w)
}

// withdraw closes ports and puts back on the owner those that it could not close.
func (p *Publisher) withdraw(ctx context.Context, ports port.Manager, owner string, opened []open) error {
	var (
		errs []error
		left []open
	)
	for _, o := range opened {
		if err := remove(ctx, ports, o.id); err != nil {
			errs, left = append(errs, err), append(left, o)
		}
	}
	p.keep(owner, left)
	return errors.Join(errs...)
}

func (p *Publisher) keep(owner string, opened []open) {
	if len(opened) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held[owner] = append(p.held[owner], opened...)
}

func add(ctx context.Context, ports port.Manager, spec port.Spec) (*port.Status, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTime)
	defer cancel()
	return ports.AddPort(ctx, spec)
}

// remove is content when the port, or whoever forwarded it, is gone.
func remove(ctx context.Context, ports port.Manager, id int) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTime)
	defer cancel()
	err := ports.RemovePort(ctx, id)
	if err == nil || errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.ENOENT) || strings.Contains(err.Error(), "unknown id") {
		return nil
	}
	return fmt.Errorf("unpublish port number %d: %w", id, err)
}

// manager waits for the API's socket the first time.
func (p *Publisher) manager(ctx context.Context) (port.Manager, error) {
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
	for !p.answers() {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("publish ports: %w", context.Cause(ctx))
		case <-tick.C:
		}
	}
	c, err := client.New(p.socket)
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

// answers connects, because the file may be there a moment before it listens, or long after.
func (p *Publisher) answers() bool {
	conn, err := net.DialTimeout("unix", p.socket, socketPoll)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}
