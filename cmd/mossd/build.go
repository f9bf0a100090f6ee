package main

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"

	"github.com/rs/zerolog"

	"moss/engine/build"
	"moss/engine/build/worker"
	"moss/engine/config"
	"moss/engine/image"
	"moss/imagesvc"
	"moss/rootless"
)

// openBuilds makes what builds images, on top of images and containers.
func (p *parts) openBuilds(ctx context.Context, cfg config.Config, facts rootless.Facts, images *imagesvc.Service) (err error) {
	log, dir := *zerolog.Ctx(ctx), filepath.Join(facts.Root, "build")
	p.worker, err = worker.New(ctx, worker.Options{
		Root: dir, RunDir: facts.RunDir, Containers: p.containers, Steps: p.containers.Steps(), Viewers: p.containers.Viewers(),
		Inventory: p.containers.Inventory(), Images: images, CacheSize: cfg.BuildCacheSize, Log: log,
		Trash:  p.store.Trash(),
		Damage: p.damage,
	})
	if err != nil {
		return fmt.Errorf("take up builds: %w", err)
	}
	p.builds, err = build.New(ctx, build.Options{
		Dir: dir, Images: images, Steps: images, Runner: p.worker, Caches: p.worker,
		Platform:  image.Platform{OS: "linux", Architecture: runtime.GOARCH},
		CacheSize: cfg.BuildCacheSize, UserAgent: "moss/" + version, Log: log, Trash: p.store.Trash(), Damage: p.damage,
	})
	if err != nil {
		return fmt.Errorf("take up builds: %w", err)
	}
	return nil
}

// stopBuilds ends what builds have at work, whatever their clients do.
func (p *parts) stopBuilds() {
	if p.builds != nil {
		p.builds.Stop()
	}
}

// closeBuilds ends the builds that run, which leave nothing but the steps that were done.
func (p *parts) closeBuilds() {
	if p.builds != nil {
		p.builds.Close()
	}
	if p.worker != nil {
		p.worker.Close()
	}
}
