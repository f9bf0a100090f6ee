// Command bench measures moss beside podman and bare crun, in one run and round by round, so that what else the machine
// does falls on all of them alike.
//
//	go run ./hack/bench [--rounds N] [--quick] [--only METRIC,…] [--out FILE] [--bin DIR] [--beside DIR] [--state DIR] [--strict]
//
// Metrics: none and default (create, start, wait and remove of busybox `true` through the API, without network and with
// the default one), run and run-none (the same by the command line), start (engine start to its first answer), memory
// (PSS of an engine at rest and what each running container adds), stress (containers started per second by 8 clients),
// exec (of true, through the API), archive (one large file and many small ones into a container and out), logs (lines
// written and read back), attach (zeros to the docker command line), net (TCP by iperf3 between
// containers, the host and published ports, and what 500 of those weigh), image (470 MiB in six
// layers from a registry, from an archive and back), pulls (ten of it at once, and 2 GiB), build (twelve steps cold, cached
// and with a change, and a context of 50,000 files beside tar), busy (how fast other calls are answered beside an
// upload, a slow stop and execs), events (what 1000 listeners weigh, and whether 10,000 events a second reach 100), streams (what 1000 of each kind
// weigh, and how long a line is on its way to them), crowd (create to running beside 0, 100 and 1000 other containers, and lists of them).
//
// It runs as an ordinary user. Root drops to the test user by hack/as-user.sh, in a mount namespace of its own that
// hides /sys/fs/cgroup from every engine alike: crun refuses the hybrid layout, and no engine can set limits there.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// options are what the command line says.
type options struct {
	rounds int
	only   []string
	quick  bool
	out    string // file for the results as JSON; empty: none
	bin    string // folder with mossd, moss and moss-shim
	beside string // the same of another build, measured in the same rounds; empty: none
	state  string // folder for the stores of the engines
	strict bool   // a missed target is a failure
}

// metricNames in the order of the table.
func metricNames() []string {
	return []string{"none", "default", "run", "run-none", "start", "memory", "stress", "exec", "archive", "logs", "attach", "net", "image", "pulls", "build", "edge", "events", "streams", "busy", "crowd", "stopped", "entries", "forward", "hung"}
}

const (
	defaultRounds = 30
	quickRounds   = 7
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	code := 0
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		code = 1
	}
	stop()
	os.Exit(code)
}

// run measures, or becomes one of the helpers that measuring needs.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if dir := os.Getenv(envFloor); dir != "" {
		return serveFloor(ctx, dir, os.Stdin, stdout)
	}
	opt, err := parseOptions(args, stderr)
	if err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		return asUser(ctx, opt, args, stdout, stderr)
	}
	if os.Getenv(envReaped) == "" {
		code, err := runReaped(ctx)
		if err == nil && code != 0 {
			err = fmt.Errorf("measuring ended with status %d", code)
		}
		return err
	}
	report, err := measureAll(ctx, opt, stderr)
	if report == nil {
		return err
	}
	// What was measured is shown, whatever else went wrong.
	if err := errors.Join(err, report.writeTable(stdout), report.save(opt.out), ctx.Err()); err != nil {
		return err
	}
	if broken := report.brokenMetrics(); len(broken) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(broken, ", "))
	}
	if missed := report.missedTargets(); opt.strict && len(missed) > 0 {
		return fmt.Errorf("targets missed: %s", strings.Join(missed, ", "))
	}
	return nil
}

func flagSet(opt *options, only *string, stderr io.Writer) *flag.FlagSet {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&opt.rounds, "rounds", 0, fmt.Sprintf("rounds of every metric (default %d; those that take seconds take a tenth)", defaultRounds))
	flags.StringVar(only, "only", "", "metrics to measure, by commas: "+strings.Join(metricNames(), ","))
	flags.BoolVar(&opt.quick, "quick", false, fmt.Sprintf("%d rounds", quickRounds))
	flags.StringVar(&opt.out, "out", "", "write the results as JSON to this file")
	flags.StringVar(&opt.bin, "bin", "bin", "folder with mossd, moss and moss-shim")
	flags.StringVar(&opt.beside, "beside", "", "folder with another build of moss, to measure in the same rounds")
	flags.StringVar(&opt.state, "state", os.TempDir(), "folder for the engines' stores; its file system is measured too")
	flags.BoolVar(&opt.strict, "strict", false, "fail if a target is missed")
	return flags
}

func parseOptions(args []string, stderr io.Writer) (options, error) {
	opt := options{}
	only := ""
	flags := flagSet(&opt, &only, stderr)
	if err := flags.Parse(args); err != nil {
		return opt, err
	}
	if flags.NArg() > 0 {
		return opt, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	opt.only = metricNames()
	if only != "" {
		opt.only = strings.Split(only, ",")
	}
	for _, name := range opt.only {
		if !slices.Contains(metricNames(), name) {
			return opt, fmt.Errorf("no metric %q; there are %s", name, strings.Join(metricNames(), ", "))
		}
	}
	if opt.rounds < 0 || opt.rounds > math.MaxInt16 {
		return opt, fmt.Errorf("--rounds %d is out of range", opt.rounds)
	}
	if opt.rounds == 0 {
		opt.rounds = defaultRounds
		if opt.quick {
			opt.rounds = quickRounds
		}
	}
	var err error
	for _, path := range []*string{&opt.bin, &opt.beside, &opt.state, &opt.out} {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return opt, err
		}
	}
	return opt, opt.checkPrograms()
}

// programNames lists the programs that every build has.
func programNames() []string { return []string{"mossd", "moss", "moss-shim"} }

// laterPrograms lists the programs that an older build to compare with may lack.
func laterPrograms() []string { return []string{"moss-log"} }

func (o options) checkPrograms() error {
	for _, dir := range []string{o.bin, o.beside} {
		for _, name := range programNames() {
			if dir == "" {
				continue
			}
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
				return fmt.Errorf("%w (make build makes it)", err)
			}
		}
	}
	return nil
}

// slowRounds returns how many rounds of a metric are worth it that takes seconds each time.
func (o options) slowRounds() int { return max(1, (o.rounds+5)/10) }

func (o options) wants(name string) bool { return slices.Contains(o.only, name) }
