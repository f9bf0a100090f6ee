package lifecycle

import (
	"context"
	"sync"
)

// background runs jobs that belong to no request and end with the Manager.
type background struct {
	jobs sync.WaitGroup
	life context.Context //nolint:containedctx // of the Manager itself
	end  context.CancelFunc
}

// beginLife readies it for jobs, which have the values of ctx.
func (b *background) beginLife(ctx context.Context) {
	b.life, b.end = context.WithCancel(context.WithoutCancel(ctx))
}

// runJob runs f beside the verbs, with a context that ends with the Manager and not with the request that led to it.
func (b *background) runJob(f func(ctx context.Context)) {
	b.jobs.Go(func() { f(b.life) })
}

// runHolding is runJob of what changes a container: f has its token.
func (b *background) runHolding(c *ctr, f func(ctx context.Context)) {
	b.runJob(func(ctx context.Context) {
		if err := c.acquire(ctx); err != nil {
			return
		}
		defer c.release()
		f(ctx)
	})
}

// isClosing reports whether the Manager is being closed.
func (b *background) isClosing() bool { return b.life.Err() != nil }

// endJobs ends the jobs and waits for them.
func (b *background) endJobs() {
	b.end()
	b.jobs.Wait()
}
