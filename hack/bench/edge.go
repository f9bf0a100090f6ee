package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	edgePings   = 20000 // one after the other, on one connection
	edgeClients = 64
	edgeSpan    = 3 * time.Second
	edgeLimit   = time.Minute // of one connection
)

// measureEdge measures what the way of a request costs: the shortest one on one connection, and how many there are in a
// second.
func (b *bench) measureEdge(ctx context.Context, i *instance) error {
	return withBox(ctx, i, func(box string) error {
		c, err := dialLean(ctx, i.socket)
		if err != nil {
			return err
		}
		defer c.Close() //nolint:errcheck // nothing is lost with it
		var times series
		for range edgePings {
			began := time.Now()
			if err := c.get("/_ping"); err != nil {
				return err
			}
			times = append(times, toMilliseconds(time.Since(began)))
		}
		s := samples{"_ping p50": times.quantile(0.5), "_ping p99": times.quantile(0.99)}
		for figure, path := range map[string]string{
			"_ping at 64": "/_ping", "inspect at 64": "/v1.24/containers/" + box + "/json",
		} {
			if s[figure], err = answerRate(ctx, i.socket, path); err != nil {
				return err
			}
		}
		b.report.add(i.name, "edge", s)
		return nil
	})
}

// answerRate returns how many answers a second 64 clients get that ask without a pause.
func answerRate(ctx context.Context, socket, path string) (float64, error) {
	var (
		done    atomic.Int64
		clients sync.WaitGroup
		mu      sync.Mutex // guards errs
		errs    []error
	)
	began := time.Now()
	for range edgeClients {
		clients.Go(func() {
			c, err := dialLean(ctx, socket)
			if err == nil {
				defer c.Close() //nolint:errcheck // nothing is lost with it
				for err == nil && time.Since(began) < edgeSpan && ctx.Err() == nil {
					if err = c.get(path); err == nil {
						done.Add(1)
					}
				}
			}
			if err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	return float64(done.Load()) / time.Since(began).Seconds(), errors.Join(errs...)
}

// lean is a client that does nothing but ask and read: what it takes of the processors is missing to the engine.
type lean struct {
	net.Conn

	in *bufio.Reader
}

func dialLean(ctx context.Context, socket string) (*lean, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	// One deadline for all that it asks: setting one each time would be measured too.
	if err := c.SetDeadline(time.Now().Add(edgeLimit)); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &lean{Conn: c, in: bufio.NewReader(c)}, nil
}

// get asks once and reads the answer to its end.
func (c *lean) get(path string) error {
	if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: engine\r\n\r\n"); err != nil {
		return err
	}
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", path, resp.Status)
	}
	return nil
}
