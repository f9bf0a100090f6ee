package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// engine is a container engine that can be started any number of times, each on a folder of its own.
type engine struct {
	name string
	own  bool // a build of this repository
	// prepare makes the files for an engine on dir and says how to start it and where it will answer.
	prepare func(dir string) (plan, error)
}

// plan is how to use one engine on one folder.
type plan struct {
	serve  []string
	cli    []string // the command line, up to its verb
	env    []string
	socket string
}

// instance is an engine that runs. Whoever started it stops it.
type instance struct {
	plan
	name  string
	own   bool
	box   string // id of a container that sleeps, once it is there
	lost  error  // why the engine was stopped before the end of the run
	cmd   *exec.Cmd
	ended chan error
	api   *api
	log   string
	took  time.Duration // from the start to the first answer
}

const (
	startLimit = 20 * time.Second
	stopLimit  = 20 * time.Second
	pollEvery  = 500 * time.Microsecond
)

// launch starts the engine on dir and waits for its first answer.
func (e *engine) launch(ctx context.Context, dir string) (*instance, error) {
	p, err := e.prepare(dir)
	if err != nil {
		return nil, fmt.Errorf("prepare %s: %w", e.name, err)
	}
	i := &instance{plan: p, name: e.name, own: e.own, ended: make(chan error, 1), api: newAPI(p.socket), log: filepath.Join(dir, "log")}
	log, err := os.OpenFile(i.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // the engine has its own
	i.cmd = exec.CommandContext(context.WithoutCancel(ctx), p.serve[0], p.serve[1:]...)
	i.cmd.Env, i.cmd.Stdout, i.cmd.Stderr, i.cmd.Dir = p.env, log, log, dir
	began := time.Now()
	if err := i.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { i.ended <- i.cmd.Wait() }()
	for {
		if _, err := os.Stat(p.socket); err == nil && i.api.call(ctx, http.MethodGet, "/_ping", nil, "", nil) == nil {
			i.took = time.Since(began)
			return i, nil
		}
		select {
		case err := <-i.ended:
			return nil, fmt.Errorf("%s ended before it answered: %w\n%s", e.name, err, i.logTail())
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), i.stop())
		case <-time.After(pollEvery):
		}
		if time.Since(began) > startLimit {
			return nil, errors.Join(fmt.Errorf("%s does not answer\n%s", e.name, i.logTail()), i.stop())
		}
	}
}

// launchFresh starts one more engine of a name, on a folder of its own, and gives it the image. The caller stops it.
func (b *bench) launchFresh(ctx context.Context, name, purpose string) (*instance, error) {
	at := slices.IndexFunc(b.engines, func(e *engine) bool { return e.name == name })
	dir, err := os.MkdirTemp(b.dir, name+"-"+purpose)
	if err != nil {
		return nil, err
	}
	i, err := b.engines[at].launch(ctx, dir)
	if err != nil {
		return nil, err
	}
	if err := i.api.importImage(ctx, b.image); err != nil {
		return nil, errors.Join(fmt.Errorf("import the image: %w", err), i.stop())
	}
	return i, nil
}

// stop ends the engine and waits for it. An engine that does not end is killed.
func (i *instance) stop() error {
	i.api.close()
	if err := i.cmd.Process.Signal(unix.SIGTERM); err != nil {
		return fmt.Errorf("stop %s: %w", i.name, err)
	}
	select {
	case <-i.ended: //nolint:errcheck // podman's service ends with an error when it is told to end
		return nil
	case <-time.After(stopLimit):
		err := errors.Join(fmt.Errorf("%s does not end\n%s", i.name, i.logTail()), i.cmd.Process.Kill())
		<-i.ended //nolint:errcheck // it was killed
		return err
	}
}

// runCommand runs the engine's command line for at most limit and returns how long it took.
func (i *instance) runCommand(ctx context.Context, limit time.Duration, args ...string) (took float64, err error) {
	line := append(append([]string(nil), i.cli...), args...)
	err = withLimit(ctx, limit, strings.Join(args, " "), func(ctx context.Context) error {
		cmd := exec.CommandContext(ctx, line[0], line[1:]...)
		cmd.Env, cmd.Dir, cmd.WaitDelay = i.env, filepath.Dir(i.log), pipeLimit
		began := time.Now()
		out, err := cmd.CombinedOutput()
		took = toMilliseconds(time.Since(began))
		if err != nil {
			return fmt.Errorf("%s: %w: %s", i.name, err, out)
		}
		return nil
	})
	return took, err
}

