package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"moss/api/apiver"
	"moss/api/handler"
	"moss/api/profile"
	"moss/api/route"
	"moss/api/server"
	"moss/engine/archive"
	"moss/engine/build"
	"moss/engine/build/worker"
	"moss/engine/cdi"
	"moss/engine/config"
	"moss/engine/damage"
	"moss/engine/event"
	"moss/engine/event/journal"
	"moss/engine/exec"
	"moss/engine/fdstore"
	"moss/engine/health"
	"moss/engine/lifecycle"
	"moss/engine/logservice"
	"moss/engine/network"
	"moss/engine/ocispec"
	"moss/engine/shim/client"
	"moss/engine/stats"
	"moss/engine/stats/top"
	"moss/engine/swarmnet"
	"moss/engine/swarmservice"
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
	server        *server.Server
	containers    *lifecycle.Manager
	logService    *logservice.Service
	devices       *cdi.Registry
	swarm         *swarmservice.Service
	tasks         *client.Runner
	execs         *exec.Service
	health        *health.Service
	network       *slirp.Network
	networks      *network.Service
	swarmNetworks *swarmnet.Service
	uplink        *uplinkWatch
	more          *os.File // where sockets come from that the outer process opens later; nil: nowhere
	laterEnded    chan struct{}
	store         *storage.Store
	fds           *fdstore.Store // of name servers, which go on with the next engine
	registries    *registry.Client
	volumes       *volume.Store
	bus           *event.Bus
	journal       *journal.Journal // of bus; nil: it could not be opened
	identity      string
	damage        *damage.Account // of the data folder
	worker        *worker.Worker
	builds        *build.Service
}

// newParts puts the engine together. It is the only place that sees everything.
func newParts(ctx context.Context, cfg config.Config, facts rootless.Facts) (_ *parts, err error) {
	log := *zerolog.Ctx(ctx)
	fds, err := fdstore.FromEnv() // before anything is executed
	if err != nil {
		return nil, err
	}
	files, more := moreSockets(inheritedSockets()) // as well
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
	answer := askVersion(ctx, runtime, filepath.Join(facts.RunDir, "version"))
	p := &parts{fds: fds, more: more, damage: openDamage(facts.Root, log)}
	if p.identity, err = ensureIdentity(facts.Root, p.damage); err != nil {
		return nil, err
	}
	if p.store, err = openStore(ctx, cfg, facts, p.damage, log); err != nil {
		return nil, err
	}
	p.openEvents(ctx, facts.Root)
	defer func() {
		if err != nil {
			err = errors.Join(err, p.closePartial())
		}
	}()
	images, err := p.newImages(cfg, log)
	if err != nil {
		return nil, err
	}
	if err := p.openNetworks(ctx, cfg, facts); err != nil {
		return nil, err
	}
	specs, err := ocispec.New(hostOptions(cfg, facts, controllersOf(facts.Cgroups, runtime)))
	if err != nil {
		return nil, err
	}
	if p.containers, err = newManager(ctx, p, images, specs, runtime, cfg, facts); err != nil {
		return nil, fmt.Errorf("take up the containers: %w", err)
	}
	p.swarmNetworks.Resume(ctx)
	if err := p.watchContainers(ctx, specs, facts); err != nil {
		return nil, err
	}
	images.SetUsers(p.containers.Inventory())
	if err := p.openBuilds(ctx, cfg, facts, images); err != nil {
		return nil, err
	}
	about, err := newSystem(cfg, facts, p, images, runtime, <-answer)
	if err != nil {
		return nil, err
	}
	p.server, err = newServer(ctx, cfg, facts, p, files, images, about)
	return p, err
}

// openDamage takes account of damaged files below the data folder, and tells the log of each.
func openDamage(root string, log zerolog.Logger) *damage.Account {
	return damage.New(root, func(f damage.Found) {
		log.Error().Str("file", f.Path).Str("why", f.Why).Str("aside", f.Aside).Msg("damaged file")
	})
}

