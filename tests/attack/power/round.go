package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"moss/api/client"
)

const (
	workers   = 4
	shortest  = 200 * time.Millisecond // from the first verb to the cut
	longest   = 4 * time.Second
	startTime = 60 * time.Second // for an engine to answer; a check of layers is in it
)

// round is one file system, one load, one cut, and what was there afterwards.
type round struct {
	kind      string
	seed      uint64
	dir       string
	bin, user string
	uid       int
	rand      *rand.Rand
	pool      *pool

	disk     *disk
	engine   *exec.Cmd
	client   *client.Client
	model    *model
	cutAfter time.Duration
}

// run returns what was wrong after the cut. An error says that the test itself did not work.
func (r *round) run(ctx context.Context) (faults []string, err error) {
	for _, dir := range []string{r.dir, filepath.Join(r.dir, "run")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	if r.disk, err = newDisk(ctx, r.kind, r.dir); err != nil {
		return nil, err
	}
	defer func() {
		r.killEngine()
		err = errors.Join(err, r.disk.close(context.WithoutCancel(ctx)))
	}()
	data := filepath.Join(r.disk.at, "data")
	if err := errors.Join(os.Mkdir(data, 0o700), os.Chown(data, r.uid, r.uid), r.freshRun()); err != nil {
		return nil, err
	}
	if err := r.startEngine(ctx); err != nil {
		return nil, err
	}
	r.model = newModel(r.rand, r.pool)
	if err := r.model.loadBase(ctx, r.client); err != nil {
		return nil, err
	}
	// Half of the cuts come early: what has just been acknowledged is most in danger.
	r.cutAfter = shortest + time.Duration(r.rand.Int64N(int64(longest-shortest)))>>(r.rand.IntN(2)*2)
	if err := r.driveEngine(ctx); err != nil {
		return nil, err
	}
	if err := r.disk.mountAgain(ctx); err != nil { // it waits for the last process
		return nil, err
	}
	// The same boot, by its id. A machine that went down has lost the folders of the boot, too.
	if r.rand.IntN(2) == 0 {
		if err := r.freshRun(); err != nil {
			return nil, err
		}
	}
	if err := r.startEngine(ctx); err != nil {
		return []string{fmt.Sprintf("the engine does not start after the cut: %v", err)}, nil
	}
	return r.model.check(ctx, r.client), nil
}

// driveEngine drives the engine until the power is cut, and kills it.
func (r *round) driveEngine(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	r.model.pace = watchPace(ctx, r.dir)
	var all sync.WaitGroup
	for n := range workers {
		w := r.model.newWorker(n)
		all.Go(func() { w.runVerbs(ctx, r.client) })
	}
	timer := time.NewTimer(r.cutAfter)
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	r.model.noteCut() // before the cut: what is acknowledged from here on does not count
	err := r.disk.cutPower()
	cancel()
	r.killEngine()
	all.Wait()
	told, terr := readSyncs(r.logFile())
	r.model.syncs = told
	return errors.Join(err, terr, <-r.model.pace.done)
}

// freshRun makes the folder of the boot an empty one.
func (r *round) freshRun() error {
	run := filepath.Join(r.dir, "run")
	return errors.Join(os.RemoveAll(run), os.Mkdir(run, 0o700), os.Chown(run, r.uid, r.uid))
}

// startEngine starts an engine in a namespace of processes, so that killing the first of them kills all, and waits
// until it answers.
func (r *round) startEngine(ctx context.Context) error {
	log, err := os.OpenFile(r.logFile(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the engine has it now
	// The first process reaps what the engine's death leaves to it, which the engine itself would not.
	r.engine = exec.CommandContext(ctx, "unshare", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "--propagation", "private",
		"bash", "-c", `"$@" & wait`, "init", r.user, "env",
		"XDG_DATA_HOME="+filepath.Join(r.disk.at, "data"), "XDG_RUNTIME_DIR="+filepath.Join(r.dir, "run"), "MOSS_LOG_LEVEL=debug",
		filepath.Join(r.bin, "mossd"))
	r.engine.Stdout, r.engine.Stderr = log, log
	r.engine.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // of the main thread, which main holds
	if err := r.engine.Start(); err != nil {
		return err
	}
	if r.client != nil {
		r.client.Close()
	}
	if r.client, err = client.New(client.Options{Host: "unix://" + filepath.Join(r.dir, "run/moss/moss.sock")}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		if err = r.client.Ping(ctx); err == nil {
			return nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return fmt.Errorf("the engine does not answer: %w", err)
		}
	}
}

// killEngine ends all processes of the engine and its containers at once.
func (r *round) killEngine() {
	if r.engine == nil {
		return
	}
	r.engine.Process.Signal(unix.SIGKILL) //nolint:errcheck // it may have ended
	r.engine.Wait()                       //nolint:errcheck // it was killed
	r.engine = nil
}

func (r *round) logFile() string { return filepath.Join(r.dir, "engine.log") }
