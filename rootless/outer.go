package rootless

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/rootless-containers/rootlesskit/v3/pkg/child"
	"github.com/rootless-containers/rootlesskit/v3/pkg/common"
	"github.com/rootless-containers/rootlesskit/v3/pkg/copyup/tmpfssymlink"
	"github.com/rootless-containers/rootlesskit/v3/pkg/parent"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/fdstore"
	"moss/slirp/uplink"
)

// Options says how to enter the namespaces. All roles of one engine are given the same.
type Options struct {
	Root   string // data folder; made with mode 0700
	RunDir string // folder of this boot; already made by RunDir
	Shim   string // path of moss-shim, whose supervise role runs the engine
	Uplink uplink.Config
	Hosts  []string // that Listen opens, as the settings name them
	// Listen opens the sockets that every engine gets; it is called by Outer alone, once both folders are this process's.
	Listen func(context.Context) (Sockets, error)
}

// Sockets listen from the first moment to the end of the outer process, whatever engine there is.
type Sockets interface {
	Files() []*os.File
	// Folders are those of the sockets that have files.
	Folders() []string
	// Restore opens sockets anew whose files are gone, and returns them; the old ones still listen. The caller closes them.
	Restore(context.Context) ([]*os.File, error)
	// Hosts are where clients find them, such as unix:///PATH.
	Hosts() []string
	Close() error
}

// Outer enters the namespaces, starts the engine in them and returns when it has ended. fault.Conflict if another engine
// holds one of the folders or a socket, fault.Forbidden for root. The exit status of the engine is that of ExitStatus(err).
func Outer(ctx context.Context, o Options) error {
	if err := checkHost(*zerolog.Ctx(ctx)); err != nil {
		return err
	}
	if err := secureDir(o.Root); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	locks := make([]*lock, 2)
	for i, dir := range []string{o.Root, o.RunDir} {
		var err error
		if locks[i], err = lockDir(dir); err != nil {
			return fault.Conflict("%w", err)
		}
		defer locks[i].remove() //nolint:errcheck // the end of the process gives it up all the same
	}
	if err := sweepRunDir(o.RunDir); err != nil {
		return fmt.Errorf("clean up after the last engine: %w", err)
	}
	run := &runFolder{dir: o.RunDir, lock: locks[1]}
	unlisten, err := run.lendSockets(ctx, o)
	if err != nil {
		return err
	}
	defer unlisten()
	if err := errors.Join(locks[0].writeHolder(run.sockets.Hosts()), locks[1].writeHolder(run.sockets.Hosts())); err != nil {
		return err
	}
	if err := os.Setenv("PATH", withSbin(os.Getenv("PATH"))); err != nil {
		return err
	}
	facts := Facts{
		Root: o.Root, RunDir: o.RunDir, Hosts: o.Hosts, StateDir: filepath.Join(o.RunDir, stateName),
		Keepalive: filepath.Join(o.RunDir, aliveName),
		Path:      os.Getenv("PATH"),
	}
	if run.alive, err = makeAliveFIFO(facts.Keepalive); err != nil {
		return err
	}
	defer func() {
		run.alive.Close()            //nolint:errcheck // nothing was written
		sweepRunDir(o.RunDir)        //nolint:errcheck // the next start does it as well
		os.RemoveAll(facts.StateDir) //nolint:errcheck // it may have been restored after RootlessKit removed it
	}()
	stop, err := run.keepRestored(ctx)
	if err != nil {
		return err
	}
	defer stop()

	source, err := chooseIDs(ctx, &facts)
	if err != nil {
		return err
	}
	groups, leave := takeCgroups(ctx, o.RunDir)
	facts.Cgroups = groups
	defer leave()
	if err := facts.exportToEnv(); err != nil {
		return err
	}
	return runParent(ctx, o, facts, source)
}

// chooseIDs finds out whether there are sub-ids, and prepares the single id otherwise.
func chooseIDs(ctx context.Context, facts *Facts) (source parent.SubidSource, err error) {
	facts.SingleIDReason, source = singleIDReason()
	facts.SingleID = facts.SingleIDReason != ""
	if !facts.SingleID {
		return source, nil
	}
	zerolog.Ctx(ctx).Warn().Str("reason", facts.SingleIDReason).Msg("no sub-ids: running with a single id")
	helpers := filepath.Join(facts.RunDir, "idmap")
	if err := putMapHelpers(helpers); err != nil {
		return source, fmt.Errorf("prepare the single-id map: %w", err)
	}
	return source, os.Setenv("PATH", helpers+":"+facts.Path)
}

// Names in the folder of this boot: the socket at which the supervisor gets the listening ones, the shims' FIFO, and the
// folder of RootlessKit.
const (
	lentName  = "lent"
	aliveName = "alive"
	stateName = "rootlesskit"
)

