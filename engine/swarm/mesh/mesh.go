// Package mesh joins the networks of a swarm on this node: it learns from a manager what there is (on a manager it tells
// others), carries packets to other nodes by the tunnel, and hands each new view to the engine, which makes bridges, names and
// rules of it. It knows neither rules nor containers.
//
// On every manager a source builds the table of all networks from SwarmKit's stream of changes, and serves it on the TCP port
// after the one at which the manager listens. Every node, managers as well, follows one manager: all the same one, as long as it
// answers. Both sides show the certificates that SwarmKit has given them. The last view lies on disk, and a node that starts
// without managers goes on with it.
//
// The tunnel opens once there is another node. Its device stays when this process ends, and goes when the node leaves the swarm.
package mesh

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"

	"github.com/rs/zerolog"

	"moss/engine/swarm/member"
	"moss/engine/swarm/table"
)

// Device is the name of the tunnel's device in the containers' network namespace.
const Device = "moss-swarm0"

// DefaultDataPort is the UDP port of the tunnel.
const DefaultDataPort = 4789

// Options say where this node's part in the networks lies. Dir and Engine are needed.
type Options struct {
	Dir      string // that of member.Options
	Engine   string // path of the engine's private socket
	NetNS    string // path of the containers' network namespace; empty: there is no tunnel
	DataAddr string // by which others call this node's tunnel: an address, an interface, or BehindNAT; empty: that of the member
	DataPort uint16 // 0: DefaultDataPort
	Log      zerolog.Logger
}

// Mesh is this node's part in the networks of its swarm. Make one with New, start it once its member is open, and close it.
type Mesh struct {
	opt      Options
	identity *identity
	engine   *http.Client
	carrier  *carrier
	keys     *keyring
	life     context.Context //nolint:containedctx // the mesh's own: it runs between requests
	cancel   context.CancelFunc
	work     sync.WaitGroup
	started  chan struct{}  // closed by Start
	node     *member.Member // set by Start

	sessionMu sync.Mutex // guards what runs for one membership
	session   *session
	serving   *session

	mu       sync.Mutex // guards what follows
	woken    chan struct{}
	source   *source
	now      standing
	managers []string // as they were last known
}

// standing is how far this node is. A new session begins with a new one.
type standing struct {
	view    *table.Table      // the last one that came
	turn    uint64            // counts views, and reasons to send one again
	done    uint64            // the turn that the engine has made true
	hosted  *table.Table      // as the engine has it
	refused map[string]string // why it cannot have a network, by id
	settled uint64            // the version that all nodes have
}

// New returns a mesh that does nothing yet. It makes no call: an engine that is away is waited for. A setting that cannot be
// read is an error.
func New(opt Options) (*Mesh, error) {
	if opt.Dir == "" || opt.Engine == "" {
		return nil, errors.New("mesh: no folder or no engine is given")
	}
	if opt.DataPort == 0 {
		opt.DataPort = DefaultDataPort
	}
	dialer := &net.Dialer{}
	m := &Mesh{opt: opt, started: make(chan struct{}), woken: make(chan struct{})}
	m.engine = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", opt.Engine)
		},
		DisableCompression: true, MaxIdleConnsPerHost: 1,
	}}
	m.carrier, m.keys = &carrier{mesh: m}, &keyring{dir: opt.Dir, log: opt.Log}
	m.life, m.cancel = context.WithCancel(context.Background())
	return m, nil
}

// Start begins to follow the membership of a node. It is called once.
func (m *Mesh) Start(node *member.Member) {
	m.node = node
	m.identity = &identity{dir: node.Certificates(), unlock: node.UnlockKeys, admit: m.admitNode}
	close(m.started)
	m.work.Go(m.superviseNode)
}

// Close ends what runs. Networks, rules and the tunnel's device stay as they are.
func (m *Mesh) Close() {
	m.cancel()
	m.work.Wait()
	m.endSessions()
	m.carrier.closeTunnel()
	m.engine.CloseIdleConnections()
}

// changeState changes what is guarded by m.mu, and wakes those who wait.
func (m *Mesh) changeState(do func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	do()
	close(m.woken)
	m.woken = make(chan struct{})
}

// viewState returns how far this node is, and a channel that is closed when that changes.
func (m *Mesh) viewState() (standing, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now, m.woken
}
