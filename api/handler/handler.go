// Package handler answers the endpoints of the API (document 2). A handler decodes, calls, encodes and returns the
// error; it holds no rule about containers. What an endpoint does differently from version to version, and nothing that a
// tag of package wire can say, is decided here.
package handler

import (
	"context"
	"io"
	"net/http"
	"time"

	"moss/api/apiver"
	"moss/api/compat"
	"moss/api/route"
	"moss/api/wire"
	"moss/engine/container"
	"moss/engine/exec"
	"moss/engine/stats"
	"moss/engine/stats/top"
	"moss/engine/stdio"
	"moss/engine/swarm/status"
	"moss/engine/system"
)

// Containers makes, runs and removes containers.
type Containers interface {
	Create(ctx context.Context, name string, cfg container.Config, host container.HostConfig,
		endpoints map[string]container.EndpointConfig) (id string, warnings []string, err error)
	Start(ctx context.Context, ref string) error
	Stop(ctx context.Context, ref string, opt container.StopOptions) error
	Restart(ctx context.Context, ref string, opt container.StopOptions) error
	Kill(ctx context.Context, ref, signal string) error
	Remove(ctx context.Context, ref string, opt container.RemoveOptions) error
	Pruner
}

// ContainerSettings changes containers as they are.
type ContainerSettings interface {
	// Reconfigure replaces the HostConfig of a container at rest.
	Reconfigure(ctx context.Context, ref string, host container.HostConfig) error
	Update(ctx context.Context, ref string, asked container.HostConfig) (warnings []string, err error)
	Rename(ctx context.Context, ref, name string) error
	Resize(ctx context.Context, ref string, width, height uint16) error
	Pause(ctx context.Context, ref string) error
	Unpause(ctx context.Context, ref string) error
}

// Inventory shows containers. The records are never changed.
type Inventory interface {
	Get(ref string) (*container.Record, error)
	List(ctx context.Context, opt container.ListOptions) ([]*container.Record, error)
	Size(ctx context.Context, ref string) (rw, rootfs int64, err error)
	// WaitFor calls begun if it has to wait. An error before that is a status.
	WaitFor(ctx context.Context, ref string, condition container.WaitCondition, begun func()) (code int, err error)
}

// Commits makes images of containers.
type Commits interface {
	Commit(ctx context.Context, ref string, opt container.CommitOptions) (imageID string, err error)
}

// Viewers shows what containers write.
type Viewers interface {
	// Attach calls open once the viewer has joined, and closes what it returns. An error before that is a status.
	Attach(ctx context.Context, ref string, opt container.AttachOptions, open func() (io.ReadWriteCloser, error)) error
	// SetDetachKeys sets what detaches viewers that named no keys themselves, from the container's next start on.
	SetDetachKeys(ref string, keys []byte) error
	Logs(ctx context.Context, ref string, opt container.LogsOptions,
		emit func(stream stdio.Stream, at time.Time, line []byte, attrs map[string]string) error) error
}

// Execs is all that the endpoints need of processes added to containers.
type Execs interface {
	Create(ctx context.Context, ref string, config exec.Config) (id string, err error)
	// Start calls open once the streams are joined, and closes what it returns. An error before that is a status.
	Start(ctx context.Context, id string, opt exec.StartOptions, open func() (io.ReadWriteCloser, error)) error
	Resize(ctx context.Context, id string, width, height uint16) error
	Inspect(id string) (exec.Info, error)
	// InspectEnd is Inspect; if the end of an engine has cut off the client, it waits for the end, or fails.
	InspectEnd(ctx context.Context, id string) (exec.Info, error)
	IDs(containerID string) []string
}

// Stats tells what containers use.
type Stats interface {
	Once(ctx context.Context, ref string, atOnce bool) (*stats.Sample, error)
	// Watch passes samples to emit until the container is removed, ctx is done or emit fails.
	Watch(ctx context.Context, ref string, emit func(*stats.Sample) error) error
}

// Top lists the processes of containers.
type Top interface {
	Top(ctx context.Context, ref, args string) (*top.Table, error)
}

// System is what the engine says about itself.
type System interface {
	Info(ctx context.Context) (system.Info, error)
	Version() system.Version
}

// Swarm passes requests on to this node's part in a swarm.
type Swarm interface {
	// Pass sends a request and returns its answer, whose body the caller closes. With enters it may bring the node into a
	// swarm. fault.NotAcceptable in no swarm, fault.Unavailable without an answer.
	Pass(r *http.Request, enters bool) (*http.Response, error)
	// MayBeInSwarm reports whether this node is in a swarm, or is about to be. It costs nothing: every probe asks.
	MayBeInSwarm() bool
	// Node returns this node's part in a swarm; what takes longer than ctx is pending.
	Node(ctx context.Context) status.Node
}

// Services is what the endpoints work with. All of it but StorageDriver is required.
type Services struct {
	Containers    Containers
	Settings      ContainerSettings
	Commits       Commits
	Inventory     Inventory
	Viewers       Viewers
	Execs         Execs
	Stats         Stats
	Archive       Archive
	Changes       ContainerChanges
	Top           Top
	Images        ImageViews
	ImageVerbs    ImageVerbs
	ImageArchives ImageArchives
	Registries    Registries
	Builds        Builds
	Volumes       Volumes
	Networks      Networks
	Members       Members
	System        System
	Events        Events
	Swarm         Swarm  // nil: none
	StorageDriver string // what holds images, as inspect shows it
}

// Handler answers the endpoints.
type Handler struct {
	containers Containers
	settings   ContainerSettings
	commits    Commits
	inventory  Inventory
	viewers    Viewers
	execs      Execs
	stats      Stats
	archive    Archive
	changes    ContainerChanges
	top        Top
	images     ImageViews
	imageVerbs ImageVerbs
	archives   ImageArchives
	registries Registries
	builds     Builds
	volumes    Volumes
	networks   Networks
	members    Members
	system     System
	events     Events
	swarm      Swarm
	batches    eventBatches
	driver     string
	probeHead  []compat.Header
}

// New returns the handler of all endpoints.
func New(s Services) *Handler {
	return &Handler{
		containers: s.Containers, settings: s.Settings, commits: s.Commits, inventory: s.Inventory, viewers: s.Viewers,
		execs: s.Execs, stats: s.Stats, archive: s.Archive, changes: s.Changes, top: s.Top,
		images: s.Images, imageVerbs: s.ImageVerbs, archives: s.ImageArchives, registries: s.Registries,
		volumes: s.Volumes, system: s.System, events: s.Events, swarm: s.Swarm,
		builds: s.Builds, networks: s.Networks, members: s.Members,
		driver: s.StorageDriver, probeHead: compat.ProbeHead(),
	}
}

// replyJSON answers with v in the form of the call's version.
func replyJSON(c *route.Call, status int, v any) error {
	body, err := wire.Encode(v, c.Version())
	if err != nil {
		return err
	}
	return c.JSON(status, body)
}

// v returns the API version 1.minor, for what an endpoint does differently from one on.
func v(minor uint16) apiver.Version { return apiver.New(1, minor) }
