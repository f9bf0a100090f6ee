package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"moss/engine/config"
	"moss/rootless"
)

// exitReload asks the supervisor for a new engine: containers, ports and logs go on meanwhile.
const exitReload = 75

// lastAnswers is how long requests under way may take once the engine is to end.
const lastAnswers = 5 * time.Second

// runEngine runs the inner engine, from its start to its end, and returns its exit status.
func runEngine(ctx context.Context, cfg config.Config, stderr io.Writer) int {
	log := zerolog.Ctx(ctx)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	facts, err := rootless.EngineFacts()
	if err != nil {
		reportFailure(*log, cfg, stderr, err, "mossd cannot start")
		return 1
	}
	cfg.NetworkDriver = cmp.Or(facts.Uplink.Driver, cfg.NetworkDriver) // what auto has come to
	parts, err := newParts(ctx, cfg, facts)
	if err != nil {
		reportFailure(*log, cfg, stderr, err, "mossd cannot start")
		return 1
	}
	defer parts.closeDescriptors(ctx) // last: the end of the network needs those that the store keeps
	parts.uplink = watchUplink(ctx, cfg, parts, facts)
	log.Info().Strs("listen", parts.server.Addresses()).Str("root", cfg.Root).Str("storage", parts.store.Driver()).
		Str("network", cfg.NetworkDriver).Str("cgroups", string(facts.Cgroups.Kind)).
		Strs("controllers", facts.Cgroups.Controllers).Bool("single-id", facts.SingleID).Msg("engine ready")

	served := make(chan error, 1)
	serving, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { served <- parts.server.Serve(serving) }()
	parts.serveLater(serving, *log)
	parts.swarm.Run()
	// What only the start needed goes back to the system: the engine is idle most of its life.
	debug.FreeOSMemory()
	go trimMemory(serving)

	for {
		select {
		case err := <-served:
			log.Error().Err(err).Msg("the API ended by itself")
			parts.close(ctx)
			return exitReload
		case s := <-signals:
			if s == unix.SIGHUP {
				log.Info().Msg("handing over to a new engine")
				parts.publishReload(cfg)
				parts.handOver(ctx)
				return exitReload
			}
			log.Info().Str("signal", s.String()).Msg("stopping containers")
			parts.stopBuilds()
			parts.endSwarm(ctx)
			parts.containers.Shutdown(ctx)
			parts.handOver(ctx)
			if err := errors.Join(parts.swarmNetworks.End(), parts.network.Close(ctx)); err != nil {
				log.Warn().Err(err).Msg("network not taken down whole")
			}
			log.Info().Msg("engine ended")
			return 0
		}
	}
}

// handOver ends everything of this engine and leaves what runs to the next.
func (p *parts) handOver(ctx context.Context) {
	p.stopBuilds() // none could go on: their clients are told
	p.tasks.Restore(ctx)
	ctx, cancel := context.WithTimeout(ctx, lastAnswers)
	defer cancel()
	if err := p.server.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("API not shut down whole")
	}
	p.close(ctx)
}

// endSwarm ends this node's part in its swarm, which would take the end of its tasks' containers for failures.
func (p *parts) endSwarm(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lastAnswers)
	defer cancel()
	p.swarm.End(ctx)
}

func (p *parts) close(ctx context.Context) {
	p.swarm.Close()
	p.endLater()
	p.uplink.Close(ctx)
	p.closeBuilds()
	p.unwatchContainers()
	p.containers.Close()
	p.logService.Close()
	if err := p.closeEvents(); err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("events not closed whole")
	}
	if err := p.store.Close(); err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("storage not closed whole")
	}
}

func (p *parts) closeDescriptors(ctx context.Context) {
	if err := p.fds.Close(); err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("descriptor store not closed")
	}
}
