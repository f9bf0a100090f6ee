package client

import (
	"context"
	"time"

	"moss/engine/task"
)

// Files lists the shim's files in the order of their removal.
func Files() []string { return shimFiles() }

// Waits reports whether somebody waits for the end of a task.
func (r *Runner) Waits() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting) > 0
}

// RecoverRecord looks for the record of a task whose shim did not answer; called is how the call ended.
func (r *Runner) RecoverRecord(ctx context.Context, dir string, called error) error {
	_, err := r.recoverRecord(ctx, dir, called)
	return err
}

// SetLimits makes a runner more patient than usual, as machines may be busy, or less: some tests know which shim hangs.
func (r *Runner) SetLimits(answer, sign, end time.Duration) {
	r.limits.answer, r.limits.ready, r.limits.sign, r.limits.end = answer, answer, sign, end
}

// Waits reports whether somebody waits for the task's end.
func Waits(t task.Task) bool { return t.(*Task).shim.waitConn() != nil }
