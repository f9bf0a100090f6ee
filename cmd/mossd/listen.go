package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"moss/api/server"
	"moss/api/socket"
	"moss/engine/config"
	"moss/engine/fdstore"
	"moss/rootless"
)

// firstHanded is the first descriptor after stdin, stdout and stderr: the sockets that are handed over begin there.
const firstHanded = 3

// connectionShare is the part of the descriptors that connections may have: each may need some, and the containers as well.
const connectionShare, mostConnections = 4, 1 << 15

// socketOpener is for the outer process. It returns a function that opens the sockets of the settings, else takes those that
// systemd has handed over, else opens the default one.
func socketOpener(cfg config.Config, runDir string) func(context.Context) (rootless.Sockets, error) {
	return func(ctx context.Context) (rootless.Sockets, error) {
		handed, err := takeHandedSockets()
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

// takeHandedSockets takes the sockets of socket activation that are meant for this process out of the environment.
func takeHandedSockets() ([]socket.Handed, error) {
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

// inheritedSockets returns the sockets that the outer process has opened for the engine.
func inheritedSockets() []*os.File {
	n, err := strconv.Atoi(os.Getenv("MOSS_LISTEN_FDS"))
	if err != nil || n < 1 {
		return nil
	}
	return inheritedFiles(n)
}

// moreSockets takes out of the sockets the last one, by which the outer process passes on those that it opens later. An outer
// process of an earlier version has none.
func moreSockets(files []*os.File) (listening []*os.File, more *os.File) {
	if len(files) == 0 {
		return files, nil
	}
	last := files[len(files)-1]
	raw, err := last.SyscallConn()
	if err != nil {
		return files, nil
	}
	dup, kind := -1, 0
	err = raw.Control(func(fd uintptr) {
		if kind, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TYPE); kind == unix.SOCK_SEQPACKET {
			dup, _ = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0)
		}
	})
	if err != nil || dup < 0 || unix.SetNonblock(dup, true) != nil { // so that waiting for it can be ended
		return files, nil
	}
	_ = last.Close()
	return files[:len(files)-1], os.NewFile(uintptr(dup), "more sockets")
}

// laterPrefix begins the names of sockets in the descriptor store that were opened later.
const laterPrefix = "listen:"

// later serves the sockets that the outer process opens because the files of others have gone. The next engine goes on with
// them.
type later struct {
	server *server.Server
	fds    *fdstore.Store
	log    zerolog.Logger
	next   int
}

// serveLater serves what an earlier engine was given, and what comes.
func (p *parts) serveLater(ctx context.Context, log zerolog.Logger) {
	l := &later{server: p.server, fds: p.fds, log: log}
	l.takeUp()
	if p.more == nil {
		return
	}
	p.laterEnded = make(chan struct{})
	go func() {
		defer close(p.laterEnded)
		l.servePassed(p.more, func() { p.tasks.Restore(ctx) })
	}()
}

// endLater ends serveLater. What comes waits for the next engine.
func (p *parts) endLater() {
	if p.more == nil {
		return
	}
	_ = p.more.SetReadDeadline(time.Now())
	<-p.laterEnded
	_ = p.more.Close()
}

// takeUp serves what an earlier engine was given.
func (l *later) takeUp() {
	for _, name := range l.fds.Names() {
		number, ok := strings.CutPrefix(name, laterPrefix)
		if !ok {
			continue
		}
		if n, err := strconv.Atoi(number); err == nil {
			l.next = max(l.next, n+1)
		}
		if f := l.fds.Take(name); f != nil {
			l.addSocket(f)
		}
	}
}

// servePassed serves what comes until the deadline of more, and calls restored each time: the folder of this boot was gone.
func (l *later) servePassed(more *os.File, restored func()) {
	for {
		err := fdstore.Passed(more, func(files []*os.File) {
			for _, f := range files {
				if err := l.fds.Put(l.storeName(l.next), f.Fd()); err != nil {
					l.log.Warn().Err(err).Msg("a socket is not kept for the next engine")
				}
				if old := l.next - mostLater; old >= 0 {
					_ = l.fds.Drop(l.storeName(old)) // the way is broken if it fails, which Put has said
				}
				l.next++
				l.addSocket(f)
			}
		})
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrDeadlineExceeded) {
				l.log.Warn().Err(err).Msg("sockets that are opened later are not served")
			}
			return
		}
		restored()
	}
}

// mostLater is how many of them are kept for the next engine.
const mostLater = 16

// storeName has enough digits for names to be in the order of their numbers.
func (l *later) storeName(n int) string { return fmt.Sprintf("%s%09d", laterPrefix, n) }

func (l *later) addSocket(f *os.File) {
	if err := l.server.Add(f); err != nil {
		l.log.Warn().Err(err).Msg("a socket that was opened later is not served")
	}
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
		log.Warn().Strs("hosts", cfg.Hosts).Msg("the settings name other hosts than mossd was started with: they need a restart, " +
			"not a reload")
	}
	opt := server.Options{
		Files: files, MaxConnections: maxConnections(), Log: log, Origin: cfg.CORS,
		AllowInsecureTCP: cfg.InsecureTCP,
	}
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
