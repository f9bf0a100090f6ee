// Command moss-swarm is this node's part in a swarm: SwarmKit's node, which the engine starts when the node makes a swarm or
// joins one, and whenever it finds that it is in one. The engine passes requests on to it; it runs tasks by the engine's API.
//
// Descriptor 3 is the socket on which it listens.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"moss/engine/swarm/executor"
	"moss/engine/swarm/member"
	"moss/engine/swarm/mesh"
)

// version is set by the linker.
var version = "0.0.0-dev"

const listenFD = 3

func main() {
	unix.Umask(0o077)
	holdMemory()
	set, err := readSettings(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "moss-swarm: "+err.Error())
		os.Exit(2)
	}
	log := newLogger(set, os.Stderr)
	member.AdoptLog(log)
	if err := serve(set, log); err != nil {
		log.Error().Err(err).Msg("moss-swarm ends")
		os.Exit(1)
	}
}

// settings are what the engine says on the command line. It holds no secret.
type settings struct {
	dir       string   // of the node's state
	runDir    string   // of this boot
	keepalive string   // FIFO whose last writer is the engine's outer process; empty: none
	folders   []string // of the host, that services may mount
	netNS     string   // path of the containers' network namespace
	dataAddr  string   // of the tunnel between nodes
	dataPort  uint16   // 0: the default
	pool      string   // of networks, of a swarm that this node makes
	level     string   // of the log
	format    string   // of the log: text or json
}

func readSettings(args []string) (set settings, err error) {
	flags := pflag.NewFlagSet("moss-swarm", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&set.dir, "dir", "", "")
	flags.StringVar(&set.runDir, "run-dir", "", "")
	flags.StringVar(&set.keepalive, "keepalive", "", "")
	flags.StringArrayVar(&set.folders, "host-folder", nil, "")
	flags.StringVar(&set.netNS, "netns", "", "")
	flags.StringVar(&set.dataAddr, "data-addr", "", "")
	flags.Uint16Var(&set.dataPort, "data-port", 0, "")
	flags.StringVar(&set.pool, "pool", "", "")
	flags.StringVar(&set.level, "log-level", "info", "")
	flags.StringVar(&set.format, "log-format", "text", "")
	if err := flags.Parse(args); err != nil {
		return set, err
	}
	if set.dir == "" || set.runDir == "" || flags.NArg() > 0 {
		return set, errors.New("it is started by mossd")
	}
	return set, nil
}

// newLogger returns a log as the engine's, which is the file that it writes to as well.
func newLogger(set settings, stderr io.Writer) zerolog.Logger {
	level, err := zerolog.ParseLevel(set.level)
	if err != nil {
		level = zerolog.InfoLevel
	}
	zerolog.TimeFieldFormat = time.RFC3339Nano
	out := stderr
	if set.format != "json" {
		out = zerolog.ConsoleWriter{Out: stderr, NoColor: true, TimeFormat: time.RFC3339}
	}
	return zerolog.New(out).Level(level).With().Timestamp().Str("program", "moss-swarm").Logger()
}

// lastAnswers bounds requests under way at the end.
const lastAnswers = 5 * time.Second

// serve runs the node until it is of no use any more, or told to end.
func serve(set settings, log zerolog.Logger) error {
	l, err := inheritListener()
	if err != nil {
		return err
	}
	engine := filepath.Join(set.runDir, "engine-swarm.sock")
	netNS, err := holdNetNS(set.netNS)
	if err != nil {
		log.Error().Err(err).Msg("the swarm's networks end at this node")
	}
	defer func() { _ = netNS.Close() }() // nil is closed as well
	networks, err := mesh.New(mesh.Options{
		Dir: set.dir, Engine: engine, NetNS: pathOf(netNS), DataAddr: set.dataAddr, DataPort: set.dataPort, Log: log,
	})
	if err != nil {
		return err
	}
	tasks, err := executor.New(executor.Options{Socket: engine, HostFolders: set.folders, Networks: networks, Log: log})
	if err != nil {
		return err
	}
	defer func() { _ = tasks.Close() }()
	node := member.Open(member.Options{
		Dir: set.dir, Control: filepath.Join(set.runDir, "swarm-control.sock"), Executor: labelled{tasks, networks},
		RemoveTasks: tasks.RemoveAll, Forget: networks.Forget, Pool: set.pool, Taken: networks.Taken,
		Machine: identifyMachine("/etc/machine-id"), Log: log,
	})
	networks.Start(node)
	closeNode := func() {
		networks.Close()
		node.Close()
	}
	defer closeNode()
	end := newEnding(func() bool { return node.Status().State != member.Inactive })
	if set.keepalive != "" {
		if err := followKeepalive(set.keepalive, end.now); err != nil {
			return err
		}
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT)
	go func() {
		<-signals
		end.now()
	}()
	first := time.AfterFunc(time.Minute, end.consider) // the engine that started it has died before it greeted
	defer first.Stop()
	return answer(l, newHandler(node, tasks, end, closeNode, log), end)
}

// answer serves the API until the end.
func answer(l net.Listener, handler http.Handler, end *ending) error {
	path := l.Addr().String()
	own, err := os.Stat(path)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-end.done:
	}
	// The engine may have put the next one's socket in its place.
	if now, err := os.Stat(path); err == nil && os.SameFile(own, now) {
		_ = os.Remove(path)
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastAnswers)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		_ = server.Close()
	}
	return nil
}

func inheritListener() (net.Listener, error) {
	file := os.NewFile(listenFD, "listener")
	l, err := net.FileListener(file)
	if err != nil {
		return nil, fmt.Errorf("descriptor %d is no socket, moss-swarm is started by mossd: %w", listenFD, err)
	}
	_ = file.Close() // the listener has its own
	return l, nil
}

// followKeepalive calls leave when the FIFO's last writer, the engine's outer process, has gone.
func followKeepalive(path string, leave func()) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open keepalive %s: %w", path, err)
	}
	file := os.NewFile(uintptr(fd), path)
	go func() {
		buf := make([]byte, 64)
		for {
			if _, err := file.Read(buf); err != nil {
				leave()
				return
			}
		}
	}()
	return nil
}
