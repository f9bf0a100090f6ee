package member

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"time"

	"github.com/moby/swarmkit/v2/api"
	"github.com/moby/swarmkit/v2/log"
	"github.com/moby/swarmkit/v2/manager/allocator/networkallocator"
	"github.com/moby/swarmkit/v2/node"
	"google.golang.org/grpc"

	"moss/engine/swarm/provider"
)

// attempt is what only the first start of a node is told.
type attempt struct {
	forceNew, autoLock bool
	availability       api.NodeSpec_Availability
	key                []byte                   // that unlocks it
	pool               *networkallocator.Config // of a swarm that it makes
}

// The delays between the starts of a node that ends by itself.
const (
	firstDelay = 100 * time.Millisecond // doubles
	lastDelay  = 30 * time.Second
	stopLimit  = 15 * time.Second // for the end of a node
)

// keeper runs the node of one membership, and starts it again when it ends by itself.
type keeper struct {
	dir, control string
	opt          Options
	networks     *provider.Provider
	cancel       context.CancelFunc
	entered      chan struct{} // closed once the node is ready for the first time
	ended        chan struct{} // closed once no node runs and none will
	unlockKey    []byte        // that it was given; nil: none
	change       *change

	mu     sync.Mutex // guards the fields below
	record *membership
	again  bool // a node that was never ready is started again as well
	now    running
}

// running is a node at one moment.
type running struct {
	node  *node.Node       // nil: between two starts
	conn  *grpc.ClientConn // to the manager of this node; nil: there is none that answers
	ready bool             // the node takes part in its swarm
	begun time.Time        // of the first start
	err   error            // why the last start ended
	said  string           // the last error of its log
}

// startKeeper starts the node of a record and returns at once. Without again it ends at a first failure.
func (m *Member) startKeeper(record *membership, first attempt, again bool) *keeper {
	ctx, cancel := context.WithCancel(m.life)
	k := &keeper{
		dir: filepath.Join(m.opt.Dir, stateName), control: m.opt.Control, opt: m.opt, networks: m.networks, change: m.change,
		record: record, again: again, unlockKey: first.key, cancel: cancel, entered: make(chan struct{}), ended: make(chan struct{}),
	}
	k.now.begun = time.Now()
	go k.runNodes(ctx, first)
	return k
}

// viewRunning returns what runs now.
func (k *keeper) viewRunning() running {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now
}

// currentRecord returns the record as it is now.
func (k *keeper) currentRecord() *membership {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.record
}

// changeRunning changes what runs now.
func (k *keeper) changeRunning(do func(*running)) {
	k.mu.Lock()
	do(&k.now)
	k.mu.Unlock()
	k.change.tellChange()
}

// startAgain makes a node that was never ready one that is started again.
func (k *keeper) startAgain() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.again = true
}

// runNodes starts the node until the context ends, or it is of no use.
func (k *keeper) runNodes(ctx context.Context, first attempt) {
	defer close(k.ended)
	delay := firstDelay
	for {
		begun := time.Now()
		err := classifyEnd(k.runNode(ctx, first))
		first = attempt{key: first.key}
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("the node ended by itself")
		}
		k.mu.Lock()
		k.now.err = err
		again := k.again
		k.mu.Unlock()
		if !again || errors.Is(err, errLocked) || errors.Is(err, errExpired) {
			k.opt.Log.Warn().Err(err).Msg("the swarm's node ended")
			return
		}
		if time.Since(begun) > lastDelay {
			delay = firstDelay
		}
		k.opt.Log.Error().Err(err).Dur("delay", delay).Msg("the swarm's node ended, starting it again")
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return
		}
		delay = min(2*delay, lastDelay)
	}
}

