// Powercut cuts the power of a file system below an engine that is at work, and looks at what the next engine finds.
//
//	powercut [-fs xfs,ext4,btrfs] [-rounds N] [-seed S] [-keep] -bin FOLDER -user COMMAND -uid UID
//
// It runs as root in a mount namespace of its own (hack/powercut.sh), the engine as the test user. Each round makes a fresh
// file system on a loop device, drives an engine with a mixed load that is drawn from the seed, and cuts the power at a
// drawn moment. On XFS and ext4 that is the shutdown ioctl without a flush of the log. btrfs has none that every kernel
// knows: its device lies on an XFS file, of which a reflink clone is taken, which has what had reached the device at that one
// moment. Then all processes are killed, the file system is mounted again, which replays its log, and the next engine starts.
// Images are pulled from a registry on loopback, the same ones in every round.
//
// What is drawn is the same for a seed, what the engine is doing at the moment of the cut is not. The last line is
// "powercut: N rounds, M failed".
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// options are those of the command line.
type options struct {
	kinds     []string
	rounds    int
	seed      uint64
	bin, user string
	uid       int
	keep      bool // the folder of a round that failed
	out       io.Writer
	pool      *pool
}

func main() {
	runtime.LockOSThread() // engines end with the thread that started them
	var o options
	kinds := flag.String("fs", "xfs,ext4,btrfs", "file systems")
	flag.IntVar(&o.rounds, "rounds", 3, "rounds for each file system")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano())%1_000_000, "of the first round of each file system; the next one has the next")
	flag.StringVar(&o.bin, "bin", "bin", "folder of the programs")
	flag.StringVar(&o.user, "user", "hack/as-user.sh", "runs a command as the test user")
	flag.IntVar(&o.uid, "uid", 0, "of the test user")
	flag.BoolVar(&o.keep, "keep", false, "keep the folder of a round that failed")
	flag.Parse()
	o.kinds, o.out = strings.Split(*kinds, ","), os.Stdout

	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	rounds, failed, err := o.run(ctx)
	stop()
	if err != nil {
		o.say("not ok powercut: %v\n", err)
	}
	o.say("powercut: %d rounds, %d failed\n", rounds, failed)
	if err != nil || failed > 0 {
		os.Exit(1)
	}
}

func (o *options) run(ctx context.Context) (rounds, failed int, err error) {
	top, err := os.MkdirTemp("/var/tmp", "powercut.")
	if err != nil {
		return 0, 0, err
	}
	if !o.keep {
		defer os.RemoveAll(top) //nolint:errcheck // what is left is in a temporary folder
	}
	if err := os.Chmod(top, 0o755); err != nil {
		return 0, 0, err
	}
	if o.pool, err = newPool(ctx, filepath.Join(top, "registry")); err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, o.pool.registry.Stop()) }()
	for _, kind := range o.kinds {
		if why := missingSupport(ctx, kind); why != "" {
			o.say("powercut: left out: %s: %s\n", kind, why)
			continue
		}
		lost := 0
		for n := range o.rounds {
			ok, err := o.runRound(ctx, kind, o.seed+uint64(n), filepath.Join(top, fmt.Sprintf("%.1s%d", kind, n)))
			if err != nil {
				return rounds, failed, err
			}
			rounds++
			if !ok {
				lost++
			}
		}
		o.say("# %s: %d rounds, %d failed\n", kind, o.rounds, lost)
		failed += lost
	}
	return rounds, failed, nil
}

func (o *options) say(format string, args ...any) {
	_, _ = fmt.Fprintf(o.out, format, args...) // nobody is there to be told then
}

// runRound runs one round and tells of it.
func (o *options) runRound(ctx context.Context, kind string, seed uint64, dir string) (ok bool, err error) {
	r := &round{kind: kind, seed: seed, dir: dir, bin: o.bin, user: o.user, uid: o.uid, rand: rand.New(rand.NewPCG(seed, 0)), pool: o.pool}
	began := time.Now()
	faults, err := r.run(ctx)
	if err != nil {
		return false, fmt.Errorf("%s, seed %d: %w", kind, seed, errors.Join(err, writeLogLines(o.out, r.logFile(), 40)))
	}
	verdict := "ok"
	if len(faults) > 0 {
		verdict = "not ok"
	}
	o.say("%s %s seed %d: cut after %s, %s (%s)\n", verdict, kind, seed, r.cutAfter.Round(time.Millisecond), r.model.summaryText(), time.Since(began).Round(100*time.Millisecond))
	for _, f := range faults {
		o.say("    %s\n", f)
	}
	if len(faults) > 0 {
		err = writeLogLines(o.out, r.logFile(), 0)
	}
	if !o.keep || len(faults) == 0 {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return len(faults) == 0, err
}

// missingSupport says what a file system lacks on this machine.
func missingSupport(ctx context.Context, kind string) string {
	if _, err := exec.LookPath("mkfs." + kind); err != nil {
		return "no mkfs." + kind
	}
	_ = runCommand(ctx, "modprobe", kind) // it may be built in
	known, err := os.ReadFile("/proc/filesystems")
	if err != nil || !strings.Contains(string(known), "\t"+kind+"\n") {
		return "this kernel does not know it"
	}
	return ""
}
