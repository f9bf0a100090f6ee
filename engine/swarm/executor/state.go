package executor

import (
	"errors"
	"time"

	"moss/api/types"
)

// verdict is what a container's state means for its task.
type verdict int

const (
	verdictWait      verdict = iota // nothing has been decided yet
	verdictReady                    // it runs, and is healthy if it has a check
	verdictEnded                    // it has run, and runs no more
	verdictUnhealthy                // it runs, and its check has failed
	verdictRestarted                // it runs, and not as this task has started it
	verdictUnstarted                // it has never run
)

// judgeState says what a container's state means. started is when the task's container was seen running; zero: it was not yet.
func judgeState(s *types.ContainerState, started time.Time) verdict {
	switch {
	case s.Status == "created":
		return verdictUnstarted
	case !s.Running:
		return verdictEnded
	case !started.IsZero() && !s.StartedAt.Equal(started):
		return verdictRestarted
	case s.Health == nil || s.Health.Status == "" || s.Health.Status == "none" || s.Health.Status == "healthy":
		return verdictReady
	case s.Health.Status == "unhealthy":
		return verdictUnhealthy
	default:
		return verdictWait
	}
}

// exitOf is the error that the end of a container means; nil for exit code 0.
func exitOf(s *types.ContainerState) error {
	reason := s.Error
	if s.OOMKilled {
		reason = "out of memory"
	}
	switch {
	case s.ExitCode == 0 && reason == "":
		return nil
	case s.ExitCode == 0:
		return errors.New("task: " + reason)
	}
	return &exitError{code: s.ExitCode, reason: reason}
}
