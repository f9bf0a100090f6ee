package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"moss/api/server"
	"moss/api/socket"
	"moss/engine/config"
	"moss/rootless"
)

// firstHanded is the first descriptor after stdin, stdout and stderr: the sockets that are handed over begin there.
const firstHanded = 3

// connectionShare is the part of the descriptors that connections may have: each may need some, and the containers as well.
const connectionShare, mostConnections = 4, 1 << 15

// listen is for the outer process: it opens what the settings name, else takes what systemd has handed over, else opens the
// default socket.
func listen(cfg config.Config, runDir string) func(context.Context) (rootless.Sockets, error) {
	return func(ctx context.Context) (rootless.Sockets, error) {
		handed, err := handed()
		if err != nil {
			return nil, err
		}
		hosts := cfg.Hosts
		switch {
		case len(hosts) > 0:
		case len(handed) > 0:
			hosts = []string{"fd://"}
		default:
			hosts = []string{"unix://" + filepath.Join(runDir, "moss.sock")}
		}
		set, err := socket.Open(ctx, socket.Options{
			Hosts: hosts, Handed: handed, Group: cfg.SocketGroup,
			ClientCertificates: cfg.TLSVerify, AllowInsecureTCP: cfg.InsecureTCP,
		})
		if err != nil {
			return nil, err
		}
		for _, note := range set.Notes() {
			zerolog.Ctx(ctx).Warn().Str("note", note).Msg("sockets")
		}
		return set, nil
	}
}

// handed takes the sockets of socket activation that are meant for this process out of the environment.
func handed() ([]socket.Handed, error) {
	pid, err := strconv.Atoi(os.Getenv("LISTEN_PID"))
	ours := err == nil && pid == os.Getpid()
	n, err := strconv.Atoi(os.Getenv("LISTEN_FDS"))
	if err != nil {
		n = 0
	}
	names := strings.Split(os.Getenv("LISTEN_FDNAMES"), ":")
	for _, key := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		if err := os.Unsetenv(key); err != nil {
			return nil, err
		}
	}
	if !ours || n < 1 {
		return nil, nil
	}
	list := make([]socket.Handed, n)
	for i, f := range inheritedFiles(n) {
		list[i].File = f
		if i < len(names) {
			list[i].Name = names[i]
		}
	}
	return list, nil
}

// sockets are for the engine: what the outer process has opened.
func sockets() []*os.File {
	n, err := strconv.Atoi(os.Getenv("MOSS_LISTEN_FDS"))
	if err != nil || n < 1 {
		return nil
	}
	return inheritedFiles(n)
}

func inheritedFiles(n int) []*os.File {
	files := make([]*os.File, n)
	for i := range files {
		unix.CloseOnExec(firstHanded + i)
		files[i] = os.NewFile(uintptr(firstHanded+i), "socket "+strconv.Itoa(firstHanded+i))
	}
	return files
}

// serverOptions is what the settings say about the server.
func serverOptions(ctx context.Context, cfg config.Config, facts rootless.Facts, files []*os.File) server.Options {
	log := *zerolog.Ctx(ctx)
	if !slices.Equal(cfg.Hosts, facts.Hosts) {
		log.Warn().Strs("hosts", cfg.Hosts).Msg("the settings name other hosts than mossd was started with: they need a restart, not a reload")
	}
	opt := server.Options{Files: files, MaxConnections: maxConnections(), Log: log, Origin: cfg.CORS, AllowInsecureTCP: cfg.InsecureTCP}
	if cfg.TLS {
		opt.TLS = &server.TLS{Cert: cfg.TLSCert, Key: cfg.TLSKey, CA: cfg.TLSCACert}
	}
	return opt
}

// maxConnections leaves most descriptors to the containers.
func maxConnections() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0 // the server's own bound
	}
	return int(min(limit.Cur/connectionShare, mostConnections)) //nolint:gosec // it is small
}
