package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// eventLimit is how long an event may take to come: it is much for a busy machine.
const eventLimit = 2 * time.Minute

// exchange is a request that is being played.
type exchange struct {
	begin  event
	head   chan result // of one result
	end    chan error  // of one error
	cancel context.CancelFunc
}

type result struct {
	status int
	id     string
	err    error
}

// player asks an engine what a file tells.
type player struct {
	client  *http.Client
	going   map[int]*exchange
	renamed map[string]string // ids of the file and what they are now
}

// playFile asks the engine all of a file, and tells out how many requests that were.
func playFile(ctx context.Context, engine, path string, out io.Writer) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // it is only read
	p := &player{client: &http.Client{Transport: transportTo(engine)}, going: map[int]*exchange{}, renamed: map[string]string{}}
	events, count := json.NewDecoder(bufio.NewReader(file)), 0
	for {
		var e event
		switch err := events.Decode(&e); {
		case errors.Is(err, io.EOF):
			_, err := fmt.Fprintf(out, "%d requests\n", count)
			return err
		case err != nil:
			return fmt.Errorf("%s: %w", path, err)
		}
		if e.Kind == kindBegin {
			count++
		}
		if err := p.playEvent(ctx, e); err != nil {
			return err
		}
	}
}

func (p *player) playEvent(ctx context.Context, e event) error {
	if e.Kind == kindBegin {
		p.going[e.Exchange] = p.beginExchange(ctx, e)
		return nil
	}
	x := p.going[e.Exchange]
	if x == nil {
		return fmt.Errorf("the file has no beginning of exchange %d", e.Exchange)
	}
	limit := time.NewTimer(eventLimit)
	defer limit.Stop()
	what := x.begin.Method + " " + x.begin.Path
	if e.Kind == kindHead {
		select {
		case got := <-x.head:
			if got.err != nil {
				return fmt.Errorf("%s: %w", what, got.err)
			}
			if got.status != e.Status {
				return fmt.Errorf("%s: status %d, want %d", what, got.status, e.Status)
			}
			if e.ID != "" {
				p.renamed[e.ID] = got.id
			}
			return nil
		case <-limit.C:
			return fmt.Errorf("%s: no answer", what)
		}
	}
	defer x.cancel()
	delete(p.going, e.Exchange)
	if e.Left {
		return nil
	}
	select {
	case err := <-x.end:
		if err != nil {
			return fmt.Errorf("%s: the answer breaks off: %w", what, err)
		}
		return nil
	case <-limit.C:
		return fmt.Errorf("%s: the answer does not end", what)
	}
}

// translateIDs puts the ids of today in the place of those of the file.
func (p *player) translateIDs(text []byte) []byte {
	for was, is := range p.renamed {
		text = bytes.ReplaceAll(text, []byte(was), []byte(is))
	}
	return text
}

// beginExchange asks, and does not wait for the answer.
func (p *player) beginExchange(ctx context.Context, e event) *exchange {
	ctx, cancel := context.WithCancel(ctx)
	x := &exchange{begin: e, head: make(chan result, 1), end: make(chan error, 1), cancel: cancel}
	path, body := string(p.translateIDs([]byte(e.Path))), p.translateIDs(e.bodyBytes())
	go func() {
		req, err := http.NewRequestWithContext(ctx, e.Method, "http://engine"+path, bytes.NewReader(body))
		if err != nil {
			x.head <- result{err: err}
			return
		}
		if e.Type != "" {
			req.Header.Set("Content-Type", e.Type)
		}
		if e.Upgrade != "" {
			req.Header.Set("Connection", "Upgrade")
			req.Header.Set("Upgrade", e.Upgrade)
		}
		resp, err := p.client.Do(req)
		if err != nil {
			x.head <- result{err: err}
			return
		}
		id, err := idOf(resp)
		x.head <- result{status: resp.StatusCode, id: id, err: err}
		_, err = io.Copy(io.Discard, resp.Body)
		x.end <- errors.Join(err, resp.Body.Close())
	}()
	return x
}
