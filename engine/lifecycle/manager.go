package lifecycle

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"moss/engine/container"
	"moss/engine/container/life"
	"moss/engine/event"
	"moss/engine/image"
	"moss/engine/logdriver"
	"moss/engine/ocispec"
	"moss/engine/task"
)

// images finds the image that a client names, fault.NotFound if there is none, and makes images of containers.
type images interface {
	Get(ctx context.Context, ref string) (*image.Image, error)
	// Hold keeps an image from being removed until release is called. why completes "image is being …".
	Hold(ctx context.Context, ref, why string) (release func(), err error)
	// Open gives the files of an image, until the view is closed.
	Open(ctx context.Context, imageID string) (*image.View, error)
	Commit(ctx context.Context, c image.Commit, open func(context.Context) (io.ReadCloser, error)) (id, name string, err error)
}

// events is told what happened.
type events interface {
	Publish(e event.Event)
}

// logService keeps the program running that brings output to receivers.
type logService interface {
	// Ensure starts it unless it runs.
	Ensure(ctx context.Context) error
	// Socket is where monitors reach it.
	Socket() string
}

// Options is what a Manager is made of. Every field is needed unless it says otherwise.
type Options struct {
	Root         string // data folder: records and logs go to <Root>/containers/<id>
	RunDir       string // this boot's folder: tasks go to <RunDir>/tasks/<id>
	Layers       layerStore
	LayerMounts  layerMounts
	Mapped       mappedLayers // for UsernsMode keep-id; may be nil: it is refused
	Differences  differences
	Images       images
	Networks     networkDriver
	NetworkStore networkStore
	Volumes      volumeStore
	VolumeMounts volumeMounts
	Events       events
	Tasks        task.Runner
	LogService   logService
	Specs        *ocispec.Builder
	Seccomp      seccompCache // may be nil: the runtime compiles each filter itself
	Runtime      task.Runtime
	Devices      deviceNames // may be nil: no container asks for devices by name
	Init         string      // the program that is copied for containers that ask for Init: moss-shim
	Damage       damaged
	Log          zerolog.Logger

	Keepalive   string              // see task.Spec
	BootID      string              // of the running kernel
	User        container.UserIDs   // whom the engine runs as, outside its namespaces
	UserName    string              // of User on the host, for accounts in containers that keep ids; may be empty
	UserHome    string              // on the host; may be empty
	KeepID      container.IDMap     // in which User has its own numbers, made of all ids there are; zero: there is none
	LogDefaults container.LogConfig // of containers that name no log driver; checked
	Proxies     []string            // variables, NAME=VALUE, that containers get beside their own; may be empty
	CgroupBase  string              // path below which containers' cgroups go; empty: none
	Controllers container.Controllers
	Machine     func() container.Machine // asked anew each time, since CPUs come and go; may be nil: nothing is refused
	EmulateIDs  bool                     // as in ocispec.Options
}

// checkCPUs refuses what this host has too few CPUs or memory nodes for; it is only asked if there is such a limit. The error
// is fault.Invalid.
func (o *Options) checkCPUs(host *container.HostConfig) error {
	if o.Machine == nil || host.CpusetCpus == "" && host.CpusetMems == "" && host.NanoCPUs == 0 {
		return nil
	}
	return o.Machine().CheckCPUs(host)
}

// seccompCache holds filters that the runtime has compiled before, by the key that ocispec.SeccompKey gives.
type seccompCache interface {
	Get(key string) (bpf []byte, ok bool)
	Keep(key, path string) // path of the file in which the runtime left what it compiled
}

// Manager knows all containers. Make one with New; Run it; Close it after Shutdown.
type Manager struct {
	opt   Options
	index index

	layers     *layers
	volumes    *volumes
	images     *imageMounts
	userns     *userNamespaces
	etc        *etcFiles
	links      *links
	networks   *Networks
	namespaces *namespaces
	files      *Files

	viewers   *Viewers
	inventory *Inventory
	commits   *Commits
	steps     *Steps

	lives     *lives
	freezer   *freezer
	follower  *follower
	launcher  *launcher
	stopper   *stopper
	maker     *maker
	remover   *remover
	limits    *limits
	cgroups   *cgroups
	records   *records
	leftovers *leftovers
	takeover  *takeover

	starting sync.RWMutex // read-locked by every start; guards ending
	ending   bool         // nothing is started any more

	adopted []adoption // what Run begins with

	background background // watchers, timers and removals
	folders    folders
}

