package main

import (
	"cmp"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"moss/engine/config"
	"moss/engine/swarmservice"
	"moss/rootless"
)

// swarmRecord is the file of moss-swarm by which a node in a swarm is known (package member).
const swarmRecord = "member.json"

// newSwarm returns the engine's side of a swarm, which starts nothing before the node is in one. api answers moss-swarm.
func newSwarm(cfg config.Config, facts rootless.Facts, api http.Handler, log zerolog.Logger) *swarmservice.Service {
	dir := cmp.Or(cfg.SwarmDir, filepath.Join(facts.Root, "swarm"))
	args := []string{"--dir", dir, "--run-dir", facts.RunDir, "--log-level", cfg.LogLevel, "--log-format", cfg.LogFormat}
	if facts.Keepalive != "" {
		args = append(args, "--keepalive", facts.Keepalive)
	}
	for _, folder := range cfg.SwarmHostFolders {
		args = append(args, "--host-folder", folder)
	}
	return swarmservice.New(swarmservice.Options{
		Find: func() (string, error) { return findProgram("moss-swarm") }, Args: args,
		Socket: filepath.Join(facts.RunDir, "moss-swarm.sock"), Record: filepath.Join(dir, swarmRecord),
		Open: func() (io.Closer, error) {
			return openPrivate(filepath.Join(facts.RunDir, "engine-swarm.sock"), api, log)
		},
		Log: log,
	})
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
