package mesh

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"moss/engine/fault"
	"moss/engine/record"
	"moss/engine/swarm/member"
	"moss/engine/swarm/table"
)

// session runs while something holds.
type session struct {
	node   string // whose it is
	cancel context.CancelFunc
	work   sync.WaitGroup
}

// endSession ends it and waits for its end. It may be nil.
func (s *session) endSession() {
	if s != nil {
		s.cancel()
		s.work.Wait()
	}
}

// superviseNode begins and ends what the membership needs.
func (m *Mesh) superviseNode() {
	m.sessionMu.Lock()
	if kept := m.readKept(); kept != nil && m.node.Holds() {
		m.beginSession(kept.Node, kept.Table) // also for a node that waits for its key or its managers
	}
	m.sessionMu.Unlock()
	for m.life.Err() == nil {
		changed := m.node.Changed()
		m.followStatus()
		select {
		case <-changed:
		case <-m.life.Done():
		}
	}
}

// followStatus makes the sessions as the node stands.
func (m *Mesh) followStatus() {
	m.sessionMu.Lock()
	defer m.sessionMu.Unlock()
	if m.life.Err() != nil {
		return
	}
	s := m.node.Status() // as it is after Forget, if that had the lock
	if s.NodeID != "" && (m.session == nil || m.session.node != s.NodeID) {
		m.session.endSession()
		m.beginSession(s.NodeID, nil)
	}
	switch {
	case s.ControlAvailable && m.serving == nil:
		ctx, cancel := context.WithCancel(m.life)
		m.serving = &session{node: s.NodeID, cancel: cancel}
		m.serving.work.Go(func() { m.serveTable(ctx) })
	case !s.ControlAvailable && m.serving != nil:
		m.serving.endSession()
		m.serving = nil
		m.setSource(nil)
	}
}

// beginSession follows a manager as this node, from the table that it has. sessionMu is held.
func (m *Mesh) beginSession(node string, have *table.Table) {
	ctx, cancel := context.WithCancel(m.life)
	s := &session{node: node, cancel: cancel}
	m.session = s
	m.changeState(func() { m.now, m.managers = standing{}, nil })
	if have != nil {
		if err := m.takeView(node, have); err != nil {
			m.opt.Log.Error().Err(err).Msg("the tunnel of the swarm's networks, as it was")
		}
	}
	s.work.Go(func() { m.tellEngine(ctx, node) })
	s.work.Go(func() { m.watchEngine(ctx) })
	s.work.Go(func() { m.keepViews(ctx, node) })
	s.work.Go(func() {
		table.Follow(ctx, table.FollowOptions{
			Managers: m.listManagers, TLS: m.identity.followTLS, Check: m.identity.checkManager, Have: have,
			Apply:   func(ctx context.Context, t *table.Table) error { return m.applyView(ctx, node, t) },
			Settled: func(v uint64) { m.changeState(func() { m.now.settled = v }) },
			Report: func(manager string, err error) {
				m.opt.Log.Debug().Str("manager", manager).Err(err).Msg("the table of networks comes from this manager no more")
			},
		})
	})
}

// endSessions ends all that runs, and returns the node that it ran for, "" if there was none.
func (m *Mesh) endSessions() (node string) {
	m.sessionMu.Lock()
	defer m.sessionMu.Unlock()
	if m.session != nil {
		node = m.session.node
	}
	m.session.endSession()
	m.serving.endSession()
	m.session, m.serving = nil, nil
	return node
}

// listManagers returns where managers serve the table, in an order that all nodes have.
func (m *Mesh) listManagers() []string {
	var addrs []string
	for _, p := range m.node.Status().Managers {
		if addr, err := tableAddr(p.Addr); err == nil {
			addrs = append(addrs, addr)
		}
	}
	slices.Sort(addrs)
	addrs = slices.Compact(addrs)
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(addrs) > 0 { // a node that starts again knows none for a moment
		m.managers = addrs
	}
	return slices.Clone(m.managers)
}

// hostLimit bounds how long a table is held back for an engine that is away: the next one may matter more.
const hostLimit = 20 * time.Second

// applyView makes this node as the view says.
func (m *Mesh) applyView(ctx context.Context, node string, view *table.Table) error {
	if err := m.takeView(node, view); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, hostLimit)
	defer cancel()
	turn := uint64(0)
	for {
		now, woken := m.viewState()
		if turn == 0 {
			turn = now.turn
		}
		if now.done >= turn {
			return nil
		}
		select {
		case <-woken:
		case <-ctx.Done():
			return fmt.Errorf("the engine has not taken the view of the swarm's networks: %w", ctx.Err())
		}
	}
}

// takeView leads packets as the view says, and has the engine told.
func (m *Mesh) takeView(node string, view *table.Table) error {
	now, _ := m.viewState()
	err := m.carrier.setView(node, view.WithoutNetworks(now.refused))
	m.changeState(func() {
		m.now.view = view
		m.now.turn++
	})
	return err
}

// viewFile holds the last view, beside the record of the membership.
const viewFile = "networks.json"

// kept is a view on disk.
type kept struct {
	Node  string
	Table *table.Table
}

// readKept returns the last view, nil without one. A damaged one is of no use, and the next one replaces it.
func (m *Mesh) readKept() *kept {
	path := filepath.Join(m.opt.Dir, viewFile)
	var k kept
	err := record.Get(path, &k)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err == nil && (k.Node == "" || k.Table == nil) {
		err = errors.New("it names no node or no table")
	}
	if err != nil {
		m.opt.Log.Warn().Err(err).Str("file", path).Msg("the last view of the swarm's networks is damaged: a manager is waited for")
		return nil
	}
	return &k
}

// keepPause is the least time between two writes of the view.
const keepPause = 3 * time.Second

// keepViews writes the view when it has changed, until ctx ends.
func (m *Mesh) keepViews(ctx context.Context, node string) {
	var last *table.Table
	keep := func() {
		now, _ := m.viewState()
		if now.view == nil || now.view == last {
			return
		}
		last = now.view
		if err := record.Put(filepath.Join(m.opt.Dir, viewFile), kept{node, last}); err != nil {
			m.opt.Log.Error().Err(err).Msg("keep the view of the swarm's networks")
		}
	}
	for {
		now, woken := m.viewState()
		if now.view == last {
			select {
			case <-woken:
				continue
			case <-ctx.Done():
				return
			}
		}
		keep()
		select {
		case <-time.After(keepPause):
		case <-ctx.Done():
			keep()
			return
		}
	}
}

// Forget ends the node's part in the networks of the swarm that it leaves: the engine has none of them after it, nor is there
// a tunnel or a key. An engine that does not answer is told of by the error, and the rest is done.
func (m *Mesh) Forget(ctx context.Context) error {
	node := m.endSessions()
	if node == "" && m.node.Status().State != member.Inactive { // its place was not taken up: the engine may have the networks
		if kept := m.readKept(); kept != nil {
			node = kept.Node
		}
	}
	var errs []error
	if node != "" {
		errs = append(errs, m.leaveEngine(ctx, node))
	}
	errs = append(errs, m.carrier.removeTunnel(), m.keys.removeKey(), record.Remove(filepath.Join(m.opt.Dir, viewFile)))
	m.changeState(func() { m.now = standing{} })
	m.setSource(nil)
	return errors.Join(errs...)
}
