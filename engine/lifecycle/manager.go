package lifecycle

import (
	"context"
	"io"
	"path/filepath"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"moss/engine/container"
	"moss/engine/container/life"
	"moss/engine/event"
	"moss/engine/image"
	"moss/engine/logs"
	"moss/engine/network"
	"moss/engine/ocispec"
	"moss/engine/session"
	"moss/engine/task"
)

// layers keeps the writable layers of containers. A container's id names its layer.
type layers interface {
	Create(ctx context.Context, containerID, imageID string) error
	layerMounts
	Remove(ctx context.Context, containerID string) error
	Size(ctx context.Context, containerID string) (rw, rootfs int64, err error)
	Diff(ctx context.Context, containerID string, skip []string) (io.ReadCloser, error)
	Containers(ctx context.Context) ([]string, error)
	Driver() string
}

// layerMounts mounts writable layers. Detach takes the mount of one that runs away until the next Mount; Reclaim finds
// what an earlier engine has detached.
type layerMounts interface {
	Mount(ctx context.Context, containerID string) (dir string, err error)
	Unmount(ctx context.Context, containerID string) error
	Detach(ctx context.Context, containerID string) error
	Reclaim(ctx context.Context, containerID string, pid int) error
	// SetVolatile says whether mounts to come keep nothing back for the disk. fault.Conflict while there is a mount.
	SetVolatile(ctx context.Context, containerID string, volatile bool) error
}

// images finds the image that a client names, fault.NotFound if there is none, and makes images of containers.
type images interface {
	Get(ctx context.Context, ref string) (*image.Image, error)
	Commit(ctx context.Context, c image.Commit, open func(context.Context) (io.ReadCloser, error)) (id, name string, err error)
}

// networks gives containers their network. Leave of a container that has none is no error.
type networks interface {
	Join(ctx context.Context, req network.Request) (network.Sandbox, error)
	Leave(ctx context.Context, containerID string) error
	Restore(ctx context.Context, live map[string]network.Joined) error
	connections
}

// connections change the networks of containers that run. Each container's are changed by one caller at a time, and Leave
// is such a change. Connect and Disconnect return the whole new state; on error all is as before.
type connections interface {
	Connect(ctx context.Context, containerID string, a network.Attachment) (network.Sandbox, error)
	Disconnect(ctx context.Context, containerID, networkID string) (network.Sandbox, error)
	Rename(containerID string, all []network.Attachment)
}

// events is told what happened.
type events interface {
	Publish(e event.Event)
}

// Options is what a Manager is made of. Every field is needed unless it says otherwise.
type Options struct {
	Root         string // data folder: records and logs go to <Root>/containers/<id>
	RunDir       string // this boot's folder: tasks go to <RunDir>/tasks/<id>
	Layers       layers
	Mapped       mappedLayers // for UsernsMode keep-id; may be nil: it is refused
	Differences  differences
	Images       images
	Networks     networks
	NetworkStore networkStore
	Volumes      volumes
	Events       events
	Tasks        task.Runner
	Specs        *ocispec.Builder
	Seccomp      seccompCache // may be nil: the runtime compiles each filter itself
	Runtime      task.Runtime
	Damage       damaged
	Log          zerolog.Logger

	Keepalive   string            // see task.Spec
	BootID      string            // of the running kernel
	User        container.UserIDs // whom the engine runs as, outside its namespaces
	UserName    string            // of User on the host, for accounts in containers that keep ids; may be empty
	UserHome    string            // on the host; may be empty
	KeepID      container.IDMap   // in which User has its own numbers, made of all ids there are; zero: there is none
	Proxies     []string          // variables, NAME=VALUE, that containers get beside their own; may be empty
	CgroupBase  string            // path below which containers' cgroups go; empty: none
	Controllers container.Controllers
	EmulateIDs  bool // as in ocispec.Options
}

