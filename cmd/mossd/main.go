// Command mossd is the engine: rootless, one per user.
//
// The same binary is every process of an engine but the shims: the outer one that the user starts, RootlessKit's child,
// and the inner engine (package rootless tells them apart). This file starts each role; wire.go puts the engine together.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"
	"go.podman.io/storage/pkg/reexec"
	"golang.org/x/sys/unix"

	"moss/api/apiver"
	"moss/engine/config"
	"moss/engine/container"
	"moss/rootless"
	"moss/slirp/uplink"
)

// version and commit are set by the linker.
var (
	version = "0.0.0-dev"
	commit  = "unknown"
	// buildTime is RFC 3339, in UTC.
	buildTime = ""
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run does what this process is for and returns its exit status.
func run(args []string, stdout, stderr io.Writer) int {
	sample := holdSampling()
	if reexec.Init() {
		return 0 // a helper of containers/storage, in its own process
	}
	role := rootless.Dispatch()
	setUmask(role)
	if role == rootless.RoleHelper {
		return 0
	}
	asked, done, err := readSettings(args, stdout)
	if done {
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "mossd: %v\n", err) //nolint:errcheck // nowhere left to report it
		return 1
	}
	cfg := asked.Config
	log := newLogger(cfg, stderr)
	adoptLibraries(log)
	ctx := log.WithContext(context.Background())
	switch role {
	case rootless.RoleChild:
		shrinkAfterStart()
		err = runChild(ctx, cfg)
	case rootless.RoleEngine:
		if asked.reset {
			err = resetInner(asked.SwarmDir)
			break
		}
		if cfg.DebugProfiles {
			sample()
		}
		return runEngine(ctx, cfg, stderr)
	case rootless.RoleOuter, rootless.RoleHelper:
		shrinkAfterStart()
		err = runOuter(ctx, asked)
	}
	if err != nil && !rootless.Ended(err) {
		reportFailure(log, cfg, stderr, err, "mossd cannot go on")
	}
	return rootless.ExitStatus(err)
}

// setUmask makes the modes of files independent of the user's umask. The engine's is Docker's, for what the storage library
// and the kernel make in layers with it; its own files have their modes explicitly, as those of the shims have.
func setUmask(role rootless.Role) {
	if role == rootless.RoleEngine {
		unix.Umask(0o022)
	} else {
		unix.Umask(0o077)
	}
}

// command is what the command line and the settings below it ask for.
type command struct {
	config.Config
	reset bool // remove the data folder and end
}

// readSettings reads the command line and what lies below it. done means that the question was only --help or --version.
func readSettings(args []string, stdout io.Writer) (cfg command, done bool, err error) {
	flags := pflag.NewFlagSet("mossd", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	values := map[string]*[]string{}
	for _, s := range config.Settings() {
		values[s.Key] = &[]string{}
		flags.Var(&settingFlag{setting: s, values: values[s.Key]}, s.Key, s.Usage+" ("+s.Env+")")
		if s.Switch {
			flags.Lookup(s.Key).NoOptDefVal = "true"
		}
	}
	file := flags.String("config", "", "settings `FILE` (MOSS_CONFIG; default ~/.config/moss/moss.toml)")
	flags.BoolVar(&cfg.reset, "reset", false, "remove everything in the engine's data folder and exit; 'moss system reset' asks first")
	showVersion := flags.Bool("version", false, "print the version and exit")
	err = flags.Parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		_, err = fmt.Fprintf(stdout, "Usage: mossd [flags]\n\nRuns the moss container engine for the calling user until it gets SIGTERM.\n\n%s\n"+
			"In parentheses: the variable of the environment for the same setting. A flag overrides the variable, and the\n"+
			"variable overrides the settings file. A variable with several values has commas between them.\n", flags.FlagUsages())
		return cfg, true, err
	case err != nil:
		return cfg, false, err
	case *showVersion:
		_, err = fmt.Fprintf(stdout, "mossd %s (%s)\n", version, commit)
		return cfg, true, err
	case flags.NArg() > 0:
		return cfg, false, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	given := map[string][]string{}
	for key, list := range values {
		if flags.Changed(key) {
			given[key] = *list
		}
	}
	cfg.Config, err = config.Load(config.Options{File: *file, FileRequired: *file != "", Environ: os.Getenv, Flags: given})
	if cfg.reset {
		cfg.NetworkDriver = config.NetworkNone // no traffic goes anywhere
	}
	if err == nil {
		_, err = apiver.Served(cfg.APIMin, cfg.APIMax) // now, and not where only the log would tell
		if err != nil {
			err = fmt.Errorf("settings api-min and api-max: %w", err)
		}
	}
	if err == nil {
		if err = container.CheckLogConfig(logDefaults(cfg.Config)); err != nil {
			err = fmt.Errorf("settings log-driver and log-opt: %w", err)
		}
	}
	return cfg, false, err
}

// rootlessOptions returns the options that every role of one engine has in common.
func rootlessOptions(cfg config.Config) (rootless.Options, error) {
	shim, err := findProgram("moss-shim")
	return rootless.Options{
		Root: cfg.Root, RunDir: cfg.RunDir, Shim: shim,
		Uplink: uplink.Config{Driver: cfg.NetworkDriver, MTU: cfg.MTU, HostLoopback: cfg.HostLoopback},
	}, err
}

// findProgram looks for a program of moss beside mossd, then in PATH.
func findProgram(name string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find mossd's own binary: %w", err)
	}
	beside := filepath.Join(filepath.Dir(self), name)
	if _, err := os.Stat(beside); err == nil {
		return beside, nil
	}
	found, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is neither beside %s nor in PATH", name, self)
	}
	return filepath.Abs(found)
}

func runOuter(ctx context.Context, asked command) error {
	if err := rootless.RefuseRoot(os.Geteuid(), os.Getenv); err != nil {
		return err // before it makes folders
	}
	cfg := asked.Config
	dir, why, err := rootless.RunDir(cfg.RunDir, os.Getenv)
	if err != nil {
		return fmt.Errorf("folder for this boot: %w", err)
	}
	if why != "" {
		zerolog.Ctx(ctx).Warn().Str("why", why).Str("dir", dir).Msg("folder for this boot")
	}
	o, err := rootlessOptions(cfg)
	if err != nil {
		return err
	}
	o.RunDir, o.Hosts, o.Listen = dir, cfg.Hosts, socketOpener(cfg, dir)
	if asked.reset {
		return resetOuter(ctx, o)
	}
	return rootless.Outer(ctx, o)
}

func runChild(ctx context.Context, cfg config.Config) error {
	o, err := rootlessOptions(cfg)
	if err != nil {
		return err
	}
	return rootless.Child(ctx, o)
}