// logTail returns the end of the engine's log.
func (i *instance) logTail() string {
	raw, err := os.ReadFile(i.log)
	if err != nil {
		return err.Error()
	}
	return string(raw[max(0, len(raw)-2000):])
}

// environmentOf returns what an engine on dir sees of its user.
func environmentOf(dir string) ([]string, error) {
	for _, path := range []string{filepath.Join(dir, "home"), filepath.Join(dir, "tmp"), runFolder(dir)} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return nil, err
		}
	}
	return []string{
		"HOME=" + filepath.Join(dir, "home"), "XDG_RUNTIME_DIR=" + runFolder(dir),
		"TMPDIR=" + filepath.Join(dir, "tmp"), "PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8",
	}, nil
}

// runName is the folder of what engines keep in their XDG_RUNTIME_DIR, beside theirs. Short: see runRootLimit.
const runName = "t"

// runFolder is the XDG_RUNTIME_DIR of an engine on dir.
func runFolder(dir string) string {
	return filepath.Join(filepath.Dir(dir), runName, filepath.Base(dir))
}

// newMossEngine returns a build of the engine of this repository.
func newMossEngine(name, bin string) *engine {
	return &engine{name: name, own: true, prepare: func(dir string) (plan, error) {
		env, err := environmentOf(dir)
		if err != nil {
			return plan{}, err
		}
		run := filepath.Join(runFolder(dir), "moss")
		socket := filepath.Join(run, "moss.sock")
		return plan{
			serve:  []string{filepath.Join(bin, "mossd"), "--root", filepath.Join(dir, "root"), "--run-dir", run},
			cli:    []string{filepath.Join(bin, "moss"), "--host", "unix://" + socket},
			env:    env,
			socket: socket,
		}, nil
	}}
}

const podmanConf = `[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "crun"
lock_type = "file"
[containers]
log_driver = "k8s-file"
pids_limit = 0
`

// runRootLimit is the number of characters that podman 4.3 allows for the folder of its run files. Its service does not
// check it, but the cleanup that runs after a container has ended does: that fails unseen, and wait answers after 20 s.
const runRootLimit = 50

// podmanRunRoot returns the folder of podman's run files for an engine on dir.
func podmanRunRoot(dir string) (string, error) {
	root := filepath.Join(runFolder(dir), "r")
	if len(root) > runRootLimit {
		return "", fmt.Errorf("%s has more than %d characters, which podman's cleanup refuses: give --state a shorter folder", root, runRootLimit)
	}
	return root, nil
}

// newPodmanEngine returns the one that the system has, with a registry that it may reach without TLS. Its command line
// does the work itself, beside the service.
func newPodmanEngine(path, insecure string) *engine {
	return &engine{name: "podman", prepare: func(dir string) (plan, error) {
		runRoot, err := podmanRunRoot(dir)
		if err != nil {
			return plan{}, err
		}
		env, err := environmentOf(dir)
		if err != nil {
			return plan{}, err
		}
		containers, storage := filepath.Join(dir, "containers.conf"), filepath.Join(dir, "storage.conf")
		registries, policy := filepath.Join(dir, "registries.conf"), filepath.Join(dir, "home", ".config", "containers", "policy.json")
		store := fmt.Sprintf("[storage]\ndriver = \"overlay\"\ngraphroot = %q\nrunroot = %q\n",
			filepath.Join(dir, "root"), runRoot)
		if err := errors.Join(
			os.WriteFile(containers, []byte(podmanConf), 0o600), os.WriteFile(storage, []byte(store), 0o600),
			os.WriteFile(registries, fmt.Appendf(nil, "[[registry]]\nlocation = %q\ninsecure = true\n", insecure), 0o600),
			os.MkdirAll(filepath.Dir(policy), 0o700), os.WriteFile(policy, []byte(`{"default":[{"type":"insecureAcceptAnything"}]}`), 0o600),
		); err != nil {
			return plan{}, err
		}
		socket := filepath.Join(runFolder(dir), "podman.sock")
		// An earlier service leaves its socket, and the next refuses to start over it.
		if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
			return plan{}, err
		}
		return plan{
			serve: []string{path, "--log-level", "error", "--runroot", runRoot, "system", "service", "--time", "0", "unix://" + socket},
			cli:   []string{path, "--log-level", "error", "--runroot", runRoot},
			env: append(env, "CONTAINERS_CONF="+containers, "CONTAINERS_STORAGE_CONF="+storage,
				"CONTAINERS_REGISTRIES_CONF="+registries),
			socket: socket,
		}, nil
	}}
}
