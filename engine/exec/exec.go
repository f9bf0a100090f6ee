// Package exec owns the processes that are added to running containers: exec instances (API document 2, 4.3) and the
// probes of health checks. It says who may add what and when, and remembers how it ended; what runs them is behind
// package task.
//
// An instance lives as long as its container, a finished one at most some minutes more than its process, so that clients
// can ask for its exit code. What runs survives the engine: a small file per started instance tells the next engine.
package exec

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"moss/engine/container"
	"moss/engine/event"
	"moss/engine/fault"
	"moss/engine/ocispec"
	"moss/engine/session"
	"moss/engine/stdio"
	"moss/engine/task"
)

// Config is what a client asks of an exec (API document 2, 4.3: create).
type Config struct {
	AttachStdin  bool
	AttachStdout bool
	AttachStderr bool
	DetachKeys   string // as the client wrote them; empty: the default
	Tty          bool
	Cmd          []string
	Privileged   bool   // all capabilities that the user can have
	User         string // user, user:group, uid or uid:gid; empty: the container's

	Env        []string `json:",omitempty"` // laid over the container's; an entry without "=" takes a variable away
	WorkingDir string   `json:",omitempty"` // an absolute path; empty: the container's
}

// StartOptions say how an exec is started.
type StartOptions struct {
	Detach bool
	// Raw sends the output as it is, without frames. It is the tty of the start, which clients may spell otherwise than
	// that of the create.
	Raw bool
}

// Info is what there is to say about an instance.
type Info struct {
	ID          string
	ContainerID string
	Config      Config
	Running     bool // also while it is being started
	Pid         int  // in the engine's pid namespace; 0 when it does not run
	ExitCode    *int // nil until it has ended
	Cut         bool // an earlier engine went while a client was attached to it: of its output that client may lack the end
}

// containers is what runs the containers.
type containers interface {
	Get(ref string) (*container.Record, error)
	Running(ref string) (*container.Record, task.Task, error)
	User(ref, user string) (container.UserIDs, error)
	CheckWorkingDir(ref, dir string) error
	LinkEnv(r *container.Record) []string
}

// specs makes OCI process objects.
type specs interface {
	Process(in ocispec.Exec) (json.RawMessage, error)
}

// events is told what happened.
type events interface {
	Publish(e event.Event)
}

// Options is what a Service is made of. Every field is needed.
type Options struct {
	Dir        string // for this boot's files of started instances; made if missing
	Containers containers
	Specs      specs
	Events     events
	Log        zerolog.Logger
}

// Service knows all instances. Make one with New; Close it at the end.
type Service struct {
	opt        Options
	hostName   string
	killFamily func(pid int) // not the function of that name where pids are a fake's
	buffers    session.Buffers

	mu          sync.Mutex // guards the fields below and what instances say is guarded
	byID        map[string]*instance
	byContainer map[string]*group
	stale       []string // ids whose files unlockAndDrop removes

	background sync.WaitGroup
	life       context.Context //nolint:containedctx // of the service itself: what waits for processes is of no request
	end        context.CancelFunc
}

// New returns a Service that knows the instances which an earlier engine has left. ctx bounds the start only.
func New(ctx context.Context, opt Options) (*Service, error) {
	return newService(ctx, opt, killFamily)
}

// newService is New; kill is what kills a process with all below it.
func newService(ctx context.Context, opt Options, kill func(pid int)) (*Service, error) {
	if err := os.MkdirAll(opt.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make folder of execs: %w", err)
	}
	hostName, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	s := &Service{
		opt: opt, hostName: hostName, killFamily: kill,
		byID: map[string]*instance{}, byContainer: map[string]*group{},
	}
	s.life, s.end = context.WithCancel(context.WithoutCancel(ctx))
	if err := s.restoreInstances(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("take up execs: %w", err)
	}
	return s, nil
}

// Close ends the watching and leaves what runs to the next engine.
func (s *Service) Close() {
	s.end()
	s.background.Wait()
}

// instance is one exec.
type instance struct {
	id          string
	containerID string
	config      Config
	keys        []byte
	probe       bool // of a health check: no client knows it
	made        time.Time
	done        chan struct{}

	// The service's mu guards the fields below.
	state         state
	process       task.Process // from starting on
	attached      bool         // its start has an attached client, which waits for output
	cut           bool         // that client was cut off by the end of an earlier engine
	width, height uint16       // of the terminal, asked for before the start
	pid           int
	code          int
	ended         time.Time
	orphan        bool // its container has ended
}

// state is where an instance is in its life.
type state int

// The states; each follows only on those before it.
const (
	created  state = iota // nothing of it runs
	starting              // a start is at work
	running               // its process runs
	over                  // its process has ended, or could not be started
)

// maxShown bounds the command line in an event, in bytes: the bus remembers hundreds of events, and arguments may have
// megabytes.
const maxShown = 16 << 10

// commandLine returns the command line as events show it.
func (in *instance) commandLine() string {
	line := strings.Join(in.config.Cmd, " ")
	if len(line) <= maxShown {
		return line
	}
	return strings.ToValidUTF8(strings.Clone(line[:maxShown]), "") + "..." // a clone does not keep the rest alive
}

// check parses what can be wrong in a Config.
func (c *Config) check() (keys []byte, err error) {
	if len(c.Cmd) == 0 || c.Cmd[0] == "" {
		return nil, fault.Invalid("No exec command specified")
	}
	if err := container.CheckArgs("Cmd", c.Cmd); err != nil {
		return nil, err
	}
	if c.User != "" {
		if _, err := container.ParseUser(c.User); err != nil {
			return nil, err
		}
	}
	if err := container.CheckEnv(c.Env); err != nil {
		return nil, err
	}
	if c.WorkingDir, err = container.ParseWorkingDir(c.WorkingDir); err != nil {
		return nil, err
	}
	return stdio.ParseDetachKeys(c.DetachKeys)
}

// noSuch is the answer to an id that no instance has.
func noSuch(id string) error { return fault.NotFound("No such exec instance: %s", id) }

// readyContainer returns a container that processes can be added to.
func (s *Service) readyContainer(ref string) (*container.Record, task.Task, error) {
	r, t, err := s.opt.Containers.Running(ref)
	if err != nil {
		return nil, nil, err
	}
	if r.State == container.Paused {
		return nil, nil, fault.Conflict("Container %s is paused, unpause the container before exec", ref)
	}
	return r, t, nil
}

func (s *Service) publishEvent(action string, r *container.Record, in *instance, attributes ...string) {
	if in.probe {
		return
	}
	s.opt.Events.Publish(event.Event{
		Type: event.TypeContainer, Action: action, ID: r.ID, Time: time.Now(),
		Attributes: r.EventAttributes(append(attributes, "execID", in.id)...),
	})
}
