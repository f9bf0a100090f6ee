package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rs/zerolog"

	"moss/api/handler"
	"moss/api/route"
	"moss/api/server"
	"moss/engine/archive"
	"moss/engine/build"
	"moss/engine/build/worker"
	"moss/engine/config"
	"moss/engine/container"
	"moss/engine/event"
	"moss/engine/exec"
	"moss/engine/fault"
	"moss/engine/fdstore"
	"moss/engine/health"
	"moss/engine/id"
	"moss/engine/image"
	"moss/engine/lifecycle"
	"moss/engine/network"
	"moss/engine/ocispec"
	"moss/engine/record"
	"moss/engine/shim/client"
	"moss/engine/stats"
	"moss/engine/stats/top"
	"moss/engine/system"
	"moss/engine/volume"
	"moss/imagesvc"
	"moss/imagesvc/registry"
	"moss/rootless"
	"moss/slirp"
	"moss/storage"
)

// parts are the pieces of one engine that its end has to deal with.
type parts struct {
	server     *server.Server
	containers *lifecycle.Manager
	execs      *exec.Service
	health     *health.Service
	network    *slirp.Network
	networks   *network.Service
	uplink     *uplinkWatch
	store      *storage.Store
	fds        *fdstore.Store // of name servers, which go on with the next engine
	registries *registry.Client
	volumes    *volume.Store
	bus        *event.Bus
	worker     *worker.Worker
	builds     *build.Service
}

// wire puts the engine together. It is the only place that sees everything.
func wire(ctx context.Context, cfg config.Config, facts rootless.Facts) (_ *parts, err error) {
	log := *zerolog.Ctx(ctx)
	fds, err := fdstore.FromEnv() // before anything is executed
	if err != nil {
		return nil, err
	}
	if err := os.Setenv("PATH", facts.Path); err != nil {
		return nil, err
	}
	raiseFileLimit()
	runtime, err := findRuntime(cfg.Runtime, facts)
	if err != nil {
		return nil, err
	}
	if err := showCgroups(runtime, &facts, log); err != nil {
		return nil, err
	}
	answer := askVersion(ctx, runtime)
	identity, err := identify(facts.Root)
	if err != nil {
		return nil, err
	}
	store, err := openStore(ctx, cfg, facts, log)
	if err != nil {
		return nil, err
	}
	p := &parts{store: store, fds: fds, bus: event.NewBus()}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.abandon())
		}
	}()
	images, err := p.newImages(cfg, facts, log)
	if err != nil {
		return nil, err
	}
	if err := p.openNetworks(ctx, cfg, facts); err != nil {
		return nil, err
	}
	specs, err := ocispec.New(hostOptions(facts, controllers(facts.Cgroups, runtime)))
	if err != nil {
		return nil, err
	}
	if p.containers, err = newManager(ctx, p, images, specs, runtime, facts); err != nil {
		return nil, fmt.Errorf("take up the containers: %w", err)
	}
	if err := p.watchContainers(ctx, specs, facts); err != nil {
		return nil, err
	}
	images.SetUsers(p.containers)
	if err := p.openBuilds(ctx, cfg, facts, images); err != nil {
		return nil, err
	}
	about, err := newSystem(cfg, facts, identity, p, images, p.registries.Config(), runtime, <-answer)
	if err != nil {
		return nil, err
	}
	p.server, err = newServer(ctx, cfg, facts, p, images, about)
	return p, err
}

func openStore(ctx context.Context, cfg config.Config, facts rootless.Facts, log zerolog.Logger) (*storage.Store, error) {
	store, err := storage.Open(ctx, storage.Options{
		Root: facts.Root, RunRoot: facts.RunDir, Driver: cfg.StorageDriver, SingleID: facts.SingleID,
	})
	if err != nil {
		return nil, fmt.Errorf("open storage: %w", err)
	}
	if why := store.DriverReason(); why != "" {
		log.Info().Str("driver", store.Driver()).Str("reason", why).Msg("storage driver")
	}
	for _, note := range store.Notes() {
		log.Warn().Str("note", note).Msg("storage recovered")
	}
	return store, nil
}

// abandon gives up an engine that could not be put together.
func (p *parts) abandon() (err error) {
	p.closeBuilds()
	p.unwatchContainers()
	if p.containers != nil {
		p.containers.Close()
	}
	p.bus.Close()
	if p.registries != nil {
		err = p.registries.Close()
	}
	return errors.Join(err, p.fds.Close(), p.store.Close())
}

// watchContainers makes what follows the containers' processes.
func (p *parts) watchContainers(ctx context.Context, specs *ocispec.Builder, facts rootless.Facts) (err error) {
	log := *zerolog.Ctx(ctx)
	p.execs, err = exec.New(ctx, exec.Options{
		Dir: filepath.Join(facts.RunDir, "execs"), Containers: p.containers, Specs: specs, Events: p.bus, Log: log,
	})
	if err != nil {
		return err
	}
	p.containers.Watch(p.execs)
	p.health = health.New(ctx, health.Options{Containers: p.containers, Commands: p.execs, Events: p.bus, Log: log})
	p.containers.Watch(p.health)
	return nil
}

// unwatchContainers ends what watchContainers made.
func (p *parts) unwatchContainers() {
	if p.health != nil {
		p.health.Close()
	}
	if p.execs != nil {
		p.execs.Close()
	}
}

