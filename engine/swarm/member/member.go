// Package member is this node's membership in a swarm: SwarmKit's node, the folder with its state, and the record that says that
// there is one. It knows neither Docker's API nor containers; tasks are run by the executor that it is given.
package member

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/moby/swarmkit/v2/agent/exec"
	"github.com/moby/swarmkit/v2/api"
	"github.com/rs/zerolog"
	"google.golang.org/grpc"

	"moss/engine/fault"
	"moss/engine/swarm/provider"
)

// Options say where a membership lies and what runs its tasks.
type Options struct {
	Dir         string        // holds the record and SwarmKit's state; made by Init and Join, removed by Leave
	Control     string        // path of SwarmKit's own socket, 100 bytes at most; its folder exists and is the owner's alone
	Executor    exec.Executor // runs tasks
	RemoveTasks func(ctx context.Context) error
	Forget      func(ctx context.Context) error // ends what others have made of the swarm on this node, after RemoveTasks
	Interfaces  func() ([]Interface, error)     // of this host; nil: asked of the kernel
	Patience    time.Duration                   // with a swarm that does not answer; 0: DefaultPatience
	Machine     string                          // tells this machine from others; empty: a copied folder is not noticed
	Pool        string                          // of the networks of a swarm that this node makes, as ParsePool reads it
	Taken       func() []provider.Taken         // routes of nodes, on a manager; as that of provider.Options
	Log         zerolog.Logger
}

// State is where a node stands with its swarm.
type State string

// The states, as clients know them.
const (
	Inactive State = "inactive" // in no swarm
	Pending  State = "pending"  // on its way in, or back
	Active   State = "active"
	Failed   State = "error"
	Locked   State = "locked" // waits for Unlock
)

// Peer is a manager of the swarm.
type Peer struct {
	NodeID string
	Addr   string // "address:port"
}

// Status is what a node knows of itself.
type Status struct {
	NodeID           string
	NodeAddr         string // without port; empty: not known
	State            State
	ControlAvailable bool // this node is a manager that answers
	Error            string
	Managers         []Peer // by NodeID
}

// Member is this node's part in a swarm, or none. Make one with Open and close it.
type Member struct {
	opt      Options
	networks *provider.Provider
	life     context.Context //nolint:containedctx // the node's own: it runs between requests
	cancel   context.CancelFunc
	verb     chan struct{} // holds a token while a verb changes the membership
	change   *change

	mu     sync.Mutex  // guards the fields below
	record *membership // as it was when keeper began
	keeper *keeper     // runs the node of record; nil: there is none, or its record is damaged
	lock   *folderLock
	broken error // why the record could not be used
}

// DefaultPatience bounds the way into a swarm, the wait for its leader, and how long Status gives no reason for a node that
// is not back in its swarm.
const DefaultPatience = 20 * time.Second

// Open takes up the membership that the folder holds, if it does. A node that cannot go on is no error: Status tells why, and
// Leave with force ends it.
func Open(opt Options) *Member {
	if opt.Interfaces == nil {
		opt.Interfaces = systemInterfaces
	}
	if opt.Patience == 0 {
		opt.Patience = DefaultPatience
	}
	networks := provider.New(provider.Options{Taken: opt.Taken})
	m := &Member{opt: opt, networks: networks, verb: make(chan struct{}, 1), change: &change{}}
	m.life, m.cancel = context.WithCancel(context.Background())
	m.takeUp()
	return m
}

