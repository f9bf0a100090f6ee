package launch

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// pingFirst asks for a ping before anything else is sent on the first connection: an engine that is being stopped takes
// connections until it ends, and whoever waits in the queue of its socket is cut off then. What was sent once cannot be sent
// again to the next engine, since nobody knows what became of it. It returns a connection to an engine that answered, or, once
// the socket is closed, the error of a connection to nobody.
func (s *Starter) pingFirst(ctx context.Context, conn net.Conn) (net.Conn, error) {
	limit := time.Now().Add(startTimeout)
	var dialer net.Dialer
	for {
		again, err := pingEngine(ctx, conn)
		if err == nil && again {
			s.greeted.Store(true)
			return conn, nil
		}
		_ = conn.Close()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, errNoPing): // what it says to the call itself is for its user
			s.greeted.Store(true)
			return dialer.DialContext(ctx, s.Place.Host.Network, s.Place.Host.Address)
		case time.Now().After(limit):
			return nil, errors.New("the engine keeps closing the connection")
		}
		select {
		case <-time.After(startPoll):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if conn, err = dialer.DialContext(ctx, s.Place.Host.Network, s.Place.Host.Address); err != nil {
			return nil, err
		}
	}
}

// isAnswering reports whether the engine answers a ping on a connection of its own: it is ready then.
func (s *Starter) isAnswering(ctx context.Context) bool {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, s.Place.Host.Network, s.Place.Host.Address)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	_, err = pingEngine(ctx, conn)
	return err == nil
}

var errNoPing = errors.New("the engine does not answer as one") //nolint:gochecknoglobals // a constant

// pingEngine asks for a ping by hand, since nothing must be read that does not belong to it. again reports whether the connection
// can be used for more. errNoPing if the answer is another one.
func pingEngine(ctx context.Context, conn net.Conn) (again bool, err error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := io.WriteString(conn, "GET /_ping HTTP/1.1\r\nHost: moss\r\n\r\n"); err != nil {
		return false, err
	}
	reader := bufio.NewReader(conn)
	resp, err := http.ReadResponse(reader, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return false, err
	}
	if resp.StatusCode != http.StatusOK {
		return false, errNoPing
	}
	return !resp.Close && reader.Buffered() == 0, nil
}

// awaitTransition waits for an engine that holds the folders and does not answer at its sockets: one that is ending, or just
// starting. It reports whether one answers after all. One that listens elsewhere is not waited for: it may stay for ever.
func (s *Starter) awaitTransition(ctx context.Context) bool {
	tick := time.NewTicker(startPoll)
	defer tick.Stop()
	for {
		engine, found, err := s.Running()
		if err != nil || !found || !s.isInTransition(ctx, engine) {
			return false
		}
		if s.isAnswering(ctx) {
			return true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
}

// isInTransition reports whether an engine is only starting, or ending: its sockets do not listen, or the default one is its own.
func (s *Starter) isInTransition(ctx context.Context, engine Engine) bool {
	var dialer net.Dialer
	for _, host := range engine.Hosts {
		path, local := strings.CutPrefix(host, "unix://")
		if local && sameFile(path, s.Place.Host.Address) {
			return true
		}
		if !local {
			continue
		}
		conn, err := dialer.DialContext(ctx, "unix", path)
		if err != nil {
			return true
		}
		_ = conn.Close()
	}
	return len(engine.Hosts) == 0
}
