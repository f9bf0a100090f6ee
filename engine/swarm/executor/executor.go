package executor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/moby/swarmkit/v2/agent/exec"
	"github.com/moby/swarmkit/v2/api"
	"github.com/rs/zerolog"

	"moss/api/client"
)

// DefaultPatience is how long most calls wait for an engine that is away: longer than its replacement takes. SwarmKit makes
// the call again after that.
const DefaultPatience = 30 * time.Second

// Options say which engine runs the tasks. Socket is needed.
type Options struct {
	Socket      string        // path of the engine's private socket
	HostFolders []string      // absolute paths below which tasks may bind folders of the host; empty: none
	Patience    time.Duration // 0: DefaultPatience
	CgroupRoot  string        // where cgroups are mounted; empty: /sys/fs/cgroup
	CgroupSelf  string        // this process's file of its cgroups; empty: /proc/self/cgroup
	Networks    Networks      // between the nodes; nil: none, and tasks that want one are rejected
	Log         zerolog.Logger
}

// Executor is SwarmKit's exec.Executor for one node. Make one with New and close it.
type Executor struct {
	opt     Options
	engine  *engine
	watcher *watcher
	folders hostFolders

	life   context.Context //nolint:containedctx // the executor's own: work that outlives the call that began it
	cancel context.CancelFunc
	work   sync.WaitGroup

	assigned  chan struct{} // closed once SwarmKit has given this node's tasks
	assignOne sync.Once

	mu        sync.Mutex // guards the fields below
	node      *api.NodeDescription
	described *api.NodeDescription
	known     map[string]bool          // tasks that have a controller
	removing  map[string]chan struct{} // tasks whose left-over container is being removed; closed after that
}

var (
	_ exec.Executor        = (*Executor)(nil)
	_ exec.VolumesProvider = (*Executor)(nil)
)

// New returns an executor. It makes no call: an engine that is away is waited for. The caller closes it once SwarmKit's node has
// ended.
func New(opt Options) (*Executor, error) {
	if opt.Socket == "" {
		return nil, errors.New("executor: no socket of the engine is given")
	}
	folders, err := newHostFolders(opt.HostFolders)
	if err != nil {
		return nil, err
	}
	c, err := client.New(client.Options{Host: "unix://" + opt.Socket, UserAgent: "moss-swarm"})
	if err != nil {
		return nil, fmt.Errorf("executor: %w", err)
	}
	if opt.Patience == 0 {
		opt.Patience = DefaultPatience
	}
	if opt.CgroupRoot == "" {
		opt.CgroupRoot = "/sys/fs/cgroup"
	}
	if opt.CgroupSelf == "" {
		opt.CgroupSelf = "/proc/self/cgroup"
	}
	x := &Executor{
		opt: opt, engine: &engine{client: c, patience: opt.Patience}, folders: folders,
		assigned: make(chan struct{}), known: map[string]bool{}, removing: map[string]chan struct{}{},
	}
	x.life, x.cancel = context.WithCancel(context.Background())
	x.watcher = newWatcher(x.life, x.engine)
	x.work.Go(x.removeLeftovers)
	return x, nil
}

// Close ends what the executor does in the background and waits for it. Containers go on.
func (x *Executor) Close() error {
	x.cancel()
	x.watcher.awaitEnd()
	x.work.Wait()
	x.engine.client.Close()
	return nil
}

// Configure takes the manager's record of this node, whose description templates may name.
func (x *Executor) Configure(_ context.Context, node *api.Node) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.node = node.Description.Copy()
	return nil
}

// Controller returns the controller of a task. The caller closes it. A task that is no container gives
// exec.ErrRuntimeUnsupported; all other checks are Prepare's, so that a task whose container runs already keeps its controller.
func (x *Executor) Controller(t *api.Task) (exec.Controller, error) {
	if t.Spec.GetContainer() == nil {
		return nil, exec.ErrRuntimeUnsupported
	}
	x.mu.Lock()
	x.known[t.ID] = true
	x.mu.Unlock()
	return newController(x, t.Copy()), nil
}

// SetNetworkBootstrapKeys does nothing: the networks between nodes have keys of their own.
func (x *Executor) SetNetworkBootstrapKeys([]*api.EncryptionKey) error { return nil }

// forgetTask says that a task has no controller any more.
func (x *Executor) forgetTask(taskID string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.known, taskID)
}

// describedNode is the node as templates see it: as the manager knows it, otherwise as it was described last.
func (x *Executor) describedNode() *api.NodeDescription {
	x.mu.Lock()
	defer x.mu.Unlock()
	node := x.node
	if node == nil {
		node = x.described
	}
	if node == nil || node.Platform != nil {
		return node
	}
	node = node.Copy()
	node.Platform = &api.Platform{} // SwarmKit's templates take it for granted
	return node
}