// takeUp starts the node of the record.
func (m *Member) takeUp() {
	record, err := readMembership(m.opt.Dir)
	if fault.Is(err, fault.NotFound) {
		return
	}
	var lock *folderLock
	if err == nil {
		err = record.checkMachine(m.opt.Machine)
	}
	if err == nil {
		lock, err = lockFolder(m.life, m.opt.Dir)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.record, m.lock = record, lock
	if err != nil {
		m.broken = err
		m.opt.Log.Error().Err(err).Msg("this node's place in its swarm")
		return
	}
	m.keeper = m.startKeeper(record, attempt{}, true)
}

// Close ends the node and leaves its place in the swarm, which Open takes up again. Tasks go on. It may be called again.
func (m *Member) Close() {
	m.cancel() // no verb begins any more
	m.verb <- struct{}{}
	defer func() { <-m.verb }()
	m.mu.Lock()
	keeper, lock := m.keeper, m.lock
	m.lock = nil
	m.mu.Unlock()
	if keeper != nil {
		<-keeper.ended
	}
	lock.unlockFolder()
}

// beginVerb waits until no other verb is at work. Its end is end.
func (m *Member) beginVerb(ctx context.Context) (end func(), err error) {
	select {
	case m.verb <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-m.life.Done():
		return nil, fault.Unavailable("moss-swarm is about to end")
	}
	if m.life.Err() != nil {
		<-m.verb
		return nil, fault.Unavailable("moss-swarm is about to end")
	}
	return func() { <-m.verb }, nil
}

// viewMembership returns what the membership is made of at this moment.
func (m *Member) viewMembership() (record *membership, k *keeper, broken error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.record, m.keeper, m.broken
}

// inSwarm reports whether this node has a place in a swarm, be it a broken one.
func (m *Member) inSwarm() bool {
	record, _, broken := m.viewMembership()
	return record != nil || broken != nil
}

// Holds tells whether this process keeps the node's place in a swarm. It does not where the record is damaged, or the folder is
// that of another machine or of another process: who has only the files must not act as the node.
func (m *Member) Holds() bool {
	_, k, broken := m.viewMembership()
	return k != nil && broken == nil
}

// Control returns the managers' API. The errors are fault.NotAcceptable: in no swarm, a worker, locked; and fault.Unavailable
// for a manager that is on its way. Calls of the client end within Options.Patience; without a leader they end with the code
// Unavailable of gRPC.
func (m *Member) Control() (api.ControlClient, error) {
	conn, err := m.findManager()
	if err != nil {
		return nil, err
	}
	return api.NewControlClient(conn), nil
}

// CA returns the managers' certificate authority, which knows the key of locked managers. It is as Control.
func (m *Member) CA() (api.CAClient, error) {
	conn, err := m.findManager()
	if err != nil {
		return nil, err
	}
	return api.NewCAClient(conn), nil
}

// findManager returns the connection to the manager of this node.
func (m *Member) findManager() (*grpc.ClientConn, error) {
	_, k, broken := m.viewMembership()
	if k == nil {
		if broken != nil {
			return nil, fault.NotAcceptable("This node's place in its swarm cannot be used: %w", broken)
		}
		return nil, errNoSwarm()
	}
	now := k.viewRunning()
	switch {
	case now.conn != nil:
		return now.conn, nil
	case errors.Is(now.err, errLocked):
		return nil, fault.NotAcceptable("%w", errLocked)
	case errors.Is(now.err, errExpired):
		return nil, fault.NotAcceptable("%w", errExpired)
	case now.node != nil && now.node.Manager() != nil:
		return nil, fault.Unavailable(
			"This node is not a swarm manager. Manager is being prepared or has trouble connecting to the cluster.")
	case now.ready:
		return nil, fault.NotAcceptable("This node is not a swarm manager. Worker nodes can't be used to view or modify cluster " +
			"state. Please run this command on a manager node or promote the current node to a manager.")
	case now.err != nil:
		return nil, fault.NotAcceptable("This node is not a swarm manager: its place in the swarm cannot be taken up: %w", now.err)
	default:
		return nil, fault.NotAcceptable("This node is not a swarm manager. It is on its way into its swarm.")
	}
}

// Status returns where this node stands. It does not block.
func (m *Member) Status() Status {
	record, k, broken := m.viewMembership()
	if broken != nil {
		return Status{State: Failed, Error: broken.Error()}
	}
	if k == nil {
		return Status{State: Inactive}
	}
	now := k.viewRunning()
	s := Status{NodeAddr: record.nodeAddr(), State: Pending, ControlAvailable: now.conn != nil}
	if now.node != nil {
		s.NodeID = now.node.NodeID()
		s.Managers = listPeers(now.node.Remotes())
	}
	switch {
	case errors.Is(now.err, errLocked):
		s.State = Locked
	case now.ready:
		s.State = Active
	case now.err != nil:
		s.State, s.Error = Failed, now.err.Error()
	case time.Since(now.begun) > m.opt.Patience:
		s.Error = "The node has not reached its swarm yet: no manager answers, too few of them are online, or they do not know this " +
			"node any more."
		if now.said != "" {
			s.Error += " The last error: " + now.said
		}
	}
	return s
}

// listPeers lists managers by their ids. One that is known by its address alone has none.
func listPeers(list []api.Peer) []Peer {
	found := make([]Peer, 0, len(list))
	for _, p := range list {
		found = append(found, Peer{NodeID: p.NodeID, Addr: p.Addr})
	}
	slices.SortFunc(found, func(a, b Peer) int { return strings.Compare(a.NodeID+" "+a.Addr, b.NodeID+" "+b.Addr) })
	return found
}

// errNoSwarm is the answer of a node that is in no swarm.
func errNoSwarm() error {
	return fault.NotAcceptable(`This node is not part of a swarm. Use "swarm init" or "swarm join" to connect this node to a ` +
		`swarm and try again.`)
}

func errInSwarm() error {
	return fault.NotAcceptable(`This node is already part of a swarm. Use "swarm leave" to leave this swarm and join another one.`)
}
