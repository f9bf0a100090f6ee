// Command replay writes down what a client asks an engine, and asks another engine the same: so clients that are not built in
// a run of the tests have their say in it.
//
//	replay record LISTEN ENGINE FILE   a proxy from one unix socket to another one, until a signal ends it
//	replay play ENGINE FILE            asks all of FILE; it fails if an answer has another status
//
// FILE has an event in each line: a request begins, the head of its answer comes, the answer ends. Events are played in their
// order, and what was going on side by side goes on side by side.
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

	"golang.org/x/sys/unix"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "replay:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	switch {
	case len(args) == 4 && args[0] == "record":
		l, err := net.Listen("unix", args[1])
		if err != nil {
			return err
		}
		return recordClient(ctx, l, args[2], args[3])
	case len(args) == 3 && args[0] == "play":
		return playFile(ctx, args[1], args[2], out)
	}
	return errors.New("usage: replay record LISTEN ENGINE FILE | replay play ENGINE FILE")
}

// The kinds of events.
const (
	kindBegin = "begin"
	kindHead  = "head"
	kindEnd   = "end"
)

// event is a line of the file.
type event struct {
	Kind     string `json:"kind"`
	Exchange int    `json:"exchange"` // the same number for the events of a request and its answer

	// Of a begin.
	Method  string `json:"method,omitempty"`
	Path    string `json:"path,omitempty"` // with the query
	Type    string `json:"type,omitempty"` // of the body
	Upgrade string `json:"upgrade,omitempty"`
	Text    string `json:"text,omitempty"` // the body, if it is text
	Data    []byte `json:"data,omitempty"` // the body, if it is not

	// Of a head.
	Status int    `json:"status,omitempty"`
	ID     string `json:"id,omitempty"` // of what the answer speaks of

	Left bool `json:"left,omitempty"` // of an end: the client did not wait for it
}

func (e event) bodyBytes() []byte {
	if e.Text != "" {
		return []byte(e.Text)
	}
	return e.Data
}

// transportTo returns the way to an engine.
func transportTo(socket string) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
		DisableCompression: true,
	}
}
