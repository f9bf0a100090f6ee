package executor

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/moby/swarmkit/v2/agent/exec"

	"moss/api/client"
)

const (
	firstDelay = 100 * time.Millisecond // between two attempts to reach the engine; doubles
	lastDelay  = time.Second
)

// The answers that mean something of their own here.
const (
	statusNotFound    = 404
	statusConflict    = 409
	statusUnavailable = 503
)

// engineEnds is a part of what an engine that is about to end tells its clients (api/server).
const engineEnds = "the engine is ending, or being replaced"

// engine makes calls of the engine, and makes them again when they did not reach it.
type engine struct {
	client   *client.Client
	patience time.Duration
}

// callEngine does work until it reaches the engine, for as long as the patience. The work must bear being done twice: a
// connection that broke leaves open whether the engine has done it. The error is temporary in SwarmKit's sense if the engine
// stayed away.
func (e *engine) callEngine(ctx context.Context, work func(context.Context) error) error {
	limit, stop := context.WithTimeout(ctx, e.patience)
	defer stop()
	err := e.repeatWork(ctx, limit.Done(), work)
	if isAway(err) {
		return exec.MakeTemporary(err)
	}
	return err
}

// awaitEngine is callEngine without an end but that of ctx.
func (e *engine) awaitEngine(ctx context.Context, work func(context.Context) error) error {
	return e.repeatWork(ctx, nil, work)
}

// repeatWork does work until it reaches the engine or limit is closed; work that has begun before is not cut short by limit.
func (e *engine) repeatWork(ctx context.Context, limit <-chan struct{}, work func(context.Context) error) error {
	for delay := firstDelay; ; delay = min(2*delay, lastDelay) {
		err := work(ctx)
		if !isAway(err) {
			return err
		}
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-limit:
			timer.Stop()
			return err
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// isAway tells whether an error says that the engine was not there to answer, or about to end.
func isAway(err error) bool {
	if _, ok := errors.AsType[*client.ConnectError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*client.LostError](err); ok {
		return true
	}
	answered, ok := errors.AsType[*client.Error](err)
	if !ok {
		return false
	}
	switch answered.Status {
	case statusUnavailable:
		// A request that was cancelled and not by us, or one that the engine has sent away.
		return answered.Kind == "internal" || strings.Contains(answered.Message, engineEnds)
	case 0: // inside a stream
		return strings.Contains(answered.Message, engineEnds) || strings.Contains(answered.Message, context.Canceled.Error())
	}
	return false
}

// isMissing tells whether the engine answered that there is no such object.
func isMissing(err error) bool { return client.StatusOf(err) == statusNotFound }

// decodeRecord reads one record that the engine answered as it is.
func decodeRecord(raw json.RawMessage, err error, out any) error {
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, out)
}
