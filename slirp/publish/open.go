package publish

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rootless-containers/rootlesskit/v3/pkg/port"

	"moss/engine/network"
)

// sideBySide is how many calls of the API are under way for one caller; more bring nothing.
const sideBySide = 8

// runParallel calls f with the numbers below n, some of them at the same time, and returns after the last.
func runParallel(n int, f func(i int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(n, sideBySide) {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// openAll opens what is wanted and returns what it got, in that order, even with an error. Those with only one port to
// choose go first and ephemeral ones last, so that none takes another's. Ranges are filled in order.
func (p *Publisher) openAll(ctx context.Context, ports port.Manager, to Target, wants []want) ([]open, error) {
	got, errs := make([][]open, len(wants)), make([]error, len(wants))
	var fixed, ranges, ephemeral []int
	for i, w := range wants {
		switch {
		case w.hasFixedPort():
			fixed = append(fixed, i)
		case w.low != 0:
			ranges = append(ranges, i)
		default:
			ephemeral = append(ephemeral, i)
		}
	}
	var failed atomic.Bool // one is enough: all will be closed again
	try := func(i int) {
		if failed.Load() {
			return
		}
		if got[i], errs[i] = p.openOne(ctx, ports, to, wants[i]); errs[i] != nil {
			failed.Store(true)
		}
	}
	runParallel(len(fixed), func(i int) { try(fixed[i]) })
	if errors.Join(errs...) == nil {
		for _, i := range ranges {
			try(i)
		}
		runParallel(len(ephemeral), func(i int) { try(ephemeral[i]) })
	}
	var (
		all   []open
		first error
	)
	for i := range wants {
		all = append(all, got[i]...)
		if first == nil {
			first = errs[i]
		}
	}
	return all, first
}

// openOne tries each port that the wish allows.
func (p *Publisher) openOne(ctx context.Context, ports port.Manager, to Target, w want) ([]open, error) {
	var taken netip.Addr
	for n := range w.maxAttempts() {
		hostPort, err := p.host.pickPort(ctx, w, n)
		if err != nil {
			return nil, err
		}
		var got []open
		got, taken, err = p.openSame(ctx, ports, to, w, hostPort)
		if err != nil || !taken.IsValid() {
			return got, err
		}
	}
	return nil, allocatedError(w, taken)
}

// openSame opens one port of the host on all the addresses. With an error it returns what is open all the same; with an
// address on which the port is taken nothing is.
func (p *Publisher) openSame(
	ctx context.Context, ports port.Manager, to Target, w want, hostPort uint16,
) (got []open, taken netip.Addr, err error) {
	for i, ip := range w.ips {
		o, err := openAt(ctx, ports, to, network.Port{
			Proto: w.proto, ContainerPort: w.container, HostIP: ip.String(),
			HostPort: hostPort,
		})
		switch {
		case err == nil:
			got = append(got, o)
		case i > 0 && noIPv6(err): // nobody has asked for it by name
		case isConflict(err):
			for _, o := range got {
				if err := removePort(ctx, ports, o.id); err != nil {
					return got, ip, err
				}
			}
			return nil, ip, nil
		default:
			return got, netip.Addr{}, p.host.explainRefusal(err, ip, hostPort)
		}
	}
	return got, netip.Addr{}, nil
}

func openAt(ctx context.Context, ports port.Manager, to Target, np network.Port) (open, error) {
	spec, err := specOf(np, to)
	if err != nil {
		return open{}, err
	}
	st, err := addPort(ctx, ports, spec)
	if err != nil {
		return open{}, err
	}
	return open{st.ID, spec, np}, nil
}

// noIPv6 tells the refusals of a host that has IPv6 and does not use it.
func noIPv6(err error) bool {
	return strings.Contains(err.Error(), "cannot assign requested address") ||
		strings.Contains(err.Error(), "address family not supported")
}

func portsOf(opened []open) []network.Port {
	list := make([]network.Port, 0, len(opened))
	for _, o := range opened {
		list = append(list, o.port)
	}
	return list
}

// closePorts closes ports and puts back on the owner those that it could not close.
func (p *Publisher) closePorts(ctx context.Context, ports port.Manager, owner string, opened []open) error {
	errs := make([]error, len(opened))
	runParallel(len(opened), func(i int) { errs[i] = removePort(ctx, ports, opened[i].id) })
	var left []open
	for i, o := range opened {
		if errs[i] != nil {
			left = append(left, o)
		}
	}
	p.addHeld(owner, left)
	return errors.Join(errs...)
}

// Move leads an owner's ports to another address of its container: the same ports of the host, which nobody else gets
// meanwhile unless he is quicker than this process. It returns what is open when it ends: after an error those that lead
// to the old address again, and the error names those that are lost.
func (p *Publisher) Move(ctx context.Context, to Target) ([]network.Port, error) {
	p.mu.Lock()
	held := p.held[to.Owner]
	p.mu.Unlock()
	if len(held) == 0 {
		return nil, nil
	}
	ports, err := p.portManager(ctx)
	if err != nil {
		return portsOf(held), err
	}
	moved, err := redirectPorts(ctx, ports, held, func(o open) (port.Spec, error) { return specOf(o.port, to) })
	if err != nil {
		was := make(map[network.Port]port.Spec, len(held))
		for _, o := range held {
			was[o.port] = o.spec
		}
		back, berr := redirectPorts(ctx, ports, moved, func(o open) (port.Spec, error) { return was[o.port], nil })
		moved, err = back, errors.Join(fmt.Errorf("move the published ports of %s: %w", to.Owner, err), berr)
	}
	p.mu.Lock()
	p.held[to.Owner] = moved
	p.mu.Unlock()
	return portsOf(moved), err
}

// redirectPorts opens ports anew, with another target, and returns those that are open after it.
func redirectPorts(ctx context.Context, ports port.Manager, all []open, where func(open) (port.Spec, error)) ([]open, error) {
	after, errs := make([]*open, len(all)), make([]error, len(all))
	runParallel(len(all), func(i int) { after[i], errs[i] = redirectOne(ctx, ports, all[i], where) })
	var left []open
	for _, o := range after {
		if o != nil {
			left = append(left, *o)
		}
	}
	return left, errors.Join(errs...)
}

func redirectOne(ctx context.Context, ports port.Manager, o open, where func(open) (port.Spec, error)) (*open, error) {
	spec, err := where(o)
	if err != nil || spec == o.spec {
		return &o, err
	}
	if err := removePort(ctx, ports, o.id); err != nil {
		return &o, err
	}
	st, err := addPort(ctx, ports, spec)
	if err == nil {
		return &open{st.ID, spec, o.port}, nil
	}
	err = fmt.Errorf("lead port %d of the host to %s: %w", o.port.HostPort, spec.ChildIP, err)
	st, back := addPort(ctx, ports, o.spec)
	if back != nil {
		return nil, errors.Join(err, fmt.Errorf("port %d of the host is lost: %w", o.port.HostPort, back))
	}
	return &open{st.ID, o.spec, o.port}, err
}