// newServer opens the listeners: those of the settings, else what systemd handed over, else the default socket.
func newServer(
	ctx context.Context, cfg config.Config, facts rootless.Facts, p *parts, images *imagesvc.Service, about *system.Service,
) (*server.Server, error) {
	log := *zerolog.Ctx(ctx)
	endpoints := handler.New(handler.Services{
		Containers: p.containers, Execs: p.execs, Changes: p.containers,
		Archive: archive.New(archive.Options{Containers: p.containers, Events: p.bus}),
		Stats:   stats.New(stats.Options{Containers: p.containers, Cgroups: "/sys/fs/cgroup", Proc: "/proc"}),
		Top:     top.New(top.Options{Containers: p.containers, Events: p.bus, Proc: "/proc", Path: facts.Path}),
		Images:  images, Builds: p.builds, Volumes: p.volumes, Networks: p.networks, Members: p.containers, System: about, Events: p.bus,
		StorageDriver: p.store.Driver(), Log: log,
	})
	hosts, files := cfg.Hosts, sockets()
	if len(hosts) == 0 {
		hosts = []string{"unix://" + filepath.Join(facts.RunDir, "moss.sock")}
		if len(files) > 0 {
			hosts = []string{"fd://"}
		}
	}
	return server.New(ctx, server.Options{
		Handler: route.New(endpoints.Routes(), route.Options{Version: version, Log: log}), //nolint:contextcheck // requests bring their own
		Hosts:   hosts, AllowInsecureTCP: cfg.InsecureTCP, Files: files, Log: log,
	})
}

func newManager(
	ctx context.Context, p *parts, images *imagesvc.Service, specs *ocispec.Builder, runtime ociRuntime,
	facts rootless.Facts,
) (*lifecycle.Manager, error) {
	shim, err := findShim()
	if err != nil {
		return nil, err
	}
	tasks, err := client.New(client.Options{Path: shim})
	if err != nil {
		return nil, err
	}
	p.volumes, err = volume.Open(volume.Options{
		Dir: filepath.Join(facts.Root, "volumes"), Events: p.bus, Log: *zerolog.Ctx(ctx),
	})
	if err != nil {
		return nil, err
	}
	opt := lifecycle.Options{
		Root: facts.Root, RunDir: facts.RunDir, Layers: p.store, Differences: p.store, Images: images, Networks: p.network, NetworkStore: p.networks, Volumes: p.volumes, Events: p.bus,
		Tasks: tasks, Specs: specs, Runtime: runtime.call, Log: *zerolog.Ctx(ctx), Keepalive: facts.Keepalive,
		BootID: bootID(), CgroupBase: facts.Cgroups.Parent, Controllers: controllers(facts.Cgroups, runtime),
	}
	opt.Mapped = p.store
	opt.User, opt.KeepID = userIDs()
	if runtime.name == "crun" {
		cache, err := lifecycle.NewSeccompCache(filepath.Join(facts.Root, "cache", "seccomp"), runtime.stamp)
		if err != nil {
			return nil, err
		}
		opt.Seccomp = cache
	}
	return lifecycle.New(ctx, opt)
}

func newSystem(
	cfg config.Config, facts rootless.Facts, identity string, p *parts, images *imagesvc.Service, known registry.Settings,
	runtime ociRuntime, answer asked,
) (*system.Service, error) {
	status, err := p.store.Status()
	if err != nil {
		return nil, err
	}
	security := []string{"name=seccomp,profile=default", "name=rootless"}
	number, warnings := answer.shown(runtime)
	warnings = append(warnings, limitWarnings(facts, runtime)...)
	if facts.SingleID {
		warnings = append(warnings, "No subordinate ids: running with a single id ("+facts.SingleIDReason+")")
	}
	return system.New(system.Facts{
		ID: identity, Version: version, GitCommit: commit, DataRoot: facts.Root,
		StorageDriver: p.store.Driver(), StorageStatus: status, Cgroup: cgroupFacts(facts.Cgroups, runtime),
		Runtimes:       map[string]system.Runtime{runtime.name: {Path: runtime.call.Path, Version: number}},
		DefaultRuntime: runtime.name, LogDriver: container.LogJSONFile, Uplink: cfg.NetworkDriver,
		SingleID: facts.SingleID, SecurityOptions: security,
		Plugins: system.Plugins{
			Volume: []string{volume.DriverLocal}, Network: []string{"bridge", "host", "null"}, Log: []string{container.LogJSONFile, container.LogJournald, container.LogNone},
		},
		Registries: registryFacts(known), InsecureCIDRs: known.InsecureCIDRs, IndexServer: known.IndexServer,
		HTTPProxy: proxy("HTTP_PROXY"), HTTPSProxy: proxy("HTTPS_PROXY"), NoProxy: proxy("NO_PROXY"),
		Warnings: warnings, Debug: cfg.LogLevel == "debug",
	}, system.Counters{
		Containers: func(context.Context) (system.Counts, error) {
			_, running, paused, stopped := p.containers.Counts()
			return system.Counts{Running: running, Paused: paused, Stopped: stopped}, nil
		},
		Images: func(ctx context.Context) (int, error) {
			list, err := images.List(ctx, image.ListOptions{})
			return len(list), err
		},
		Listeners: p.bus.Listeners,
	})
}

// identity is what makes one data folder recognisable.
type engineIdentity struct {
	ID     string
	Format int // of the data folder
}

// dataFormat is the layout of the data folder that this engine writes. A newer one is refused rather than misread.
const dataFormat = 1

// identify returns the id of the data folder, which is made with it.
func identify(root string) (string, error) {
	path := filepath.Join(root, "engine.json")
	var known engineIdentity
	err := record.Get(path, &known)
	switch {
	case err == nil && known.Format > dataFormat:
		return "", fault.Conflict("%s was written by a newer moss (format %d, this one knows %d)", root, known.Format, dataFormat)
	case err == nil:
		return known.ID, nil
	case !fault.Is(err, fault.NotFound):
		return "", err
	}
	known = engineIdentity{ID: id.New(), Format: dataFormat}
	return known.ID, record.Put(path, known)
}
