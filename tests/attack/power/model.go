package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"moss/api/client"
	"moss/api/types"
)

// model is what the engine has acknowledged, and what was asked for and not answered when the power went.
type model struct {
	seed  uint64
	pool  *pool
	pace  *pace // of the machine under the load
	syncs syncs // of the engine until the cut

	mu         sync.Mutex // guards all below, and all in it
	over       time.Time  // of the cut; zero: not yet
	containers []*ctr
	images     []*img
	volumes    map[string]bool // true: acknowledged
	networks   map[string]bool
	acks       int
}

// value is a setting: what was acknowledged last, and what may be true as well since it was asked for later.
type value struct {
	now  string
	next string
	busy bool
}

func (v *value) allows(got string) bool { return got == v.now || v.busy && got == v.next }

func (v *value) String() string {
	if v.busy {
		return fmt.Sprintf("%q or %q", v.now, v.next)
	}
	return fmt.Sprintf("%q", v.now)
}

type ctr struct {
	id       string
	name     value
	policy   value
	joined   map[string]*value // by network: "yes" or "no"
	volume   string            // that came with it
	started  bool              // a start was asked for
	stopped  bool              // the last of all starts and stops was a stop, and is acknowledged
	removing bool
}

type img struct {
	name   string
	id     string            // empty: any
	digest string            // that a pull notes
	root   string            // folder that holds the files
	files  map[string]string // by their names below root; nil: any
	grace  time.Duration     // how long before the cut it may be lost
	acked  time.Time         // zero: it was asked for
	gone   bool              // a removal was asked for

	from func(context.Context, *client.Client) error // makes it, once more after the cut
}

func newModel(draw *rand.Rand, p *pool) *model {
	return &model{seed: draw.Uint64(), pool: p, volumes: map[string]bool{}, networks: map[string]bool{}}
}

// noteCut notes the moment of the cut: no answer counts any more.
func (m *model) noteCut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.over = time.Now()
}

// noteAsked notes what a verb may lead to from now on.
func (m *model) noteAsked(note func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over.IsZero() {
		note()
	}
}

// noteAcked notes what was acknowledged, unless that came too late.
func (m *model) noteAcked(note func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over.IsZero() {
		m.acks++
		note()
	}
}

func (m *model) summaryText() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	acked := 0
	for _, i := range m.images {
		if !i.acked.IsZero() {
			acked++
		}
	}
	return fmt.Sprintf("%d verbs, %d containers, %d images", m.acks, len(m.containers), acked)
}

// changeValue does a verb that changes one setting.
func (m *model) changeValue(v *value, to string, verb func() error) error {
	m.noteAsked(func() { v.next, v.busy = to, true })
	err := verb()
	m.noteAcked(func() {
		if err == nil {
			v.now = to
		}
		v.busy = false
	})
	return err
}

func (m *model) newWorker(n int) *worker {
	w := &worker{model: m, n: n, rand: rand.New(rand.NewPCG(m.seed, uint64(n)))}
	return w
}

var policies = []string{"no", "always", "unless-stopped", "on-failure"}

func restartPolicy(name string) types.RestartPolicy { return types.RestartPolicy{Name: name} }
