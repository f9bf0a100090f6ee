package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

const (
	stressClients    = 8
	stressContainers = 50
	memoryContainers = 20
	settle           = 3 * time.Second // for what an engine still does after it answers or has started containers
	warmups          = 3               // of every engine, before the first round
)

// bench is one run.
type bench struct {
	opt     options
	dir     string
	busybox string
	image   []byte // the tar of a root filesystem
	log     io.Writer
	engines []*engine
	running []*instance
	floor   *floor
	shelf   *shelf // nil if no image is to be pulled
	huge    bool   // the image of 2 GiB is on the shelf
	report  *report
}

// measureAll does all that the options ask for. What fails is in the report; an error means that nothing could be measured.
func measureAll(ctx context.Context, opt options, log io.Writer) (_ *report, err error) {
	dir, remove, err := workDir(ctx, opt)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if opt, err = ownPrograms(opt, dir); err != nil {
		return nil, err
	}
	busybox, err := findBusybox()
	if err != nil {
		return nil, err
	}
	b := &bench{opt: opt, dir: dir, busybox: busybox, log: log, report: newReport(opt)}
	b.report.Versions = listVersions(ctx, opt)
	if b.image, err = imageTar(busybox); err != nil {
		return nil, fmt.Errorf("make the image: %w", err)
	}
	b.chooseEngines(ctx)
	for _, step := range []func(context.Context){b.measureMemories, b.startEngines, b.measureRounds, b.measureHeavies} {
		step(ctx)
	}
	if err := b.stopEngines(); err != nil {
		b.say("%v", err) // of the figures it changes nothing
	}
	b.report.finish()
	return b.report, nil
}

// chooseEngines says which engines are measured, and starts the registry that they pull from.
func (b *bench) chooseEngines(ctx context.Context) {
	b.engines = []*engine{newMossEngine("moss", b.opt.bin)}
	if b.opt.beside != "" {
		b.engines = append(b.engines, newMossEngine("beside", b.opt.beside))
	}
	insecure := ""
	var shelfErr error
	if b.opt.wants("image") || b.opt.wants("pulls") {
		shelfErr = withLimit(ctx, setupLimit, "the registry and its images", func(ctx context.Context) (err error) {
			b.shelf, err = makeShelf(ctx, b.dir)
			return err
		})
		if shelfErr == nil {
			insecure = b.shelf.Addr()
		}
	}
	own := filepath.Join(b.dir, "podman") // or a podman of somebody else would share its pages
	path, err := exec.LookPath("podman")
	if err == nil {
		err = copyProgram(path, own)
	}
	if err == nil {
		b.engines = append(b.engines, newPodmanEngine(own, insecure))
	} else {
		b.say("moss is measured without podman: %v (hack/install-deps.sh --for bench installs it)", err)
	}
	for _, e := range b.engines {
		for _, metric := range []string{"image", "pulls"} {
			if shelfErr != nil && b.opt.wants(metric) {
				b.report.addFailure(e.name, metric, fmt.Errorf("its images: %w", shelfErr))
			}
		}
	}
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.log, "bench: "+format+"\n", args...) //nolint:errcheck // nowhere left to report it
}

// startEngines starts every engine, gives it the image and lets it fill its caches.
func (b *bench) startEngines(ctx context.Context) {
	var err error
	if b.floor, err = startFloor(ctx, filepath.Join(b.dir, "floor"), b.busybox); err != nil {
		b.failFloor(ctx, err)
	}
	for _, e := range b.engines {
		var i *instance
		err := withLimit(ctx, setupLimit, "its start", func(ctx context.Context) (err error) {
			i, err = b.startMain(ctx, e)
			return err
		})
		if err != nil && ctx.Err() == nil {
			b.say("%s does not take part: %v", e.name, err)
			if i != nil {
				err = errors.Join(err, i.stop())
			}
			i = &instance{name: e.name, own: e.own, lost: err}
		}
		if i != nil {
			b.running = append(b.running, i)
		}
	}
}

// startMain returns the instance with an error too if it runs.
func (b *bench) startMain(ctx context.Context, e *engine) (*instance, error) {
	dir := filepath.Join(b.dir, e.name+"-main")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	i, err := e.launch(ctx, dir)
	if err != nil {
		return nil, err
	}
	if err := i.api.importImage(ctx, b.image); err != nil {
		return i, fmt.Errorf("import the image: %w", err)
	}
	for range warmups {
		for _, network := range []string{"none", "default"} {
			if _, err := i.api.cycleContainer(ctx, network); err != nil {
				return i, err
			}
		}
	}
	return i, nil
}

func (b *bench) stopEngines() error {
	var err error
	for _, i := range b.running {
		if i.lost == nil {
			err = errors.Join(err, i.stop())
		}
	}
	if b.floor != nil {
		err = errors.Join(err, b.floor.stop())
	}
	if b.shelf != nil {
		err = errors.Join(err, b.shelf.Stop())
	}
	return err
}

