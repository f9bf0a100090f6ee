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
	callLimit        = 30 * time.Second
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

// measure does all that the options ask for.
func measure(ctx context.Context, opt options, log io.Writer) (_ *report, err error) {
	dir, remove, err := workDir(ctx, opt)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	busybox, err := findBusybox()
	if err != nil {
		return nil, err
	}
	b := &bench{opt: opt, dir: dir, busybox: busybox, log: log, engines: []*engine{moss("moss", opt.bin)}, report: newReport(opt)}
	if opt.beside != "" {
		b.engines = append(b.engines, moss("beside", opt.beside))
	}
	insecure := ""
	if opt.wants("image") || opt.wants("pulls") {
		if b.shelf, err = makeShelf(ctx, dir); err != nil {
			return nil, err
		}
		insecure = b.shelf.addr
	}
	if path, err := exec.LookPath("podman"); err == nil {
		b.engines = append(b.engines, podman(path, insecure))
	} else {
		b.say("podman is not installed: moss is measured without it (hack/install-deps.sh --for bench installs it)")
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	if b.image, err = imageTar(busybox); err != nil {
		return nil, fmt.Errorf("make the image: %w", err)
	}
	for _, step := range []func(context.Context) error{b.memories, b.start, b.rounds, b.stresses, b.heavies} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	b.report.finish()
	return b.report, nil
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.log, "bench: "+format+"\n", args...) //nolint:errcheck // nowhere left to report it
}

// start starts every engine, gives it the image and lets it fill its caches.
func (b *bench) start(ctx context.Context) (err error) {
	if b.floor, err = startFloor(ctx, filepath.Join(b.dir, "floor"), b.busybox); err != nil {
		return err
	}
	for _, e := range b.engines {
		dir := filepath.Join(b.dir, e.name+"-main")
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		i, err := e.launch(ctx, dir)
		if err != nil {
			return err
		}
		b.running = append(b.running, i)
		if err := i.api.importImage(ctx, b.image); err != nil {
			return fmt.Errorf("%s: import the image: %w", e.name, err)
		}
		for range warmups {
			for _, network := range []string{"none", "default"} {
				if _, err := b.cycle(ctx, i, network); err != nil {
					return fmt.Errorf("%s: %w", e.name, err)
				}
			}
		}
	}
	return nil
}

func (b *bench) stop() error {
	var err error
	for _, i := range b.running {
		err = errors.Join(err, i.stop())
	}
	if b.floor != nil {
		err = errors.Join(err, b.floor.stop())
	}
	if b.shelf != nil {
		err = errors.Join(err, b.shelf.stop())
	}
	return err
}

func (b *bench) cycle(ctx context.Context, i *instance, network string) (samples, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	return i.api.cycle(ctx, network)
}

// rounds measures what is over quickly: each round takes every engine and the floor once, in turning order.
func (b *bench) rounds(ctx context.Context) error {
	for round := range b.opt.rounds {
		for _, variant := range floorVariants() {
			ms, err := b.floor.sample(variant)
			if err != nil {
				return err
			}
			b.report.add("floor", "crun-"+variant, samples{"run": ms})
		}
		for k := range b.running {
			i := b.running[(k+round)%len(b.running)]
			if err := b.round(ctx, i, round); err != nil {
				return fmt.Errorf("round %d of %s: %w", round, i.name, err)
			}
		}
	}
	return nil
}

func (b *bench) round(ctx context.Context, i *instance, round int) error {
	for _, network := range []string{"none", "default"} {
		if !b.opt.wants(network) {
			continue
		}
		s, err := b.cycle(ctx, i, network)
		if err != nil {
			return err
		}
		b.report.add(i.name, network, s)
	}
	for name, args := range map[string][]string{
		"run": {"run", "--rm", imageRef, "true"}, "run-none": {"run", "--rm", "--network", "none", imageRef, "true"},
	} {
		if !b.opt.wants(name) {
			continue
		}
		ms, err := i.command(ctx, args...)
		if err != nil {
			return err
		}
		b.report.add(i.name, name, samples{"wall": ms})
	}
	if b.opt.wants("exec") {
		if err := b.execs(ctx, i); err != nil {
			return err
		}
	}
	if b.opt.wants("start") && round%3 == 0 {
		return b.starts(ctx, i.name, round)
	}
	return nil
}

