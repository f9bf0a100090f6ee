// Package stats tells what containers use (API document 1, 2.5): from the container's cgroup, v1 or v2, and for what no
// cgroup tells from its processes in /proc.
//
// Without a cgroup the numbers are sums over the container's living processes and what they have waited for: CPU time of
// processes that were added to the container and have ended is not known any more. Memory is the processes' share of
// pages (PSS), without the page cache; there is no largest usage. Block I/O is that of all devices together, in bytes.
// What cannot be known is zero, or missing among the details.
//
// Nothing runs while nobody looks. Those who look at the same container share its readings: whoever is due first takes the
// next one for all.
package stats

import (
	"context"
	"errors"
	"sync"
	"time"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/stats/proc"
	"moss/engine/task"
)

const (
	// period is the time between two readings.
	period = time.Second
	// staleAfter is how old a reading may be to be the one before: an average over longer tells nothing of the present.
	staleAfter = 10 * time.Second
)

// containers is where the containers are found.
type containers interface {
	// Get returns a record. fault.NotFound if there is none.
	Get(ref string) (*container.Record, error)
	// Running is Get with the task of a container whose process runs or is frozen. fault.Conflict if there is none.
	Running(ref string) (*container.Record, task.Task, error)
}

// Options is what a Service is made of.
type Options struct {
	Containers containers
	Cgroups    string // where the host's cgroups are mounted, /sys/fs/cgroup
	Proc       string // where proc is mounted, /proc
}

// Service answers what containers use. It has nothing to be closed.
type Service struct {
	opt  Options
	proc proc.Dir

	mu       sync.Mutex // guards the fields below
	samplers map[string]*sampler
}

// New returns a service.
func New(opt Options) *Service {
	return &Service{opt: opt, proc: proc.Dir(opt.Proc), samplers: map[string]*sampler{}}
}

// Once takes one sample with the one before, a second apart; with atOnce the next one there is, which may have none before it.
// Of a container that does not run it is zero, and comes at once. fault.NotFound if there is no such container.
func (s *Service) Once(ctx context.Context, ref string, atOnce bool) (*Sample, error) {
	var last *Sample
	err := s.Watch(ctx, ref, func(sample *Sample) error {
		last = sample
		if atOnce || sample.Read.IsZero() || !sample.PreviousRead.IsZero() {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return last, err
}

// errEnough ends a Watch.
var errEnough = errors.New("enough")

// Watch passes a sample to emit at once and then each second, zeros while the container does not run. Samples that emit
// has no time for are left out. It ends without an error when the container is removed, and with that of ctx or emit.
// fault.NotFound if there is no such container at the beginning.
func (s *Service) Watch(ctx context.Context, ref string, emit func(*Sample) error) error {
	r, err := s.opt.Containers.Get(ref)
	if err != nil {
		return err
	}
	shared := s.acquireSampler(r.ID)
	defer s.releaseSampler(r.ID, shared)
	for seen, first := 0, true; ; first = false {
		var sample *Sample
		if sample, seen, err = s.nextSample(ctx, r.ID, shared, seen); err != nil {
			if fault.Is(err, fault.NotFound) && !first {
				return nil
			}
			return err
		}
		if err := emit(sample); err != nil {
			return err
		}
	}
}

// sampler is what those who look at one container share.
type sampler struct {
	viewers int           // guarded by the service's mu
	token   chan struct{} // held by the viewer who waits for the next reading to be due, and takes it

	cpu steady // of the container; guarded by token

	mu     sync.Mutex // guards the fields below
	number int        // of readings so far
	taken  time.Time  // when the last one was
	last   *Sample
}

func (s *Service) acquireSampler(id string) *sampler {
	s.mu.Lock()
	defer s.mu.Unlock()
	shared := s.samplers[id]
	if shared == nil {
		shared = &sampler{token: make(chan struct{}, 1)}
		s.samplers[id] = shared
	}
	shared.viewers++
	return shared
}

func (s *Service) releaseSampler(id string, shared *sampler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if shared.viewers--; shared.viewers == 0 {
		delete(s.samplers, id)
	}
}

// nextSample returns the first sample after number seen, waiting for it to be due, and its number.
func (s *Service) nextSample(ctx context.Context, id string, shared *sampler, seen int) (*Sample, int, error) {
	if last, number, age := shared.latestSample(); number > seen && age < period {
		return last, number, nil
	}
	select {
	case shared.token <- struct{}{}:
	case <-ctx.Done():
		return nil, seen, ctx.Err()
	}
	defer func() { <-shared.token }()
	last, number, age := shared.latestSample() // somebody else may have taken one meanwhile
	if number > seen && age < period {
		return last, number, nil
	}
	if number > 0 && age < period {
		timer := time.NewTimer(period - age)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, seen, ctx.Err()
		}
	}
	taken := time.Now()
	sample, err := s.takeSample(ctx, id, &shared.cpu)
	if err != nil {
		return nil, seen, err
	}
	if last != nil && !last.Read.IsZero() && last.started.Equal(sample.started) && sample.Read.Sub(last.Read) < staleAfter {
		sample.PreviousRead, sample.PreviousCPU = last.Read, last.CPU
	}
	return sample, shared.storeSample(sample, taken), nil
}

func (p *sampler) latestSample() (last *Sample, number int, age time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last, p.number, time.Since(p.taken)
}

func (p *sampler) storeSample(sample *Sample, taken time.Time) (number int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.number++
	p.last, p.taken = sample, taken
	return p.number
}

// takeSample takes a sample. A container whose process ends meanwhile gives zeros.
func (s *Service) takeSample(ctx context.Context, id string, cpu *steady) (*Sample, error) {
	r, t, err := s.opt.Containers.Running(id)
	if fault.Is(err, fault.Conflict) {
		return s.emptySample(id)
	}
	if err != nil {
		return nil, err
	}
	read := reading{
		proc: s.proc, cgroups: s.opt.Cgroups, pid: r.Pid, id: id,
		pids: func() ([]int, error) { return t.Pids(ctx) },
	}
	sample, err := read.readSample()
	now, _, stillErr := s.opt.Containers.Running(id)
	if stillErr != nil || now.Pid != r.Pid || !now.StartedAt.Equal(r.StartedAt) || fault.Is(err, fault.Conflict) {
		return s.emptySample(id) // what was read is of a process that was about to go, or has gone and its record does not say so yet
	}
	if err != nil {
		return nil, err
	}
	sample.ID, sample.Name, sample.started = r.ID, r.Name, r.StartedAt
	cpu.makeMonotonic(&sample.CPU, r.StartedAt)
	return sample, nil
}

// emptySample returns the sample of a container without a process.
func (s *Service) emptySample(id string) (*Sample, error) {
	r, err := s.opt.Containers.Get(id)
	if err != nil {
		return nil, err
	}
	return &Sample{ID: r.ID, Name: r.Name}, nil
}

// steady keeps CPU times from falling: a sum over processes does when one ends that nobody waits for.
type steady struct {
	start time.Time // of the container's process
	raw   [3]uint64 // as read last
	lost  [3]uint64 // what has fallen so far
}

func (s *steady) makeMonotonic(c *CPU, start time.Time) {
	if !s.start.Equal(start) {
		*s = steady{start: start}
	}
	for i, value := range []*uint64{&c.Total, &c.User, &c.Kernel} {
		if *value < s.raw[i] {
			s.lost[i] += s.raw[i] - *value
		}
		s.raw[i] = *value
		*value += s.lost[i]
	}
}
