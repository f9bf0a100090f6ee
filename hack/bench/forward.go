package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

const (
	forwardBytes      = 100 * 1000 * 1000
	forwardContainers = 50
	forwardStarts     = 20
)

// measureForward measures log drivers with receivers that read as fast as they can: lines of 100 bytes to one receiver of each
// kind, what a start costs more than with json-file, and what moss-log weighs.
func (b *bench) measureForward(ctx context.Context, i *instance) (err error) {
	unixSink, err := listenSink("unix", filepath.Join(b.dir, "sink-"+i.name))
	if err != nil {
		return err
	}
	defer unixSink.close()
	tcpSink, err := listenSink("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer tcpSink.close()
	syslog := map[string]any{"Type": "syslog", "Config": map[string]string{"syslog-address": "unix://" + unixSink.address()}}
	fluentd := map[string]any{"Type": "fluentd", "Config": map[string]string{"fluentd-address": tcpSink.address()}}
	s := samples{}
	for _, way := range []struct {
		figure string
		log    map[string]any
		to     *sink
	}{{"syslog over unix", syslog, unixSink}, {"fluentd over tcp", fluentd, tcpSink}} {
		took, err := b.forwardLines(ctx, i, way.log, way.to)
		if err != nil {
			return fmt.Errorf("%s: %w", way.figure, err)
		}
		s[way.figure] = forwardBytes / 1e6 / took.Seconds()
	}
	if s["moss-log idle"], err = b.weighForwarder(ctx, i, syslog, 1, "sleep", "86400"); err != nil {
		return err
	}
	loud := "while :; do echo " + logLine + "; sleep 0.01; done"
	if s["moss-log of 50"], err = b.weighForwarder(ctx, i, syslog, forwardContainers, "sh", "-c", loud); err != nil {
		return err
	}
	var file, remote time.Duration
	for range forwardStarts {
		for _, way := range []struct {
			log   map[string]any
			total *time.Duration
		}{{map[string]any{"Type": "json-file"}, &file}, {syslog, &remote}} {
			took, err := b.startForwarded(ctx, i, way.log)
			if err != nil {
				return err
			}
			*way.total += took
		}
	}
	s["start more"] = (remote - file).Seconds() * 1000 / forwardStarts
	b.report.add(i.name, "forward", s)
	return nil
}

// createForwarded makes a container with a log driver.
func createForwarded(ctx context.Context, i *instance, log map[string]any, cmd ...string) (string, error) {
	return i.api.createWith(ctx, map[string]any{
		"Image": imageRef, "Cmd": cmd, "HostConfig": map[string]any{"NetworkMode": "none", "LogConfig": log},
	})
}

// forwardLines returns how long lines take from the start of their container until the receiver has them all.
func (b *bench) forwardLines(ctx context.Context, i *instance, log map[string]any, to *sink) (took time.Duration, err error) {
	id, err := createForwarded(ctx, i, log, "sh", "-c", "yes "+logLine+" | head -c "+strconv.Itoa(forwardBytes))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, i.api.removeContainer(context.WithoutCancel(ctx), id)) }()
	want := to.count() + forwardBytes/(len(logLine)+1)
	began := time.Now()
	if err := i.api.startContainer(ctx, id); err != nil {
		return 0, err
	}
	err = to.await(ctx, want)
	return time.Since(began), err
}

// weighForwarder returns the memory of moss-log in MiB beside so many containers.
func (b *bench) weighForwarder(ctx context.Context, i *instance, log map[string]any, containers int, cmd ...string) (mib float64, err error) {
	ids, err := runClients(ctx, stressClients, containers, func(ctx context.Context) (string, error) {
		id, err := createForwarded(ctx, i, log, cmd...)
		if err != nil {
			return "", err
		}
		return id, i.api.startContainer(ctx, id)
	})
	defer func() { err = errors.Join(err, b.removeContainers(context.WithoutCancel(ctx), i, ids)) }()
	if err != nil {
		return 0, err
	}
	if err := pause(ctx, 3*time.Second); err != nil {
		return 0, err
	}
	_, byName, err := memoryOf(i.cmd.Process.Pid)
	if err == nil && byName["moss-log"] == 0 {
		err = errors.New("moss-log does not run")
	}
	return byName["moss-log"], err
}

// startForwarded returns how long the start of a container takes.
func (b *bench) startForwarded(ctx context.Context, i *instance, log map[string]any) (took time.Duration, err error) {
	id, err := createForwarded(ctx, i, log, "true")
	if err != nil {
		return 0, err
	}
	began := time.Now()
	err = i.api.startContainer(ctx, id)
	took = time.Since(began)
	return took, errors.Join(err, i.api.waitContainer(ctx, id), i.api.removeContainer(context.WithoutCancel(ctx), id))
}

// sink is a receiver that counts lines.
type sink struct {
	l net.Listener

	mu    sync.Mutex // guards lines
	lines int
	news  chan struct{}
}

func listenSink(network, address string) (*sink, error) {
	l, err := net.Listen(network, address)
	if err != nil {
		return nil, err
	}
	s := &sink{l: l, news: make(chan struct{}, 1)}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go s.read(conn)
		}
	}()
	return s, nil
}

func (s *sink) address() string { return s.l.Addr().String() }
func (s *sink) close()          { _ = s.l.Close() }

// lineEnd ends each line, and nothing else has it.
var lineEnd = []byte(logLine[len(logLine)-4:])

// read counts the lines of one connection to its end.
func (s *sink) read(conn net.Conn) {
	defer conn.Close() //nolint:errcheck // it has been read
	buf := make([]byte, 256<<10)
	kept := 0
	for {
		n, err := conn.Read(buf[kept:])
		if err != nil {
			if !errors.Is(err, io.EOF) {
				fmt.Fprintln(os.Stderr, "bench: receiver of logs:", err)
			}
			return
		}
		seen := buf[:kept+n]
		s.mu.Lock()
		s.lines += bytes.Count(seen, lineEnd)
		s.mu.Unlock()
		select {
		case s.news <- struct{}{}:
		default:
		}
		// The beginning of an end may be the last that was read.
		rest := min(len(lineEnd)-1, len(seen)-max(0, bytes.LastIndex(seen, lineEnd)+len(lineEnd)))
		kept = copy(buf, seen[len(seen)-max(0, rest):])
	}
}

func (s *sink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lines
}

// await waits until so many lines have come.
func (s *sink) await(ctx context.Context, lines int) error {
	ctx, cancel := context.WithTimeout(ctx, transferLimit)
	defer cancel()
	for s.count() < lines {
		select {
		case <-s.news:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d lines came: %w", s.count(), lines, ctx.Err())
		}
	}
	return nil
}
