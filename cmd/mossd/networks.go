package main

import (
	"context"
	"path/filepath"

	"github.com/rs/zerolog"

	"moss/engine/config"
	"moss/engine/network"
	"moss/rootless"
	"moss/slirp"
)

// openNetworks makes what builds the containers' networks, and reads which networks there are.
func (p *parts) openNetworks(ctx context.Context, cfg config.Config, facts rootless.Facts) (err error) {
	p.network, err = slirp.New(ctx, slirp.Options{
		StateDir: facts.StateDir, RunDir: facts.RunDir, MTU: cfg.MTU, Driver: cfg.NetworkDriver, Send: facts.Uplink.Send,
		Keep: p.fds, Anchor: p.fds.Anchor, Log: *zerolog.Ctx(ctx),
	})
	if err != nil {
		return err
	}
	p.networks, err = network.Open(ctx, network.Options{
		Dir: filepath.Join(facts.Root, "networks"), Driver: p.network, Events: p.bus, MTU: p.network.Info().MTU, Log: *zerolog.Ctx(ctx),
		Damage: p.damage,
	})
	if err != nil {
		return err
	}
	return p.openSwarmNetworks(ctx, facts)
}