// starts measures an engine of its own on a fresh folder, and the same folder again.
func (b *bench) starts(ctx context.Context, name string, round int) error {
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
			b.report.add(name, "start", samples{kind: milliseconds(i.took)})
			if err := i.stop(); err != nil {
				return err
			}
		}
	}
	return nil
}

// stresses takes seconds each time, so it has rounds of its own.
func (b *bench) stresses(ctx context.Context) error {
	if !b.opt.wants("stress") {
		return nil
	}
	for round := range b.opt.slow() {
		for k := range b.running {
			i := b.running[(k+round)%len(b.running)]
			if err := b.stress(ctx, i); err != nil {
				return fmt.Errorf("stress of %s: %w", i.name, err)
			}
		}
	}
	return nil
}

// stress lets clients create and start containers as fast as they get answers, then clears up.
func (b *bench) stress(ctx context.Context, i *instance) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	began := time.Now()
	ids, err := crowd(ctx, stressContainers, func(ctx context.Context) (string, error) {
		id, err := i.api.create(ctx, "none", "sleep", "600")
		if err != nil {
			return "", err
		}
		return id, i.api.start(ctx, id)
	})
	took := time.Since(began)
	if err == nil {
		b.report.add(i.name, "stress", samples{"per second": stressContainers / took.Seconds()})
	}
	return errors.Join(err, b.clear(ctx, i, ids))
}

func (b *bench) clear(ctx context.Context, i *instance, ids []string) error {
	left := make(chan string, len(ids))
	for _, id := range ids {
		left <- id
	}
	_, err := crowd(ctx, len(ids), func(ctx context.Context) (string, error) { return "", i.api.remove(ctx, <-left) })
	return err
}

// crowd does the work n times by several clients at once and returns what came out. It waits for all of them.
func crowd(ctx context.Context, n int, work func(context.Context) (string, error)) ([]string, error) {
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
	for range stressClients {
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

// memories comes before anything else runs: a second engine of the same program would share its pages, and each would
// seem to need less.
func (b *bench) memories(ctx context.Context) error {
	if !b.opt.wants("memory") {
		return nil
	}
	for round := range b.opt.slow() {
		for _, e := range b.engines {
			if err := b.memory(ctx, e, round); err != nil {
				return fmt.Errorf("memory of %s: %w", e.name, err)
			}
		}
	}
	return nil
}

// memory measures an engine that has only just been started, then adds containers.
func (b *bench) memory(ctx context.Context, e *engine, round int) (err error) {
	dir := filepath.Join(b.dir, e.name+"-memory"+strconv.Itoa(round))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	first, err := e.launch(ctx, dir)
	if err != nil {
		return err
	}
	if err := errors.Join(first.api.importImage(ctx, b.image), first.stop()); err != nil {
		return err
	}
	i, err := e.launch(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, i.stop()) }()
	if err := pause(ctx, settle); err != nil {
		return err
	}
	idle, parts, err := memoryOf(i.cmd.Process.Pid)
	if err != nil {
		return err
	}
	var ids []string
	for range memoryContainers {
		id, err := i.api.create(ctx, "none", "sleep", "600")
		if err != nil {
			return err
		}
		ids = append(ids, id)
		if err := i.api.start(ctx, id); err != nil {
			return err
		}
	}
	if err := pause(ctx, settle); err != nil {
		return err
	}
	full, _, err := memoryOf(i.cmd.Process.Pid)
	if err != nil {
		return err
	}
	s := samples{"idle": idle, "per container": (full - idle) / memoryContainers}
	for part, pss := range parts {
		s["idle: "+part] = pss
	}
	b.report.add(e.name, "memory", s)
	return b.clear(ctx, i, ids)
}
