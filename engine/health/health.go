// Package health runs the health checks of containers (API document 1, 2.2) and says what they show. It knows when to check
// and what a result means; the check itself is a command that somebody else runs.
//
// Between two checks a container costs one timer and one goroutine.
package health

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"moss/engine/container"
	"moss/engine/event"
	"moss/engine/fault"
)

// containers is where the state of health is kept.
type containers interface {
	Get(ref string) (*container.Record, error)
	SetHealth(began *container.Record, health container.Health) (now *container.Record, noted bool, err error)
}

// runner runs a command in a container: see exec.Service.Run.
type runner interface {
	Run(ctx context.Context, containerID string, args []string, timeout time.Duration, most int) (code int, output []byte, err error)
}

// events is told what happened.
type events interface {
	Publish(e event.Event)
}

// Options is what a Service is made of. Every field is needed.
type Options struct {
	Containers containers
	Commands   runner
	Events     events
	Log        zerolog.Logger
}

// Service checks containers from their beginning to their end, of which it must be told. Make one with New; Close it at
// the end.
type Service struct {
	opt Options

	mu       sync.Mutex // guards the fields below
	monitors map[string]context.CancelFunc
	closed   bool

	background sync.WaitGroup
	life       context.Context //nolint:containedctx // of the service itself: checks are of no request
	end        context.CancelFunc
}

// New returns a Service that checks nothing yet. ctx gives it its values only.
func New(ctx context.Context, opt Options) *Service {
	s := &Service{opt: opt, monitors: map[string]context.CancelFunc{}}
	s.life, s.end = context.WithCancel(context.WithoutCancel(ctx))
	return s
}

// Close ends all checks and waits for those under way to be undone.
func (s *Service) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end()
	s.background.Wait()
}

// Began starts the checks of a container, if it has any.
func (s *Service) Began(r *container.Record) {
	check, ok := container.HealthCheckOf(&r.Config)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	if last := s.monitors[r.ID]; last != nil {
		last()
	}
	ctx, cancel := context.WithCancel(s.life)
	s.monitors[r.ID] = cancel
	s.background.Go(func() {
		defer cancel()
		s.monitorContainer(ctx, r, check)
	})
}

// Ended ends the checks of a container.
func (s *Service) Ended(containerID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel := s.monitors[containerID]; cancel != nil {
		cancel()
		delete(s.monitors, containerID)
	}
}

// monitorContainer checks one container until ctx is done. The interval counts from the end of one check to the start of the
// next; a new engine goes on where the last one was.
func (s *Service) monitorContainer(ctx context.Context, began *container.Record, check container.HealthCheck) {
	health := container.Health{Status: container.HealthStarting}
	if began.Health != nil {
		health = *began.Health
	}
	wait := check.Pause(&health, began.StartedAt, time.Now())
	if n := len(health.Log); n > 0 {
		wait = min(max(wait-time.Since(health.Log[n-1].End), 0), wait)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if result, ok := s.runCheck(ctx, began.ID, check); ok {
			before := health.Status
			health = healthAfter(health, result, check, began.StartedAt)
			s.saveHealth(began, health, before)
		}
		timer.Reset(check.Pause(&health, began.StartedAt, time.Now()))
	}
}

// maxOutput is how many bytes of a check's output are kept.
const maxOutput = 4096

// runCheck runs the check once. It reports false where there is nothing to learn: the container is paused, or has gone.
func (s *Service) runCheck(ctx context.Context, containerID string, check container.HealthCheck) (container.HealthResult, bool) {
	if s.isPaused(containerID) {
		return container.HealthResult{}, false
	}
	result := container.HealthResult{Start: time.Now().UTC()}
	code, output, err := s.opt.Commands.Run(ctx, containerID, check.Args, check.Timeout, maxOutput)
	result.End, result.ExitCode = time.Now().UTC(), code
	switch {
	case err == nil:
		result.Output = string(output)
	case ctx.Err() != nil:
		return result, false
	case s.isPaused(containerID), fault.Is(err, fault.Conflict): // meanwhile, or it is about to end
		return result, false
	case errors.Is(err, context.DeadlineExceeded):
		result.ExitCode = -1
		result.Output = fmt.Sprintf("Health check exceeded timeout (%s)", check.Timeout)
		if len(output) > 0 {
			result.Output += ": " + string(output)
		}
	default:
		result.ExitCode, result.Output = -1, err.Error()
	}
	result.Output = result.Output[:min(len(result.Output), maxOutput)]
	return result, true
}

func (s *Service) isPaused(containerID string) bool {
	r, err := s.opt.Containers.Get(containerID)
	return err == nil && r.State == container.Paused
}

// maxLog is how many results are kept.
const maxLog = 5

// healthAfter returns the health after a result. A success is healthy at once. Failures count, but not those of a container that
// has never been healthy while its start period lasts.
func healthAfter(
	h container.Health, result container.HealthResult, check container.HealthCheck, startedAt time.Time,
) container.Health {
	h.Log = append(h.Log[max(0, len(h.Log)-maxLog+1):len(h.Log):len(h.Log)], result)
	switch {
	case result.ExitCode == 0:
		h.Status, h.FailingStreak = container.HealthHealthy, 0
	case h.Status == container.HealthStarting && result.Start.Sub(startedAt) < check.StartPeriod:
	default:
		h.FailingStreak++
		if h.FailingStreak >= check.Retries {
			h.Status = container.HealthUnhealthy
		}
	}
	return h
}

// saveHealth saves the health and publishes an event when the status has changed.
func (s *Service) saveHealth(began *container.Record, health container.Health, before string) {
	now, noted, err := s.opt.Containers.SetHealth(began, health)
	if err != nil && !fault.Is(err, fault.NotFound) {
		s.opt.Log.Warn().Err(err).Str("container", began.ID).Msg("health of container not saved")
	}
	if !noted || health.Status == before {
		return
	}
	s.opt.Events.Publish(event.Event{
		Type: event.TypeContainer, Action: "health_status: " + health.Status, ID: now.ID,
		Attributes: now.EventAttributes(), Time: time.Now(),
	})
}
