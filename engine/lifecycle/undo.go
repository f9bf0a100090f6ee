package lifecycle

import (
	"context"
	"errors"
	"slices"
)

// undo takes back, in the reverse order, what a half-done verb has made.
type undo struct {
	steps []func(context.Context) error
}

func (u *undo) push(step func(context.Context) error) { u.steps = append(u.steps, step) }

// run takes everything back if *err is set, and joins what goes wrong meanwhile to it. The caller's cancellation does
// not stop it half-way.
func (u *undo) run(ctx context.Context, err *error) {
	if *err == nil {
		return
	}
	if failed := u.runAll(ctx); failed != nil {
		*err = errors.Join(*err, failed)
	}
}

// runAll takes everything back, as run does.
func (u *undo) runAll(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx) // what was made must go even if the client has gone
	var errs []error
	for _, step := range slices.Backward(u.steps) {
		errs = append(errs, step(ctx))
	}
	return errors.Join(errs...)
}
