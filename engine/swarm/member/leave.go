package member

import (
	"context"
	"errors"
	"fmt"

	"github.com/moby/swarmkit/v2/api"

	"moss/engine/fault"
)

// Leave ends the tasks of this node and forgets the swarm. A manager, and a node whose record is damaged, need force. The errors
// are fault.NotAcceptable in no swarm, and fault.Unavailable with what force would do.
func (m *Member) Leave(ctx context.Context, force bool) error {
	end, err := m.beginVerb(ctx)
	if err != nil {
		return err
	}
	defer end()
	if !m.inSwarm() {
		return errNoSwarm()
	}
	if !force {
		if err := m.checkLeave(ctx); err != nil {
			return err
		}
	}
	m.opt.Log.Info().Bool("force", force).Msg("leave the swarm")
	return m.giveUp(ctx)
}

// giveUp ends the node and removes what it has. The caller holds the verb.
func (m *Member) giveUp(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx) // half a place in a swarm is none
	_, k, _ := m.viewMembership()
	if k != nil {
		k.stopNode(ctx, true)
	}
	var tasks error
	if m.opt.RemoveTasks != nil {
		bounded, cancel := context.WithTimeout(ctx, stopLimit)
		defer cancel()
		tasks = m.opt.RemoveTasks(bounded)
	}
	if m.opt.Forget != nil {
		bounded, cancel := context.WithTimeout(ctx, stopLimit)
		defer cancel()
		if err := m.opt.Forget(bounded); err != nil {
			m.opt.Log.Warn().Err(err).Msg("end the networks of the swarm")
		}
	}
	if err := removeMembership(m.opt.Dir); err != nil {
		return fmt.Errorf("forget the swarm: %w", err)
	}
	m.mu.Lock()
	lock := m.lock
	m.record, m.keeper, m.lock, m.broken = nil, nil, nil, nil
	m.mu.Unlock()
	m.change.tellChange()
	lock.unlockFolder()
	if tasks != nil {
		return fmt.Errorf("the swarm is left, but not all containers of its tasks could be removed: %w", tasks)
	}
	return nil
}

const (
	asManager = "You are attempting to leave the swarm on a node that is participating as a manager. "
	lastOne   = "Removing the last manager erases all current state of the swarm. Use `--force` to ignore this message."
	onlyWay   = "The only way to restore a swarm that has lost consensus is to reinitialize it with `--force-new-cluster`. " +
		"Use `--force` to suppress this message."
)

// checkLeave says what a swarm would lose with this node.
func (m *Member) checkLeave(ctx context.Context) error {
	_, k, broken := m.viewMembership()
	if broken != nil {
		return fault.Unavailable("This node's place in its swarm cannot be used: %w. Use `--force` to give it up.", broken)
	}
	now := k.viewRunning()
	switch {
	case errors.Is(now.err, errLocked):
		return fault.Unavailable("Swarm is encrypted and locked. Please unlock it first or use `--force` to ignore this message.")
	case now.conn == nil && (now.node == nil || now.node.Manager() == nil):
		return nil
	case now.conn == nil:
		return fault.Unavailable(asManager + "Doing so may lose the consensus of your cluster. " + onlyWay)
	}
	reachable, unreachable, err := countManagers(ctx, api.NewControlClient(now.conn))
	switch {
	case err != nil:
		return fault.Unavailable(asManager + "Doing so may lose the consensus of your cluster. " + onlyWay)
	case reachable+unreachable <= 1:
		return fault.Unavailable(asManager + lastOne)
	case reachable-1 <= (reachable+unreachable)/2:
		return fault.Unavailable(asManager+"Removing this node leaves %d managers out of %d. Without a Raft quorum your swarm will "+
			"be inaccessible. "+onlyWay, reachable-1, reachable+unreachable)
	default:
		return fault.Unavailable(asManager + onlyWay)
	}
}

// countManagers counts those that the swarm reaches and those that it does not.
func countManagers(ctx context.Context, control api.ControlClient) (reachable, unreachable int, err error) {
	list, err := control.ListNodes(ctx, &api.ListNodesRequest{})
	if err != nil {
		return 0, 0, err
	}
	for _, n := range list.Nodes {
		switch {
		case n.ManagerStatus == nil:
		case n.ManagerStatus.Reachability == api.RaftMemberStatus_REACHABLE:
			reachable++
		default:
			unreachable++
		}
	}
	return reachable, unreachable, nil
}