// lendSockets opens the sockets and lends them to the supervisor, and after them the one by which more may come.
// RootlessKit could hand down none but those of the outer process's first descriptors, as systemd passes them.
func (f *runFolder) lendSockets(ctx context.Context, o Options) (end func(), err error) {
	if f.sockets, err = o.Listen(ctx); err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, errors.Join(err, f.sockets.Close())
	}
	f.pass = pair[0]
	theirs := os.NewFile(uintptr(pair[1]), "more sockets")
	closeAll := func() error { return errors.Join(f.sockets.Close(), theirs.Close(), unix.Close(f.pass)) }
	path := filepath.Join(o.RunDir, lentName)
	stop, err := fdstore.Lend(path, append(slices.Clip(f.sockets.Files()), theirs))
	if err != nil {
		return nil, errors.Join(err, closeAll())
	}
	if err := os.Setenv(fdstore.LentEnv, path); err != nil {
		return nil, errors.Join(err, stop(), closeAll())
	}
	return func() {
		if err := errors.Join(stop(), closeAll()); err != nil { // nobody is lent what is closed
			zerolog.Ctx(ctx).Warn().Err(err).Msg("sockets not closed whole")
		}
	}, nil
}

func runParent(ctx context.Context, o Options, facts Facts, subIDs parent.SubidSource) error {
	if err := parent.InitStateDir(facts.StateDir); err != nil {
		return fmt.Errorf("prepare %s: %w", facts.StateDir, err)
	}
	o.Uplink.StateDir = facts.StateDir
	network, ports, err := uplink.Parent(o.Uplink, libraryLog(ctx, "uplink"))
	if err != nil {
		return err
	}
	early, stop := watchChild(filepath.Join(facts.StateDir, parent.StateFileChildPID))
	defer stop()
	ended := make(chan error, 1)
	opt := parent.Opt{
		PipeFDEnvKey: pipeKey, ChildUseActivationEnvKey: useSocketsKey,
		StateDir: facts.StateDir, StateDirEnvKey: stateKey,
		NetworkDriver: network, PortDriver: ports, DetachNetNS: true,
		// Mounts of the host (autofs homes, removable disks) appear inside; nothing goes the other way.
		Propagation: "rslave", SubidSource: subIDs,
	}
	go func() { ended <- parent.Parent(opt) }()
	select {
	case err := <-ended:
		return err
	case <-early:
		return errors.New("the process that makes the namespaces ended before it had made them; the lines above say why")
	}
}

// Child makes the namespaces and runs the supervisor in them; it returns when that has ended.
func Child(ctx context.Context, o Options) error {
	o.Uplink.StateDir = os.Getenv(stateKey)
	network, ports, err := uplink.Child(o.Uplink, libraryLog(ctx, "uplink"))
	if err != nil {
		return err
	}
	target, err := superviseCommand(o)
	if err != nil {
		return err
	}
	if err := os.Setenv(engineKey, "1"); err != nil {
		return err
	}
	err = child.Child(child.Opt{
		PipeFDEnvKey: pipeKey, RunActivationHelperEnvKey: activationKey, ChildUseActivationEnvKey: useSocketsKey,
		StateDirEnvKey: stateKey, TargetCmd: target, NetworkDriver: network, PortDriver: ports, DetachNetNS: true,
		CopyUpDriver: tmpfssymlink.NewChildDriver(), CopyUpDirs: []string{"/etc", "/run"}, Propagation: "rslave",
	})
	if errors.Is(err, io.EOF) {
		return errAbandoned
	}
	return err
}

// errAbandoned is the child's end when the outer process has given up, which it explains itself.
var errAbandoned = errors.New("the outer process has ended")

// withSbin adds the folders in which distributions keep ip and iptables and which are not in every user's PATH.
func withSbin(path string) string {
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if !slices.Contains(filepath.SplitList(path), dir) {
			path += ":" + dir
		}
	}
	return path
}

// superviseCommand is what runs the engine: the shim's supervise role, then this binary with another name and the same
// arguments.
func superviseCommand(o Options) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find mossd's own binary: %w", err)
	}
	return append([]string{o.Shim, "supervise", "--as", EngineName, "--", self}, os.Args[1:]...), nil
}

// ExitStatus returns the exit status that stands for err: that of the engine when it ended by itself, otherwise 1.
func ExitStatus(err error) int {
	if err == nil {
		return 0
	}
	if code, ok := common.GetExecExitStatus(err); ok && code > 0 {
		return code
	}
	return 1
}

// Ended reports whether err only says that the engine ended with a status of its own, which it has already explained.
func Ended(err error) bool {
	var exit interface{ ExitCode() int }
	return errors.As(err, &exit) || errors.Is(err, errAbandoned)
}

// sweepRunDir removes from the folder of this boot what belonged to the namespaces of an outer process that has ended: no
// process of an exec outlives them either. Engines and monitors alone have written there. Tasks stay while there are any:
// the next engine reads how they ended.
func sweepRunDir(runDir string) error {
	for _, name := range []string{
		"storage", "netns", "idmap", aliveName, "ipam", "bridge.next", "execs", "moss-log.sock", "moss-swarm.sock",
		"engine-swarm.sock", "swarm-control.sock", lentName,
		"registry", // of older engines, which kept blobs there
	} {
		if err := os.RemoveAll(filepath.Join(runDir, name)); err != nil {
			return err
		}
	}
	for _, name := range []string{"tasks", "runtime"} {
		err := os.Remove(filepath.Join(runDir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTEMPTY) {
			return err
		}
	}
	return nil
}