// setFoldersAside moves folders away that cannot be listed and that can be made anew. Others hold all there is of their kind: an
// engine that began with an empty one would show none, and give their names away.
func setFoldersAside(root string, account *damage.Account) (failed error) {
	for _, name := range []string{"build", "cache"} {
		path := filepath.Join(root, name)
		if _, err := os.ReadDir(path); err != nil {
			failed = errors.Join(failed, account.SetAside(path, err)) // what is absent is no damage
		}
	}
	return failed
}

func openStore(
	ctx context.Context, cfg config.Config, facts rootless.Facts, account *damage.Account, log zerolog.Logger,
) (*storage.Store, error) {
	if err := setFoldersAside(facts.Root, account); err != nil {
		return nil, err
	}
	uids, gids := fewIDs("/proc/self/uid_map", "/proc/self/gid_map")
	if uids > 0 {
		log.Warn().Msg(fewWarning(uids, gids))
	}
	store, err := storage.Open(ctx, storage.Options{
		Root: facts.Root, RunRoot: facts.RunDir, Driver: cfg.StorageDriver, SingleID: facts.SingleID, UIDs: uids, GIDs: gids,
		Damage: account,
		Report: func(err error) { log.Warn().Err(err).Msg("storage") },
		Synced: func(what string, begun time.Time) {
			log.Debug().Str("what", what).Str("begun", begun.Format(time.RFC3339Nano)).Dur("took", time.Since(begun)).Msg("synced")
		},
	})
	if err != nil {
		return nil, fmt.Errorf("open storage: %w", err)
	}
	if why := store.DriverReason(); why != "" {
		log.Info().Str("driver", store.Driver()).Str("reason", why).Msg("storage driver")
	}
	for _, warning := range store.Warnings() {
		log.Warn().Str("root", facts.Root).Msg(warning)
	}
	for _, note := range store.Notes() {
		log.Warn().Str("note", note).Msg("storage recovered")
	}
	return store, nil
}

// closePartial gives up an engine that could not be put together.
func (p *parts) closePartial() error {
	p.closeBuilds()
	p.unwatchContainers()
	if p.containers != nil {
		p.containers.Close()
	}
	if p.logService != nil {
		p.logService.Close()
	}
	if p.swarm != nil {
		p.swarm.Close()
	}
	return errors.Join(p.closeEvents(), p.fds.Close(), p.store.Close())
}

// watchContainers makes what follows the containers' processes.
func (p *parts) watchContainers(ctx context.Context, specs *ocispec.Builder, facts rootless.Facts) (err error) {
	log := *zerolog.Ctx(ctx)
	p.execs, err = exec.New(ctx, exec.Options{
		Dir: filepath.Join(facts.RunDir, "execs"), Containers: p.containers.Inventory(), Specs: specs, Events: p.bus, Log: log,
	})
	if err != nil {
		return err
	}
	p.health = health.New(ctx, health.Options{Containers: p.containers.Inventory(), Commands: p.execs, Events: p.bus, Log: log})
	p.containers.Run(p.execs, p.health)
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

// newServer takes over the sockets that the outer process has opened.
func newServer(
	ctx context.Context, cfg config.Config, facts rootless.Facts, p *parts, files []*os.File, images *imagesvc.Service,
	about *system.Service,
) (*server.Server, error) {
	log, inventory := *zerolog.Ctx(ctx), p.containers.Inventory()
	var api *route.API
	private := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { api.ServeHTTP(w, r) })
	p.swarm = newSwarm(cfg, facts, p.network.NetNS(), swarmAPI{api: private, nets: p.swarmNetworks}, log)
	endpoints := handler.New(handler.Services{
		Containers: p.containers, Settings: p.containers, Commits: p.containers.Commits(), Inventory: inventory,
		Viewers: p.containers.Viewers(), Execs: p.execs, Changes: p.containers.Files(),
		Archive: archive.New(archive.Options{Containers: p.containers.Files(), Events: p.bus}),
		Stats:   stats.New(stats.Options{Containers: inventory, Cgroups: "/sys/fs/cgroup", Proc: "/proc"}),
		Top:     top.New(top.Options{Containers: inventory, Events: p.bus, Proc: "/proc", Path: facts.Path}),
		Images:  images, ImageVerbs: images, ImageArchives: images, Registries: images,
		Builds: p.builds, Volumes: p.volumes, Networks: p.networks, Members: p.containers.Networks(),
		System: about, Events: p.bus,
		Swarm:         p.swarm,
		StorageDriver: p.store.Driver(),
	})
	serve, err := apiver.Served(cfg.APIMin, cfg.APIMax)
	if err != nil {
		return nil, err
	}
	options := route.Options{Version: version, Serve: serve, CORS: cfg.CORS, Log: log}
	api = route.New(endpoints.Routes(), options) //nolint:contextcheck // requests bring their own
	opt := serverOptions(ctx, cfg, facts, files)
	opt.Refuse = api.Refuse
	opt.Handler = profile.New(profile.Options{
		On: cfg.DebugProfiles, Next: api, Refuse: api.Refuse, Log: log,
		Owner: func(r *http.Request) bool { return server.FromOwner(r.Context()) },
	})
	return server.New(ctx, opt)
}

