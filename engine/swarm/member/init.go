package member

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/moby/swarmkit/v2/api"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"moss/engine/fault"
)

// InitOptions say what the new swarm is to be.
type InitOptions struct {
	ListenAddr      string // "address:port", an interface, or both; empty: 0.0.0.0:2377
	AdvertiseAddr   string // the same; empty: the one address of this host, else an error with the list
	DataPathAddr    string // an address or an interface, for the networks between nodes; empty: AdvertiseAddr
	ForceNewCluster bool   // also in a swarm, whose state is kept and whose other managers are forgotten
	AutoLock        bool
	Availability    api.NodeSpec_Availability
	Change          func(*api.ClusterSpec) error // of SwarmKit's default settings; may be nil
}

// Init makes a swarm with this node as its manager, and returns the node's id once it answers. It goes on if ctx ends. A
// failure leaves nothing behind. The errors are fault.NotAcceptable in a swarm, fault.Invalid with the name of a field, those of
// Change, and fault.Unavailable after Options.Patience.
func (m *Member) Init(ctx context.Context, opt InitOptions) (nodeID string, err error) {
	end, err := m.beginVerb(ctx)
	if err != nil {
		return "", err
	}
	defer end()
	if m.inSwarm() {
		if opt.ForceNewCluster {
			return m.forceNew(ctx, opt)
		}
		return "", errInSwarm()
	}
	record, err := m.initRecord(opt)
	if err != nil {
		return "", err
	}
	pool, err := m.initPool()
	if err != nil {
		return "", err
	}
	if err := tryListen(record.ListenAddr); err != nil {
		return "", err
	}
	first := attempt{autoLock: opt.AutoLock, availability: opt.Availability, forceNew: opt.ForceNewCluster, pool: pool}
	k, err := m.enterSwarm(ctx, record, first)
	if err != nil {
		return "", prefixError("make a swarm", err)
	}
	if err := changeCluster(ctx, k, opt.Change); err != nil {
		m.undoEntry(ctx)
		return "", err
	}
	return k.viewRunning().node.NodeID(), nil
}

// initRecord chooses the addresses of a node that makes a swarm.
func (m *Member) initRecord(opt InitOptions) (*membership, error) {
	list, err := m.opt.Interfaces()
	if err != nil {
		return nil, err
	}
	book := addressBook(list)
	listen, err := book.resolveListen(opt.ListenAddr)
	if err != nil {
		return nil, err
	}
	advertise, err := book.resolveAdvertise(opt.AdvertiseAddr, listen)
	if err != nil {
		return nil, err
	}
	if !advertise.addr.IsValid() {
		if advertise.addr, err = book.chooseAdvertise(); err != nil {
			return nil, err
		}
	}
	data, err := book.resolveData(opt.DataPathAddr)
	if err != nil {
		return nil, err
	}
	return &membership{
		ListenAddr: listen.String(), AdvertiseAddr: advertise.String(), DataPathAddr: data, Machine: m.opt.Machine,
	}, nil
}

// enterSwarm takes the first way into a swarm and waits for its end. A failure leaves nothing behind, but for a node that has
// its certificate already: it goes on.
func (m *Member) enterSwarm(ctx context.Context, record *membership, first attempt) (*keeper, error) {
	if err := prepareFolder(m.opt.Dir); err != nil {
		return nil, err
	}
	lock, err := lockFolder(ctx, m.opt.Dir)
	if err != nil {
		return nil, err
	}
	if err := record.putIn(m.opt.Dir); err != nil {
		lock.unlockFolder()
		return nil, errors.Join(err, removeMembership(m.opt.Dir))
	}
	m.mu.Lock()
	k := m.startKeeper(record, first, false) //nolint:contextcheck // it outlives the request
	m.record, m.keeper, m.lock, m.broken = record, k, lock, nil
	m.mu.Unlock()
	err = waitEntered(context.WithoutCancel(ctx), k)
	if err == nil {
		return k, nil
	}
	if fault.Is(err, fault.Unavailable) && record.Joining && isKnown(k) {
		k.startAgain() // the managers count on this node already
		return nil, err
	}
	m.undoEntry(ctx)
	return nil, err
}

// isKnown reports whether a node has been given its certificate.
func isKnown(k *keeper) bool {
	now := k.viewRunning()
	return now.node != nil && now.node.NodeID() != ""
}

