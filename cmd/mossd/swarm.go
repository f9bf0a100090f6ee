package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"moss/engine/config"
	"moss/engine/fault"
	"moss/engine/network"
	"moss/engine/swarm/status"
	"moss/engine/swarm/table"
	"moss/engine/swarmnet"
	"moss/engine/swarmservice"
	"moss/rootless"
)

// swarmRecord is the file of moss-swarm by which a node in a swarm is known (package member).
const swarmRecord = "member.json"

// openSwarmNetworks takes up what an earlier engine has made of this node's part in a swarm. Without one it looks for a file, and
// no more.
func (p *parts) openSwarmNetworks(ctx context.Context, facts rootless.Facts) (err error) {
	p.swarmNetworks, err = swarmnet.Open(swarmnet.Options{
		Path: filepath.Join(facts.RunDir, "swarm-view.json"), Networks: p.networks, Host: p.network, Damage: p.damage,
		Log: *zerolog.Ctx(ctx),
	})
	return err
}

// swarmAPI is the engine as moss-swarm reaches it: the API, where it may put containers into networks of the swarm, and the view
// of the swarm that it hands over.
type swarmAPI struct {
	api  http.Handler
	nets *swarmnet.Service
}

// ServeHTTP implements http.Handler.
func (a swarmAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == status.ViewPath {
		a.putView(w, r)
		return
	}
	a.api.ServeHTTP(w, r.WithContext(network.WithSwarm(r.Context())))
}

// mostView bounds a view, in bytes.
const mostView = 64 << 20

func (a swarmAPI) putView(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPut {
		w.Header().Set("Allow", http.MethodPut)
		http.Error(w, "a view of the swarm is put", http.StatusMethodNotAllowed)
		return
	}
	h := &table.Hosted{}
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostView))
	err := decoder.Decode(h)
	if err == nil && decoder.More() {
		err = errors.New("there is more behind it")
	}
	if err != nil {
		http.Error(w, "read the view of the swarm: "+err.Error(), http.StatusBadRequest)
		return
	}
	problems, err := a.nets.Apply(r.Context(), h)
	switch {
	case fault.Is(err, fault.Invalid):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(problems) // moss-swarm sends the view again
	}
}

// newSwarm returns the engine's side of a swarm, which starts nothing before the node is in one. api answers moss-swarm, and
// netNS leads to the containers' network namespace.
func newSwarm(
	cfg config.Config, facts rootless.Facts, netNS string, api http.Handler, log zerolog.Logger,
) *swarmservice.Service {
	dir := cmp.Or(cfg.SwarmDir, filepath.Join(facts.Root, "swarm"))
	args := []string{"--dir", dir, "--run-dir", facts.RunDir, "--log-level", cfg.LogLevel, "--log-format", cfg.LogFormat}
	if facts.Keepalive != "" {
		args = append(args, "--keepalive", facts.Keepalive)
	}
	for _, folder := range cfg.SwarmHostFolders {
		args = append(args, "--host-folder", folder)
	}
	args = append(args, "--netns", reachPath(netNS, os.Getpid()), "--data-addr", cfg.SwarmDataAddr,
		"--data-port", strconv.Itoa(int(cfg.SwarmDataPort)), "--pool", cfg.SwarmPool)
	return swarmservice.New(swarmservice.Options{
		Find: func() (string, error) { return findProgram("moss-swarm") }, Args: args,
		Socket: filepath.Join(facts.RunDir, "moss-swarm.sock"), Record: filepath.Join(dir, swarmRecord),
		Open: func() (io.Closer, error) {
			return openPrivate(filepath.Join(facts.RunDir, "engine-swarm.sock"), api, log)
		},
		Log: log,
	})
}

// reachPath returns the path by which another process gets at what this one has open.
func reachPath(path string, pid int) string {
	if rest, ok := strings.CutPrefix(path, "/proc/self/"); ok {
		return fmt.Sprintf("/proc/%d/%s", pid, rest)
	}
	return path
}

// private serves the API to moss-swarm. Its socket is the user's alone.
type private struct {
	server *http.Server
	path   string
}

func openPrivate(path string, api http.Handler, log zerolog.Logger) (*private, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) { // of an engine that was killed
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(true)
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	p := &private{server: &http.Server{Handler: api, ReadHeaderTimeout: time.Minute}, path: path}
	go func() {
		if err := p.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error().Err(err).Msg("the engine's socket for moss-swarm")
		}
	}()
	return p, nil
}

// Close ends the server with its connections.
func (p *private) Close() error { return p.server.Close() }