// New reads the records of all containers, takes over those that still run and records how the others ended. After it
// the manager answers truthfully, and nothing happens by itself before Run. ctx bounds the start only.
func New(ctx context.Context, opt Options) (*Manager, error) {
	m := &Manager{opt: opt, folders: folders{opt.Root, opt.RunDir}}
	m.index.init()
	m.makeParts()
	m.background.beginLife(ctx)
	m.makeProcessParts()
	m.makeViews()
	var err error
	if m.adopted, err = m.takeover.reconcile(ctx); err != nil {
		m.background.end()
		return nil, err
	}
	return m, nil
}

// Run follows the containers that run and starts those whose restart policy says so. Watchers are told of every container that
// has a process, and of every beginning and end from then on. It is called once, before any verb that starts a container, and
// returns when the containers that had ended by then are said to have, or after a second.
func (m *Manager) Run(watchers ...Watcher) {
	m.follower.watchers = watchers
	var ends []<-chan struct{}
	for _, a := range m.adopted {
		if a.running {
			m.follower.tellBegan(a.c.record())
		}
		if over := m.follower.watchTask(a.c, a.task, a.silence); !a.running {
			ends = append(ends, over)
		}
	}
	if slices.ContainsFunc(m.adopted, func(a adoption) bool { return a.c.record().LogDriver().Writes == logdriver.Remote }) {
		m.background.runJob(m.keepLogService)
	}
	m.adopted = nil
	all := m.index.newestFirst()
	begun := startSignals(all)
	for _, c := range all {
		m.resumeContainer(m.background.life, c, begun)
	}
	limit := time.After(adoptWait)
	for _, over := range ends {
		select {
		case <-over:
		case <-limit:
			return
		}
	}
}

// keepLogService takes over the program that brings output to receivers, or starts it again.
func (m *Manager) keepLogService(ctx context.Context) {
	if err := m.opt.LogService.Ensure(ctx); err != nil && ctx.Err() == nil {
		m.opt.Log.Error().Err(err).Msg("output of containers does not reach their receivers")
	}
}

// Close ends the watchers and timers and leaves the containers as they are: those that run go on. It waits for what is
// being written.
func (m *Manager) Close() {
	m.background.endJobs()
	m.namespaces.dropShmDir()
	if err := m.launcher.init.dropCopy(); err != nil {
		m.opt.Log.Error().Err(err).Msg("the copy of the program for Init stays")
	}
}

// Shutdown stops all running containers, each with its own stop signal and timeout, and returns when they have ended.
// Their restart policies start them again with the next engine. Starts under way are waited for; from now on a start is
// fault.Unavailable.
func (m *Manager) Shutdown(ctx context.Context) {
	m.starting.Lock()
	m.ending = true
	m.starting.Unlock()
	var all sync.WaitGroup
	for _, c := range m.index.newestFirst() {
		r, err := m.lives.applyEvent(c, life.EndAsked{Op: container.OpStop, Shutdown: true})
		if err != nil {
			continue // it is at rest
		}
		all.Go(func() {
			how := newEnding(r)
			if r.Build {
				how = ending{} // it is of no use any more
			}
			if err := m.stopper.endProcess(ctx, c, r, how); err != nil {
				m.opt.Log.Error().Err(err).Str("container", c.id).Msg("container did not stop")
			}
		})
	}
	all.Wait()
}

// publishEvent tells of something that happened to a container.
func publishEvent(to events, action string, r *container.Record, attributes ...string) {
	to.Publish(event.Event{
		Type: event.TypeContainer, Action: action, ID: r.ID, Attributes: r.EventAttributes(attributes...), Time: time.Now(),
	})
}
