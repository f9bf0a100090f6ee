// Command apifuzz drives an engine through its socket with random calls, right ones and wrong ones, and keeps a model of
// what must be there beside it.
//
//	apifuzz -socket PATH -image NAME [-seed N] [-duration D] [-workers N] [-calls N]
//	        [-pid PID -run DIR -data DIR -log FILE] [-last N] [-patience D]
//
// Each worker has containers, images, volumes and networks of its own, whose states it knows, and uses some of all. A
// finding is an answer that the model or the table of routes rules out, an error in the wrong form, an unexplained status
// of the 500s, an answer that does not come in time, a list that differs from the model, and at the end whatever is left:
// containers, mounts, shims, folders, open files, goroutines, memory. Each is printed with the last calls as curl lines.
// With one worker a seed repeats the same calls as long as the engine gives the same answers.
//
// The image must be in the store and hold busybox. PID is the engine's, DIR and FILE are its folders and its log. The exit
// status is 1 with findings.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var f fuzzer
	flag.StringVar(&f.socket, "socket", "", "the engine's socket")
	flag.StringVar(&f.image, "image", "busybox:latest", "what containers are made of")
	flag.Uint64Var(&f.seed, "seed", rand.Uint64N(1<<31), "what the calls are drawn from; another one each time without it") //nolint:gosec // no secret
	flag.DurationVar(&f.duration, "duration", time.Minute, "how long to make calls")
	flag.DurationVar(&f.patience, "patience", time.Minute, "an answer that takes longer is a hang")
	flag.IntVar(&f.workers, "workers", 4, "how many make calls at once")
	flag.IntVar(&f.calls, "calls", 0, "end after so many steps of each worker; 0: after the duration alone")
	flag.IntVar(&f.last, "last", 60, "how many calls are shown with a finding")
	flag.IntVar(&f.engine.pid, "pid", 0, "the engine's process")
	flag.StringVar(&f.engine.run, "run", "", "the engine's folder of this boot")
	flag.StringVar(&f.engine.data, "data", "", "the engine's data folder")
	flag.StringVar(&f.engine.log, "log", "", "the engine's log")
	flag.Parse()
	findings, err := f.fuzz(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "apifuzz:", err)
		os.Exit(2)
	}
	if findings > 0 {
		os.Exit(1)
	}
}

// fuzzer is one run.
type fuzzer struct {
	socket, image        string
	seed                 uint64
	duration, patience   time.Duration
	workers, calls, last int
	engine               places

	report *reporter
	crew   []*worker
	scout  *worker // looks at the engine while the others rest
	log    int64   // as far as the log was read
}

// round is how many steps each worker makes between two looks at the whole.
const round = 80

// fuzz makes the run and returns how many findings there were.
func (f *fuzzer) fuzz(ctx context.Context) (findings int, err error) {
	if f.socket == "" || f.workers < 1 {
		return 0, errors.New("want -socket and at least one worker")
	}
	run, halt := context.WithTimeout(ctx, f.duration)
	defer halt()
	f.report = newReporter(os.Stdout, f.socket, f.last, halt)
	f.report.say("seed %d, %d workers, %v", f.seed, f.workers, f.duration)
	f.createWorkers()
	if !f.warmUp() {
		return 0, errors.New("the engine does not do what every run begins with")
	}
	_, f.log = f.engine.defectLines(0)
	before := f.engine.measureEngine(f.scout)
	f.report.say("at the start: %v", before)
	start := time.Now()
	for steps := 0; run.Err() == nil && (f.calls == 0 || steps < f.calls); steps += round {
		f.runRound(run)
		f.compareWorlds()
	}
	took := time.Since(start)
	f.finishRun(ctx, before)
	calls, findings, statuses := f.report.sum()
	f.report.say("%d calls in %v, %d findings; statuses %v; seed %d", calls, took.Round(time.Second), findings, statuses, f.seed)
	return findings, nil
}