// waitEntered waits until a node takes part in its swarm, or has failed to.
func waitEntered(ctx context.Context, k *keeper) error {
	limit := time.NewTimer(k.opt.Patience)
	defer limit.Stop()
	select {
	case <-k.entered:
		return nil
	case <-k.ended:
		if err := k.viewRunning().err; err != nil {
			return explainError(err)
		}
		return fault.Unavailable("moss-swarm is about to end")
	case <-limit.C:
	case <-ctx.Done():
	}
	text := "Timeout was reached before node joined."
	if now := k.viewRunning(); now.said != "" {
		text += " The last error: " + now.said
	}
	return fault.Unavailable("%s", text)
}

// undoEntry gives up a membership that did not come to be.
func (m *Member) undoEntry(ctx context.Context) {
	if err := m.giveUp(ctx); err != nil {
		m.opt.Log.Error().Err(err).Msg("give up a place in a swarm")
	}
}

// changeCluster puts what is asked for into the settings of a swarm that has just begun.
func changeCluster(ctx context.Context, k *keeper, change func(*api.ClusterSpec) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.opt.Patience)
	defer cancel()
	for {
		control, cluster, err := findCluster(ctx, k)
		if err != nil {
			return err
		}
		if change == nil {
			return nil
		}
		spec := cluster.Spec.Copy()
		if err := change(spec); err != nil {
			return err
		}
		_, err = control.UpdateCluster(ctx, &api.UpdateClusterRequest{
			ClusterID: cluster.ID, ClusterVersion: &cluster.Meta.Version, Spec: spec,
		})
		switch {
		case err == nil:
			return nil
		case status.Code(err) == codes.InvalidArgument:
			return fault.Invalid("Spec: %w", explainError(err))
		case status.Code(err) != codes.FailedPrecondition && status.Code(err) != codes.Unknown || ctx.Err() != nil:
			return prefixError("change the settings of the swarm", err)
		}
		// The leader has changed the swarm since it was read.
	}
}

// findCluster waits for the settings, which a leader writes when it becomes one.
func findCluster(ctx context.Context, k *keeper) (api.ControlClient, *api.Cluster, error) {
	for {
		if conn := k.viewRunning().conn; conn != nil {
			control := api.NewControlClient(conn)
			list, err := control.ListClusters(ctx, &api.ListClustersRequest{})
			if err == nil && len(list.Clusters) == 1 {
				return control, list.Clusters[0], nil
			}
		}
		select {
		case <-time.After(10 * time.Millisecond): // there is no event of it that this node could read before
		case <-k.ended:
			return nil, nil, fmt.Errorf("the swarm's node ended: %w", k.viewRunning().err)
		case <-ctx.Done():
			return nil, nil, fault.Unavailable("the new swarm has no leader")
		}
	}
}

// forceNew makes a new swarm of what this node knows of its present one.
func (m *Member) forceNew(ctx context.Context, opt InitOptions) (nodeID string, err error) {
	old, k, _ := m.viewMembership()
	if old == nil {
		return "", fault.NotAcceptable(`The record of this node's swarm is damaged: "swarm leave --force" gives the swarm up`)
	}
	if opt.ListenAddr == "" {
		opt.ListenAddr = old.ListenAddr
	}
	if opt.DataPathAddr == "" {
		opt.DataPathAddr = old.DataPathAddr
	}
	record, err := m.initRecord(opt)
	if err != nil {
		return "", err
	}
	if k != nil {
		k.stopNode(ctx, false)
	}
	m.mu.Lock()
	locked := m.lock != nil
	m.mu.Unlock()
	if !locked {
		lock, err := lockFolder(ctx, m.opt.Dir)
		if err != nil {
			return "", err
		}
		m.mu.Lock()
		m.lock = lock // also if what follows fails: a second lock of the folder would be refused
		m.mu.Unlock()
	}
	if err := record.putIn(m.opt.Dir); err != nil {
		return "", err
	}
	first := attempt{forceNew: true, availability: opt.Availability}
	m.mu.Lock()
	next := m.startKeeper(record, first, false) //nolint:contextcheck // it outlives the request
	m.record, m.keeper, m.broken = record, next, nil
	m.mu.Unlock()
	if err := waitEntered(context.WithoutCancel(ctx), next); err != nil {
		next.startAgain() // what there is of the swarm stays
		return "", prefixError("make a new swarm of the present one", err)
	}
	if err := changeCluster(ctx, next, opt.Change); err != nil {
		return "", err
	}
	return next.viewRunning().node.NodeID(), nil
}
