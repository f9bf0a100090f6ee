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
	ctx = context.WithoutCancel(ctx) // what was made must go even if the client has gone
	for _, step := range slices.Backward(u.steps) {
		if failed := step(ctx); failed != nil {
			*err = errors.Join(*err, failed)
		}
	}
}