func (f *fuzzer) createWorkers() {
	t, shared := newTable(), []string{"shared-0", "shared-1"}
	for n := range f.workers + 1 {
		cl := &client{socket: f.socket, patience: f.patience}
		f.crew = append(f.crew, newWorker(n, f.seed, cl, t, f.report, f.image, shared))
	}
	f.scout, f.crew = f.crew[0], f.crew[1:]
}

// warmUp does once what makes an engine take what it then keeps, and finds the image.
func (f *fuzzer) warmUp() bool {
	id := f.scout.idOf(f.image)
	for _, w := range append(f.crew, f.scout) {
		w.world.baseID = id
	}
	s := f.scout
	for range 4 {
		for _, do := range []func(){s.createContainer, s.startContainer, s.inspectContainer, s.createExec, s.startExec, s.readLogs, s.readStats, s.buildImage, s.commitContainer, s.createNetwork, s.createVolume, s.importImage, s.putFile, s.getFile} {
			do()
		}
	}
	_, findings, _ := f.report.sum()
	f.removeAll()
	return id != "" && findings == 0
}

// runRound lets all workers make their steps and waits for them.
func (f *fuzzer) runRound(ctx context.Context) {
	var all sync.WaitGroup
	for _, w := range f.crew {
		all.Go(func() { w.run(ctx, round) })
	}
	all.Wait()
}

// compareWorlds compares what the engine shows with what the workers know.
func (f *fuzzer) compareWorlds() {
	if !f.engine.isAlive() {
		f.report.addFinding(0, "the engine's process %d has gone", f.engine.pid)
	}
	lines, end := f.engine.defectLines(f.log)
	f.log = end
	for _, line := range lines {
		f.report.addFinding(0, "the engine's log: %.3000s", line)
	}
	inv := f.scout.takeInventory()
	if inv == nil {
		return
	}
	for _, w := range f.crew {
		w.checkInventory(inv)
	}
}

// finishRun removes everything and looks for what is left.
func (f *fuzzer) finishRun(ctx context.Context, before *footprint) {
	for _, w := range append(f.crew, f.scout) {
		w.client.close()
	}
	if left := f.removeAll(); left != "" {
		f.report.addFinding(0, "after the removal of everything there is still %s", left)
	}
	now, leaks := f.engine.awaitSettled(ctx, f.scout, before, time.Minute)
	f.report.say("at the end: %v", now)
	for _, leak := range leaks {
		f.report.addFinding(0, "a leak: %s", leak)
	}
	f.compareWorlds()
}

// removeAll removes all containers, images but the one, volumes and networks. It returns what does not go.
func (f *fuzzer) removeAll() (left string) {
	for end := time.Now().Add(f.patience); ; <-time.After(200 * time.Millisecond) {
		for _, w := range append(f.crew, f.scout) {
			known := w.world
			w.world = newWorld()
			w.world.baseID, w.world.serial = known.baseID, known.serial
		}
		inv := f.scout.takeInventory()
		if inv == nil {
			return "no list"
		}
		left = f.requestRemovals(inv)
		if left == "" || time.Now().After(end) {
			return left
		}
	}
}

// requestRemovals asks for the removal of all that is there and returns what was.
func (f *fuzzer) requestRemovals(inv *inventory) string {
	var there []string
	gone := func(kind string, names []string) {
		for _, name := range names {
			there = append(there, kind+" "+name)
			f.scout.removeAny(kind, name)
		}
	}
	gone("container", sortedKeys(inv.containers))
	base := f.scout.world.baseID
	for _, name := range sortedKeys(inv.images) {
		if name != f.image && name != "<none>:<none>" {
			gone("image", []string{name})
		}
	}
	for _, id := range sortedKeys(inv.imageIDs) {
		if id != base {
			gone("image", []string{id})
		}
	}
	gone("volume", sortedKeys(inv.volumes))
	for _, name := range sortedKeys(inv.networks) {
		if name != "bridge" && name != "host" && name != "none" {
			gone("network", []string{name})
		}
	}
	return strings.Join(there, ", ")
}
