package server_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"moss/api/handler"
	"moss/api/route"
	"moss/api/server"
	"moss/api/socket"
	"moss/engine/container"
	"moss/engine/exec"
	"moss/engine/network"
)

// few is as many containers as are needed to ask for one of them, or for all.
type few struct {
	handler.Inventory

	records []*container.Record
}

// Get returns the first.
func (f few) Get(string) (*container.Record, error) { return f.records[0], nil }

// List returns all.
func (f few) List(context.Context, container.ListOptions) ([]*container.Record, error) {
	return f.records, nil
}

type noExecs struct{ handler.Execs }

// IDs returns none.
func (noExecs) IDs(string) []string { return nil }

// Inspect knows none.
func (noExecs) Inspect(string) (exec.Info, error) { return exec.Info{}, io.EOF }

// records returns n containers with what a running web server's record holds.
func records(n int) []*container.Record {
	list := make([]*container.Record, n)
	for i := range list {
		id := fmt.Sprintf("%064x", i+1)
		list[i] = &container.Record{
			ID: id, Name: "web" + strconv.Itoa(i), Created: time.Unix(1448064000, 0), State: container.Running, Pid: 4711,
			StartedAt: time.Unix(1448064001, 5), Path: "httpd", Args: []string{"-f", "-p", "80"}, Image: "busybox:latest",
			ImageID: "sha256:" + id, Driver: "overlay", ResolvConf: "/run/" + id + "/resolv.conf", HostsPath: "/run/" + id + "/hosts",
			HostnamePath: "/run/" + id + "/hostname", LogPath: "/data/" + id + "/log",
			Config: container.Config{
				Hostname: "web", Image: "busybox", Cmd: []string{"httpd", "-f", "-p", "80"}, Env: []string{"PATH=/usr/bin:/bin", "A=b"},
				Labels: map[string]string{"com.example.a": "1", "com.example.b": "2"}, ExposedPorts: map[string]struct{}{"80/tcp": {}},
			},
			Host: container.HostConfig{
				NetworkMode: "bridge", Binds: []string{"/srv:/srv:ro"}, PortBindings: map[string][]container.PortBinding{"80/tcp": {{HostPort: "8080"}}},
			},
			Network: container.Network{Sandbox: network.Sandbox{
				Ports: []network.Port{{HostIP: "0.0.0.0", HostPort: 8080, ContainerPort: 80, Proto: "tcp"}},
				Endpoints: map[string]network.Endpoint{"bridge": {
					NetworkID: id, EndpointID: id, Gateway: "10.88.0.1", IPAddress: "10.88.0.2", IPPrefixLen: 16, MacAddress: "02:42:0a:58:00:02",
				}},
			}},
		}
	}
	return list
}

// serve answers on a unix socket until the benchmark ends, and returns the socket's path.
func serve(b *testing.B, containers int) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "s")
	h := handler.New(handler.Services{Inventory: few{records: records(containers)}, Execs: noExecs{}})
	api := route.New(h.Routes(), route.Options{Version: "1.2.3", Log: zerolog.Nop()})
	set, err := socket.Open(b.Context(), socket.Options{Hosts: []string{"unix://" + path}})
	if err != nil {
		b.Fatal(err)
	}
	s, err := server.New(b.Context(), server.Options{Handler: api, Files: set.Files(), Log: zerolog.Nop()})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	return path
}

// client asks the same thing again and again on one connection, with as little work of its own as can be.
type client struct {
	conn    net.Conn
	in      *bufio.Reader
	request []byte
}

func dial(b *testing.B, path, ask string) *client {
	b.Helper()
	conn, err := (&net.Dialer{}).DialContext(b.Context(), "unix", path)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() }) //nolint:errcheck // It was only read.
	return &client{conn: conn, in: bufio.NewReaderSize(conn, 64<<10), request: []byte("GET " + ask + " HTTP/1.1\r\nHost: moss\r\n\r\n")}
}

func (c *client) once() error {
	if _, err := c.conn.Write(c.request); err != nil {
		return err
	}
	length, chunked := 0, false
	for first := true; ; first = false {
		line, err := c.in.ReadSlice('\n')
		switch {
		case err != nil:
			return err
		case first && !bytes.HasPrefix(line, []byte("HTTP/1.1 200")):
			return fmt.Errorf("answered %q", line)
		case bytes.HasPrefix(line, []byte("Content-Length: ")):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(line[len("Content-Length: "):]))); err != nil {
				return err
			}
		case bytes.HasPrefix(line, []byte("Transfer-Encoding:")):
			chunked = true
		case len(line) == len("\r\n"):
			if chunked {
				return errors.New("the answer comes in chunks")
			}
			_, err := c.in.Discard(length)
			return err
		}
	}
}

func BenchmarkAnswers(b *testing.B) {
	for _, what := range []struct {
		name, path string
		containers int
	}{
		{"ping 1.24", "/v1.24/_ping", 1},
		{"ping 1.51", "/v1.51/_ping", 1},
		{"inspect 1.24", "/v1.24/containers/web0/json", 1},
		{"inspect 1.51", "/v1.51/containers/web0/json", 1},
		{"list of 1000 1.24", "/v1.24/containers/json", 1000},
		{"list of 1000 1.51", "/v1.51/containers/json", 1000},
	} {
		path := serve(b, what.containers)
		for _, clients := range []int{1, 64} {
			b.Run(what.name+"/"+strconv.Itoa(clients), func(b *testing.B) { answers(b, path, what.path, clients) })
		}
	}
}

// answers has clients ask side by side, each one question after the other.
func answers(b *testing.B, path, ask string, clients int) {
	all := make([]*client, clients)
	for i := range all {
		all[i] = dial(b, path, ask)
	}
	b.ReportAllocs()
	b.ResetTimer()
	var left sync.WaitGroup
	for i, c := range all {
		share := b.N / clients
		if i < b.N%clients {
			share++
		}
		left.Go(func() {
			for range share {
				if err := c.once(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	left.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "answers/s")
}
