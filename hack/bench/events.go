package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"moss/api/handler"
	"moss/api/route"
	"moss/api/server"
	"moss/engine/event"
	"moss/engine/event/journal"
)

const (
	idleListeners  = 1000
	floodListeners = 100
	floodRate      = 10000 // events in a second
	floodTime      = 10 * time.Second
)

// measureEvents measures what 1000 listeners weigh to which nothing is told, and how many of 10,000 events a second do
// not reach 100 of them. An engine cannot make that many by its containers: the second is measured with its bus, its
// journal and its API in a process of their own, clients included.
func (b *bench) measureEvents(ctx context.Context, i *instance) error {
	s := samples{}
	if err := pause(ctx, settle); err != nil { // the metric before may leave a process that still ends
		return err
	}
	before, _, err := memoryOf(i.cmd.Process.Pid)
	if err != nil {
		return err
	}
	listeners, err := openListeners(ctx, i.socket, idleListeners)
	defer func() { err = errors.Join(err, hangUp(listeners)) }()
	if err != nil {
		return err
	}
	if err := pause(ctx, settle); err != nil {
		return err
	}
	after, _, err := memoryOf(i.cmd.Process.Pid)
	if err != nil {
		return err
	}
	s["1000 idle listeners"] = after - before
	if i.own {
		if err := hangUp(listeners); err != nil {
			return err
		}
		listeners = nil
		if err := publishToListeners(ctx, filepath.Dir(i.socket), s); err != nil {
			return err
		}
	}
	b.report.add(i.name, "events", s)
	return nil
}

// listener is a client that waits for events.
type listener struct {
	conn net.Conn
	body *bufio.Reader
}

// openListeners opens so many of them. Those that were opened are returned with an error too.
func openListeners(ctx context.Context, socket string, n int) (all []listener, err error) {
	var dialer net.Dialer
	for range n {
		conn, err := dialer.DialContext(ctx, "unix", socket)
		if err != nil {
			return all, err
		}
		all = append(all, listener{conn: conn, body: bufio.NewReaderSize(conn, 64<<10)})
		if _, err := io.WriteString(conn, "GET /v1.24/events HTTP/1.1\r\nHost: engine\r\n\r\n"); err != nil {
			return all, err
		}
		if err := conn.SetReadDeadline(time.Now().Add(callLimit)); err != nil {
			return all, err
		}
		resp, err := http.ReadResponse(all[len(all)-1].body, nil) //nolint:bodyclose // the connection ends it
		if err != nil {
			return all, err
		}
		if resp.StatusCode != http.StatusOK {
			return all, fmt.Errorf("listen to events: %s", resp.Status)
		}
		all[len(all)-1].body = bufio.NewReaderSize(resp.Body, 64<<10)
	}
	return all, nil
}

func hangUp(all []listener) error {
	var errs []error
	for _, l := range all {
		if err := l.conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// publishToListeners publishes to listeners over the socket of a server of its own, in a folder in dir.
func publishToListeners(ctx context.Context, dir string, s samples) (err error) {
	if dir, err = os.MkdirTemp(dir, "flood"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	j, err := journal.Open(journal.Options{Dir: filepath.Join(dir, "journal")})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	bus := event.NewBusWith(j)
	defer bus.Close()
	socket := filepath.Join(dir, "s")
	file, err := listeningSocket(socket)
	if err != nil {
		return err
	}
	api, err := server.New(ctx, server.Options{
		Files: []*os.File{file}, MaxConnections: 2 * floodListeners, Log: zerolog.Nop(),
		Handler: route.New(handler.New(handler.Services{Events: bus}).Routes(), route.Options{Log: zerolog.Nop()}), //nolint:contextcheck // requests bring their own
	})
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	serving, cancel := context.WithCancel(ctx)
	go func() { served <- api.Serve(serving) }()
	defer func() { cancel(); err = errors.Join(err, <-served) }()
	listeners, err := openListeners(ctx, socket, floodListeners)
	defer func() { err = errors.Join(err, hangUp(listeners)) }()
	if err != nil {
		return err
	}
	var reading sync.WaitGroup
	got := make([]int, floodListeners)
	late := make([]time.Duration, floodListeners)
	for k := range listeners {
		reading.Go(func() { got[k], late[k] = countEvents(listeners[k]) })
	}
	began := time.Now()
	sent := publishEvents(ctx, bus)
	took := time.Since(began)
	bus.Close()
	reading.Wait()
	lost, worst := 0, time.Duration(0)
	for k := range got {
		lost += sent - got[k]
		worst = max(worst, late[k])
	}
	s["published a second"] = float64(sent) / took.Seconds()
	s["lost of them by 100"] = float64(lost)
	s["worst delay"] = toMilliseconds(worst)
	return nil
}

// listeningSocket returns a socket that listens; the server closes it.
func listeningSocket(path string) (*os.File, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	file, err := l.File()
	return file, errors.Join(err, l.Close())
}

// publishEvents makes events at an even rate and returns how many.
func publishEvents(ctx context.Context, bus *event.Bus) (sent int) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < floodTime && ctx.Err() == nil; <-tick.C {
		due := min(int(time.Since(began).Seconds()*floodRate), floodRate*int(floodTime.Seconds()))
		for ; sent < due; sent++ {
			bus.Publish(event.Event{
				Type: event.TypeContainer, Action: "start", ID: strconv.Itoa(sent),
				Attributes: map[string]string{
					"image": "busybox:latest", "name": "container-" + strconv.Itoa(sent), "com.example.team": "storage", "com.example.stage": "test",
				},
			})
		}
	}
	return sent
}

// countEvents reads events until their end and returns how many came in their order, and how late the latest was.
func countEvents(l listener) (n int, late time.Duration) {
	if l.conn.SetReadDeadline(time.Now().Add(floodTime+callLimit)) != nil {
		return 0, 0
	}
	for {
		line, err := l.body.ReadSlice('\n')
		if err != nil {
			return n, late
		}
		if !bytes.Contains(line, strconv.AppendInt([]byte(`"id":"`), int64(n), 10)) {
			return n, late
		}
		n++
		if n%100 != 0 {
			continue
		}
		if _, text, ok := bytes.Cut(line, []byte(`"timeNano":`)); ok {
			if at, err := strconv.ParseInt(string(bytes.TrimRight(text, "}\n")), 10, 64); err == nil {
				late = max(late, time.Since(time.Unix(0, at)))
			}
		}
	}
}