// measureRounds measures what is over quickly: each round takes every engine and the floor once, in turning order.
func (b *bench) measureRounds(ctx context.Context) {
	for round := range b.opt.rounds {
		b.floorRound(ctx)
		for k := range b.running {
			i := b.running[(k+round)%len(b.running)]
			b.measureRound(ctx, i, round)
		}
	}
	for _, i := range b.running {
		if i.box != "" && i.lost == nil {
			b.recoverEngine(ctx, i) // what comes now starts without the container of the execs, whatever was asked for
		}
	}
}

func (b *bench) floorRound(ctx context.Context) {
	if b.floor == nil || b.report.failureOf(floorName, floorMetric) != nil || ctx.Err() != nil {
		return
	}
	for _, variant := range floorVariants() {
		ms, err := b.floor.runSample(variant)
		if err != nil {
			b.failFloor(ctx, err)
			return
		}
		b.report.add(floorName, "crun-"+variant, samples{"run": ms})
	}
}

func (b *bench) failFloor(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return // the user ends the run
	}
	b.say("floor: %v", err)
	b.report.addFailure(floorName, floorMetric, err)
}

func (b *bench) measureRound(ctx context.Context, i *instance, round int) {
	quick := func(metric string, work func(context.Context) error) {
		if b.opt.wants(metric) {
			b.attemptMetric(ctx, i.name, i, metric, quickLimit, work)
		}
	}
	for _, network := range []string{"none", "default"} {
		quick(network, func(ctx context.Context) error {
			s, err := i.api.cycleContainer(ctx, network)
			b.report.add(i.name, network, s) // nothing with an error
			return err
		})
	}
	for name, args := range map[string][]string{
		"run": {"run", "--rm", imageRef, "true"}, "run-none": {"run", "--rm", "--network", "none", imageRef, "true"},
	} {
		quick(name, func(ctx context.Context) error {
			ms, err := i.runCommand(ctx, callLimit, args...)
			if err == nil {
				b.report.add(i.name, name, samples{"wall": ms})
			}
			return err
		})
	}
	quick("exec", func(ctx context.Context) error { return b.measureExecs(ctx, i) })
	if round%3 == 0 {
		quick("start", func(ctx context.Context) error { return b.measureStarts(ctx, i.name, round) })
	}
}

// measureStarts measures an engine of its own on a fresh folder, and the same folder again.
func (b *bench) measureStarts(ctx context.Context, name string, round int) error {
	for _, e := range b.engines {
		if e.name != name {
			continue
		}
		dir := filepath.Join(b.dir, name+"-start"+strconv.Itoa(round))
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		for _, kind := range []string{"cold", "warm"} {
			i, err := e.launch(ctx, dir)
			if err != nil {
				return err
			}
			b.report.add(name, "start", samples{kind: toMilliseconds(i.took)})
			if err := i.stop(); err != nil {
				return err
			}
		}
	}
	return nil
}

// measureStress lets clients create and start containers as fast as they get answers, then clears up.
func (b *bench) measureStress(ctx context.Context, i *instance) error {
	began := time.Now()
	ids, err := runClients(ctx, stressClients, stressContainers, func(ctx context.Context) (string, error) {
		id, err := i.api.createContainer(ctx, "none", "sleep", "600")
		if err != nil {
			return "", err
		}
		return id, i.api.startContainer(ctx, id)
	})
	took := time.Since(began)
	if err == nil {
		b.report.add(i.name, "stress", samples{"per second": stressContainers / took.Seconds()})
	}
	return errors.Join(err, b.removeContainers(context.WithoutCancel(ctx), i, ids))
}

func (b *bench) removeContainers(ctx context.Context, i *instance, ids []string) error {
	left := make(chan string, len(ids))
	for _, id := range ids {
		left <- id
	}
	_, err := runClients(ctx, stressClients, len(ids), func(ctx context.Context) (string, error) { return "", i.api.removeContainer(ctx, <-left) })
	return err
}

// runClients does the work n times by so many clients at once and returns what came out. It waits for all of them.
func runClients(ctx context.Context, clients, n int, work func(context.Context) (string, error)) ([]string, error) {
	todo := make(chan struct{}, n)
	for range n {
		todo <- struct{}{}
	}
	close(todo)
	var (
		group sync.WaitGroup
		mu    sync.Mutex // guards ids and errs
		ids   []string
		errs  []error
	)
	for range clients {
		group.Go(func() {
			for range todo {
				id, err := work(ctx)
				mu.Lock()
				if id != "" {
					ids = append(ids, id)
				}
				if err != nil {
					errs = append(errs, err)
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	group.Wait()
	return ids, errors.Join(errs...)
}
