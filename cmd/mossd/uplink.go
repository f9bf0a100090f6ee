package main

import (
	"context"
	"strconv"

	"github.com/rs/zerolog"

	"moss/engine/config"
	"moss/engine/event"
	"moss/engine/network"
	"moss/rootless"
	"moss/slirp/hostaddr"
	"moss/slirp/uplink"
)

// uplinkWatch tells people and clients what becomes of the containers' way out, which the outer process looks after, and
// keeps the host in reach of the containers.
type uplinkWatch struct {
	stop  context.CancelFunc
	ended chan struct{}
	host  *hostaddr.Follower // nil: the uplink does that by itself
}

// watchUplink begins with the status that the engine has started with; Close ends it.
func watchUplink(ctx context.Context, cfg config.Config, p *parts, facts rootless.Facts) *uplinkWatch {
	log := zerolog.Ctx(ctx)
	ctx, stop := context.WithCancel(ctx)
	w := &uplinkWatch{stop: stop, ended: make(chan struct{})}
	last := facts.Uplink
	if last.Driver == uplink.None && last.Reason != "" {
		log.Warn().Msg(noWayOut(last.Reason))
	} else if last.Reason != "" {
		log.Info().Str("driver", last.Driver).Str("reason", last.Reason).Msg("network driver")
	}
	to, lead := uplink.Config{Driver: cfg.NetworkDriver, HostLoopback: cfg.HostLoopback}.HostTarget()
	if lead {
		var err error
		w.host, err = hostaddr.Start(ctx, hostaddr.Options{
			NetNS: p.network.NetNS(), Uplink: uplink.Device, Addr: uplink.HostAddr(), To: to, Log: *log,
		})
		if err != nil {
			log.Warn().Err(err).Msg("containers will not reach the host by its name")
		}
	}
	tell := func(now uplink.Status) {
		switch {
		case now.Restarts != last.Restarts:
			log.Warn().Str("driver", now.Driver).Int("pid", now.PID).Int("restarts", now.Restarts).Str("error", now.Error).
				Msg("uplink started again")
			p.bus.Publish(uplinkEvent(now, p.network.Info().NetworkID))
		case now.PID == 0 && (last.PID != 0 || now.Error != last.Error):
			log.Warn().Str("driver", now.Driver).Str("error", now.Error).Msg("uplink is down")
		}
		last = now
	}
	go func() {
		defer close(w.ended)
		if err := uplink.Watch(ctx, facts.StateDir, tell); err != nil {
			log.Warn().Err(err).Msg("uplink not watched: its end will not be told")
		}
	}()
	return w
}

// noWayOut tells what comes of an engine that found no uplink.
func noWayOut(reason string) string {
	return "Containers reach each other and publish ports, and nothing outside: " + reason
}

// Close returns when nothing is told any more.
func (w *uplinkWatch) Close(ctx context.Context) {
	w.stop()
	<-w.ended
	if w.host == nil {
		return
	}
	if err := w.host.Close(); err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("host's address not closed whole")
	}
}

// uplinkEvent is about the default network, whose way out it is.
func uplinkEvent(now uplink.Status, networkID string) event.Event {
	return event.Event{Type: event.TypeNetwork, Action: "restart", ID: networkID, Attributes: map[string]string{
		"name": network.Bridge, "type": network.DriverBridge, "uplink": now.Driver, "restarts": strconv.Itoa(now.Restarts),
	}}
}
