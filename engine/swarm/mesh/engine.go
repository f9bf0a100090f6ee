package mesh

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"moss/engine/swarm/status"
	"moss/engine/swarm/table"
	"moss/engine/swarm/tunnel"
)

const (
	problemPause = 5 * time.Second // until the engine tries again what it could not do
	firstAway    = 50 * time.Millisecond
	lastAway     = time.Second // between two calls of an engine that does not answer
	answerLimit  = 1 << 20     // bytes
)

// putView hands a view to the engine and returns what it could not make true.
func (m *Mesh) putView(ctx context.Context, node string, view *table.Table) (done table.Problems, err error) {
	body, err := json.Marshal(table.Hosted{Node: node, Tunnel: Device, MTU: tunnel.DefaultMTU, Table: view})
	if err != nil {
		return done, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://engine"+status.ViewPath, bytes.NewReader(body))
	if err != nil {
		return done, err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := m.engine.Do(request)
	if err != nil {
		return done, err
	}
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(answer.Body, answerLimit))
	if err != nil {
		return done, err
	}
	if answer.StatusCode != http.StatusOK {
		return done, fmt.Errorf("the engine answers %d: %s", answer.StatusCode, bytes.TrimSpace(raw))
	}
	if err := json.Unmarshal(raw, &done); err != nil {
		return done, fmt.Errorf("the engine's answer: %w", err)
	}
	return done, nil
}

// tellEngine hands each view to the engine until ctx ends: again while it has problems, and when it has come back.
func (m *Mesh) tellEngine(ctx context.Context, node string) {
	reports := &reporter{mesh: m}
	var again <-chan time.Time
	delay := firstAway
	for {
		now, woken := m.viewState()
		if now.view != nil && now.done < now.turn {
			done, err := m.putView(ctx, node, now.view)
			if err == nil {
				err = m.noteHosted(node, now, done.Refused)
			}
			if err == nil {
				reports.tellProblems(done.Problems)
				delay, again = firstAway, nil
				if len(done.Problems) > 0 {
					again = time.After(problemPause)
				}
				continue
			}
			reports.tellError(ctx, err)
			woken, again = nil, time.After(delay)
			delay = min(2*delay, lastAway)
		}
		select {
		case <-woken:
		case <-again:
			again = nil
			m.changeState(func() { m.now.turn++ })
		case <-ctx.Done():
			return
		}
	}
}

// noteHosted notes that the engine has made a view true, but for the networks that it refused: their addresses may be those of
// something else on this node, and packets to them are not led elsewhere.
func (m *Mesh) noteHosted(node string, at standing, refused map[string]string) error {
	if !maps.Equal(at.refused, refused) {
		if err := m.carrier.setView(node, at.view.WithoutNetworks(refused)); err != nil {
			return err
		}
	}
	m.changeState(func() {
		m.now.done, m.now.hosted, m.now.refused = at.turn, at.view.WithoutNetworks(refused), refused
	})
	return nil
}

// reporter writes into the log what has changed.
type reporter struct {
	mesh            *Mesh
	problems, error string
}

func (r *reporter) tellProblems(problems []string) {
	r.error = ""
	text := strings.Join(problems, "; ")
	if text == r.problems {
		return
	}
	r.problems = text
	if text == "" {
		r.mesh.opt.Log.Info().Msg("the swarm's networks are in place on this node")
		return
	}
	r.mesh.opt.Log.Warn().Str("problems", text).Msg("the swarm's networks on this node")
}

func (r *reporter) tellError(ctx context.Context, err error) {
	if ctx.Err() != nil || err.Error() == r.error {
		return
	}
	r.error = err.Error()
	r.mesh.opt.Log.Warn().Err(err).Msg("the engine does not take the view of the swarm's networks")
}

// watchEngine has the view sent again whenever the engine has come back, until ctx ends: it notices by a stream that ends with
// the engine.
func (m *Mesh) watchEngine(ctx context.Context) {
	none, _ := json.Marshal(map[string][]string{"type": {"network"}, "event": {"none"}})
	path := "http://engine/v1.24/events?filters=" + url.QueryEscape(string(none))
	for first := true; ctx.Err() == nil; first = false {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, path, http.NoBody)
		if err != nil {
			return
		}
		answer, err := m.engine.Do(request)
		if err == nil {
			if answer.StatusCode == http.StatusOK && !first {
				m.changeState(func() { m.now.turn++ })
			}
			_, _ = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
		}
		select {
		case <-time.After(lastAway):
		case <-ctx.Done():
		}
	}
}

// leaveEngine has the engine forget the networks. It waits for one that is away until ctx ends.
func (m *Mesh) leaveEngine(ctx context.Context, node string) error {
	for {
		_, err := m.putView(ctx, node, &table.Table{})
		if err == nil {
			return nil
		}
		select {
		case <-time.After(lastAway):
		case <-ctx.Done():
			return errors.Join(errors.New("the engine has not given up the swarm's networks"), err)
		}
	}
}