func newManager(
	ctx context.Context, p *parts, images *imagesvc.Service, specs *ocispec.Builder, runtime ociRuntime,
	cfg config.Config, facts rootless.Facts,
) (*lifecycle.Manager, error) {
	shim, err := findProgram("moss-shim")
	if err != nil {
		return nil, err
	}
	if p.tasks, err = client.New(client.Options{Path: shim}); err != nil {
		return nil, err
	}
	p.devices = newDevices(os.Getenv)
	p.volumes, err = volume.Open(volume.Options{
		Dir: filepath.Join(facts.Root, "volumes"), Events: p.bus, Log: *zerolog.Ctx(ctx), Trash: p.store.Trash(), Damage: p.damage,
	})
	if err != nil {
		return nil, err
	}
	opt := lifecycle.Options{
		Root: facts.Root, RunDir: facts.RunDir, Images: images, Events: p.bus,
		Layers: p.store, LayerMounts: p.store.Writable, Differences: p.store.Writable, Mapped: p.store,
		Volumes: p.volumes, VolumeMounts: p.volumes, Networks: p.network, NetworkStore: p.networks,
		Tasks: p.tasks, Specs: specs, Init: shim, Runtime: runtime.call, Log: *zerolog.Ctx(ctx), Keepalive: facts.Keepalive,
		BootID: bootID(), CgroupBase: facts.Cgroups.Parent, Controllers: controllersOf(facts.Cgroups, runtime),
		Machine: readMachine,
	}
	p.logService = logservice.New(logservice.Options{
		Find: func() (string, error) { return findProgram("moss-log") }, Socket: filepath.Join(facts.RunDir, "moss-log.sock"),
		Keepalive: facts.Keepalive, Log: *zerolog.Ctx(ctx),
	})
	opt.LogService, opt.Devices = p.logService, p.devices
	opt.Damage, opt.EmulateIDs = p.damage, emulatesIDs(cfg, facts)
	opt.User, opt.KeepID = userIDs()
	opt.LogDefaults = logDefaults(cfg)
	if cfg.HTTPProxy {
		opt.Proxies = proxyVariables(os.Environ())
	}
	opt.UserName, opt.UserHome = userName(opt.User.UID), os.Getenv("HOME")
	if runtime.name == "crun" {
		cache, err := lifecycle.NewSeccompCache(filepath.Join(facts.Root, "cache", "seccomp"), runtime.stamp)
		if err != nil {
			return nil, err
		}
		opt.Seccomp = cache
	}
	return lifecycle.New(ctx, opt)
}
