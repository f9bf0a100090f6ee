package mesh

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"moss/engine/swarm/provider"
	"moss/engine/swarm/table"
)

// The delays between two tries of what has failed.
const (
	firstDelay = 200 * time.Millisecond // doubles
	lastDelay  = 30 * time.Second
)

// pauses are growing delays.
type pauses struct{ next time.Duration }

// nextPause returns the next delay.
func (p *pauses) nextPause() time.Duration {
	delay := max(p.next, firstDelay)
	p.next = min(2*delay, lastDelay)
	return delay
}

// awaitNext waits for the next delay, or the end of ctx.
func (p *pauses) awaitNext(ctx context.Context) {
	select {
	case <-time.After(p.nextPause()):
	case <-ctx.Done():
	}
}

// tableAddr returns where a manager that listens at an address serves the table.
func tableAddr(manager string) (string, error) {
	host, text, err := net.SplitHostPort(manager)
	if err != nil {
		return "", err
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 || port == 1<<16-1 {
		return "", fmt.Errorf("a manager that listens at %s has no port after that for the table of networks", manager)
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)+1)), nil
}

// serveTable builds the table and serves it, on a manager, until ctx ends.
func (m *Mesh) serveTable(ctx context.Context) {
	server := table.NewServer(table.ServerOptions{
		TLS: m.identity.serveTLS, Who: m.identity.whoIs,
		Report: func(node string, err error) {
			m.opt.Log.Debug().Str("node", node).Err(err).Msg("a node follows no more")
		},
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m.listenForNodes(ctx, server)
	}()
	var wait pauses
	for ctx.Err() == nil {
		begun := time.Now()
		err := m.runSource(ctx, server)
		if ctx.Err() != nil {
			break
		}
		m.opt.Log.Debug().Err(err).Msg("what the manager knows is read again")
		if time.Since(begun) > lastDelay {
			wait = pauses{}
		}
		wait.awaitNext(ctx)
	}
	<-ended
}

// runSource feeds the server from one stream of the manager.
func (m *Mesh) runSource(ctx context.Context, server *table.Server) error {
	watch, err := m.node.Watch()
	if err != nil {
		return err
	}
	control, err := m.node.Control()
	if err != nil {
		return err
	}
	s := newSource(watch, control, server.Publish)
	s.known = func() { m.setSource(s) }
	return s.runSource(ctx)
}

// setSource makes a source the one that knows nodes and routes. The last one counts on until there is another.
func (m *Mesh) setSource(s *source) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.source = s
}

func (m *Mesh) currentSource() *source {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.source
}

// Taken lists the routes of the nodes, on a manager. It does not block.
func (m *Mesh) Taken() []provider.Taken {
	if s := m.currentSource(); s != nil {
		return s.listRoutes()
	}
	return nil
}

// admitNode tells whether a node may learn the table. Without a source there is nothing to learn.
func (m *Mesh) admitNode(id string) bool {
	s := m.currentSource()
	return s != nil && s.hasNode(id)
}

// listenForNodes serves the table to nodes until ctx ends.
func (m *Mesh) listenForNodes(ctx context.Context, server *table.Server) {
	var wait pauses
	told := ""
	for ctx.Err() == nil {
		err := m.listenOnce(ctx, server)
		if ctx.Err() != nil {
			return
		}
		if text := err.Error(); text != told {
			m.opt.Log.Error().Err(err).Msg("serve the table of networks to nodes: services on other nodes are out of reach meanwhile")
			told = text
		}
		wait.awaitNext(ctx)
	}
}

func (m *Mesh) listenOnce(ctx context.Context, server *table.Server) error {
	place, err := m.node.Place()
	if err != nil {
		return err
	}
	addr, err := tableAddr(place.Listen)
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("the port after the one at which this manager listens is needed as well: %w", err)
	}
	return server.Serve(ctx, l)
}