// runNode runs one node to its end.
func (k *keeper) runNode(ctx context.Context, first attempt) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	logged := log.WithLogger(ctx, newNodeLog(k.opt.Log, func(text string) { k.changeRunning(func(r *running) { r.said = text }) }))
	if r := k.currentRecord(); r.Joining {
		key, err := k.fetchCertificate(logged, r, first.availability)
		if err != nil {
			return err
		}
		if key != nil {
			first.key = key
		}
	}
	n, err := node.New(k.nodeConfig(first))
	if err != nil {
		return err
	}
	if err := n.Start(logged); err != nil {
		return err
	}
	k.changeRunning(func(r *running) { r.node = n })
	ended := make(chan struct{})
	var watchers sync.WaitGroup
	watchers.Go(func() { k.watchReady(n, ended) })
	watchers.Go(func() { k.watchControl(ctx, n) })
	err = n.Err(context.WithoutCancel(ctx)) // the node ends with ctx, and is waited for
	close(ended)
	cancel()
	watchers.Wait()
	k.changeRunning(func(r *running) { r.node, r.ready = nil, false })
	return err
}

func (k *keeper) nodeConfig(first attempt) *node.Config {
	r := k.currentRecord()
	c := &node.Config{
		StateDir: k.dir, ListenControlAPI: k.control, ListenRemoteAPI: r.ListenAddr, AdvertiseRemoteAPI: r.AdvertiseAddr,
		Executor: k.opt.Executor, ForceNewCluster: first.forceNew, AutoLockManagers: first.autoLock, UnlockKey: first.key,
		Availability: first.availability, NetworkProvider: k.networks, NetworkConfig: first.pool,
	}
	if r.Joining {
		c.JoinAddr, c.JoinToken = r.RemoteAddr, r.Token
	}
	return c
}

// watchReady notes that the node takes part in its swarm.
func (k *keeper) watchReady(n *node.Node, ended <-chan struct{}) {
	select {
	case <-n.Ready():
	case <-ended:
		return
	}
	select {
	case <-ended: // Ready is closed by a node's end as well
		return
	default:
	}
	k.mu.Lock()
	k.again = true
	k.now.ready, k.now.err, k.now.said = true, nil, ""
	joined := k.record.Joining
	if joined {
		next := *k.record
		next.Joining, next.RemoteAddr, next.Token = false, "", ""
		k.record = &next
	}
	record := k.record
	k.mu.Unlock()
	k.change.tellChange()
	if joined {
		if err := record.putIn(k.opt.Dir); err != nil {
			k.opt.Log.Error().Err(err).Msg("note that this node has joined its swarm")
		}
	}
	select {
	case <-k.entered:
	default:
		close(k.entered)
	}
}

// watchControl follows whether the node is a manager that answers.
func (k *keeper) watchControl(ctx context.Context, n *node.Node) {
	var conn *grpc.ClientConn
	for theirs := range n.ListenControlSocket(ctx) {
		next := conn
		if theirs == nil {
			next = nil
		} else if conn == nil {
			var err error
			if next, err = dialControl(k.control, k.opt.Patience); err != nil {
				k.opt.Log.Error().Err(err).Msg("reach the swarm's manager")
				continue
			}
		}
		k.setControl(conn, next)
		conn = next
	}
	k.setControl(conn, nil)
}

// setControl puts a connection in the place of another one, which is closed.
func (k *keeper) setControl(old, next *grpc.ClientConn) {
	if old == next {
		return
	}
	k.changeRunning(func(r *running) { r.conn = next })
	if old != nil {
		_ = old.Close()
	}
}

// stopNode ends the node. With leave its tasks are ended first, as far as stopLimit allows.
func (k *keeper) stopNode(ctx context.Context, leave bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	if now := k.viewRunning(); leave && now.node != nil {
		// Node.Stop would hold a lock of the node meanwhile, for which Status waits.
		if agent := now.node.Agent(); agent != nil {
			if err := agent.Leave(ctx); err != nil {
				k.opt.Log.Warn().Err(err).Msg("end the tasks of this node")
			}
		}
	}
	k.cancel()
	<-k.ended
}