// seccompCache holds filters that the runtime has compiled before, by the key that ocispec.SeccompKey gives.
type seccompCache interface {
	Get(key string) (bpf []byte, ok bool)
	Keep(key, path string) // path of the file in which the runtime left what it compiled
}

// Manager knows all containers. Make one with New; Run it; Close it after Shutdown.
type Manager struct {
	opt     Options
	index   index
	buffers session.Buffers // of attached clients

	logChanges logs.Watcher

	cgroups sync.RWMutex // read-locked by every start below a CgroupParent, locked while empty ones are removed

	starting sync.RWMutex // read-locked by every start; guards ending
	ending   bool         // nothing is started any more

	adopted  []adoption // what Run begins with
	watchers []Watcher  // of Run

	background sync.WaitGroup  // watchers, timers and removals
	life       context.Context //nolint:containedctx // of the manager itself, for work that no request owns
	end        context.CancelFunc
}

// New reads the records of all containers, takes over those that still run and records how the others ended. After it
// the manager answers truthfully, and nothing happens by itself before Run. ctx bounds the start only.
func New(ctx context.Context, opt Options) (*Manager, error) {
	m := &Manager{opt: opt}
	m.index.init()
	m.life, m.end = context.WithCancel(context.WithoutCancel(ctx))
	if err := m.reconcile(ctx); err != nil {
		m.end()
		return nil, err
	}
	return m, nil
}

// Run follows the containers that run and starts those whose restart policy says so. Watchers are told of every container that
// has a process, and of every beginning and end from then on. It is called once, before any verb that starts a container.
func (m *Manager) Run(watchers ...Watcher) {
	m.watchers = watchers
	for _, a := range m.adopted {
		if a.running {
			m.tellBegan(a.c.record())
		}
		m.watchTask(a.c, a.task, a.silence)
	}
	m.adopted = nil
	all := m.index.newestFirst()
	begun := startSignals(all)
	for _, c := range all {
		m.resumeContainer(m.life, c, begun)
	}
}

// Close ends the watchers and timers and leaves the containers as they are: those that run go on. It waits for what is
// being written.
func (m *Manager) Close() {
	m.end()
	m.background.Wait()
	m.dropShmDir()
}

// runInBackground runs f beside the verbs, with a context that ends with the manager and not with the request that led to it.
func (m *Manager) runInBackground(f func(ctx context.Context)) {
	m.background.Go(func() { f(m.life) })
}

// isClosing reports whether the manager is being closed.
func (m *Manager) isClosing() bool { return m.life.Err() != nil }

// Shutdown stops all running containers, each with its own stop signal and timeout, and returns when they have ended.
// Their restart policies start them again with the next engine. Starts under way are waited for; from now on a start is
// fault.Unavailable.
func (m *Manager) Shutdown(ctx context.Context) {
	m.starting.Lock()
	m.ending = true
	m.starting.Unlock()
	var all sync.WaitGroup
	for _, c := range m.index.newestFirst() {
		r, err := m.applyEvent(c, life.EndAsked{Op: container.OpStop, Shutdown: true})
		if err != nil {
			continue // it is at rest
		}
		all.Go(func() {
			patience := m.stopTimeout(r, nil)
			if r.Build {
				patience = 0 // it is of no use any more
			}
			if err := m.endProcess(ctx, c, r, patience); err != nil {
				m.opt.Log.Error().Err(err).Str("container", c.id).Msg("container did not stop")
			}
		})
	}
	all.Wait()
}

func (m *Manager) dataDir(id string) string { return filepath.Join(m.opt.Root, "containers", id) }

func (m *Manager) taskDir(id string) string { return filepath.Join(m.opt.RunDir, "tasks", id) }

// publishEvent tells of something that happened to a container.
func (m *Manager) publishEvent(action string, r *container.Record, attributes ...string) {
	m.opt.Events.Publish(event.Event{
		Type: event.TypeContainer, Action: action, ID: r.ID, Attributes: r.EventAttributes(attributes...), Time: time.Now(),
	})
}
