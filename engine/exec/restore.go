package exec

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"moss/engine/fault"
	"moss/engine/id"
	"moss/engine/record"
	"moss/engine/stdio"
	"moss/engine/task"
)

// The two files of a started instance, by what follows its id. They live no longer than this boot, and each is written
// once: a start's before there is a process, an end's before the process is let go. A crash in the middle of the writing
// loses nothing that the process's own monitor does not know.
const (
	begunFile = ".json"
	endFile   = ".end"
)

// file is what the next engine learns of a started instance.
type file struct {
	ID          string
	ContainerID string
	Config      Config
	Probe       bool
	Attached    bool `json:",omitempty"` // a client waited for its output
}

// end is how an instance ended.
type end struct {
	Code int
	At   time.Time
}

func (in *instance) toFile() file {
	return file{ID: in.id, ContainerID: in.containerID, Config: in.config, Probe: in.probe, Attached: in.attached}
}

// saveFile writes one file of an instance.
func (s *Service) saveFile(execID, kind string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.opt.Dir, execID+kind), raw, 0o600)
}

// loadFile reads one file of an instance.
func (s *Service) loadFile(execID, kind string, into any) error {
	return record.Get(filepath.Join(s.opt.Dir, execID+kind), into)
}

// dropFiles removes the files of an instance.
func (s *Service) dropFiles(execID string) {
	for _, kind := range []string{endFile, begunFile} {
		if err := os.Remove(filepath.Join(s.opt.Dir, execID+kind)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.opt.Log.Warn().Err(err).Str("exec", execID).Msg("file of exec not removed")
		}
	}
}

// restoreInstances takes up what an earlier engine has left.
func (s *Service) restoreInstances(ctx context.Context) error {
	entries, err := os.ReadDir(s.opt.Dir)
	if err != nil {
		return err
	}
	soon, cancel := context.WithTimeoutCause(ctx, restoreWait, task.ErrSilent)
	defer cancel()
	slots := make(chan struct{}, restoreAtOnce)
	var asked sync.WaitGroup
	defer asked.Wait()
	for _, entry := range entries {
		execID, _, _ := strings.Cut(entry.Name(), ".")
		if !id.Is(execID) || !strings.HasSuffix(entry.Name(), begunFile) {
			continue
		}
		var f file
		if err := s.loadFile(execID, begunFile, &f); err != nil {
			s.opt.Log.Warn().Err(err).Str("exec", execID).Msg("file of exec unreadable")
		}
		if f.ID != execID {
			s.dropFiles(execID)
			continue
		}
		if r, err := s.opt.Containers.Get(f.ContainerID); err == nil && r.MonitorSilent { // it was waited for already
			s.takeUpLater(f)
			continue
		}
		slots <- struct{}{}
		asked.Go(func() {
			defer func() { <-slots }()
			s.takeUpOrDrop(soon, f)
		})
	}
	return nil
}

const (
	// restoreWait is how long a new engine waits for the monitors before it serves.
	restoreWait = 500 * time.Millisecond
	// restoreAtOnce bounds how many instances are asked for at the same time, each over a connection.
	restoreAtOnce = 64
)

// takeUpOrDrop makes one instance known again, or removes its files.
func (s *Service) takeUpOrDrop(ctx context.Context, f file) {
	kept, err := s.takeUp(ctx, f)
	switch {
	case errors.Is(err, task.ErrSilent):
		s.takeUpLater(f)
	case !kept:
		s.dropFiles(f.ID)
	}
}

// takeUpLater is takeUpOrDrop once the container's monitor answers. Until then the instance is not known.
func (s *Service) takeUpLater(f file) {
	s.runInBackground(func(ctx context.Context) {
		if _, t, err := s.opt.Containers.Running(f.ContainerID); err == nil {
			t.Reach(ctx) //nolint:errcheck // whatever it is, the next question tells as well
		}
		if ctx.Err() == nil {
			s.takeUpOrDrop(ctx, f)
		}
	})
}

// takeUp makes one instance known again. It reports whether there is anything of it to know; task.ErrSilent if nobody can
// tell.
func (s *Service) takeUp(ctx context.Context, f file) (kept bool, err error) {
	if _, err := s.opt.Containers.Get(f.ContainerID); err != nil {
		return false, nil //nolint:nilerr // it went with its container
	}
	keys, _ := stdio.ParseDetachKeys(f.Config.DetachKeys) // it was checked at create
	in := &instance{
		id: f.ID, containerID: f.ContainerID, config: f.Config, keys: keys, probe: f.Probe, done: make(chan struct{}),
		attached: f.Attached, cut: f.Attached,
	}
	p, status, err := s.adoptProcess(ctx, f)
	var ended end
	known := s.loadFile(f.ID, endFile, &ended)
	switch {
	case errors.Is(err, task.ErrSilent) && known != nil:
		return false, err
	case f.Probe:
		s.endProbe(p, status, err)
		return false, nil
	case known == nil:
		if err == nil {
			s.runInBackground(func(ctx context.Context) { p.Delete(ctx) }) //nolint:errcheck // the last engine died before it
		}
		in.state, in.code, in.ended = over, ended.Code, ended.At
		close(in.done)
		s.addInstance(in)
		return true, nil
	case err != nil:
		return false, nil //nolint:nilerr // there is nothing of it
	case status.Exit == nil && status.Pid == 0: // the last engine died before the start, and no client was told of one
		s.runInBackground(func(ctx context.Context) { p.Delete(ctx) }) //nolint:errcheck // it goes with its container
		return false, nil
	}
	in.state, in.pid, in.process = running, status.Pid, p
	s.addInstance(in)
	s.watchProcess(in, p)
	return true, nil
}

// adoptProcess finds the process of an instance.
func (s *Service) adoptProcess(ctx context.Context, f file) (task.Process, task.Status, error) {
	_, t, err := s.opt.Containers.Running(f.ContainerID)
	if err != nil {
		return nil, task.Status{}, err
	}
	p, err := t.AdoptExec(ctx, f.ID)
	if err != nil {
		if !fault.Is(err, fault.NotFound) && !errors.Is(err, task.ErrSilent) {
			s.opt.Log.Warn().Err(err).Str("exec", f.ID).Msg("exec not taken over")
		}
		return nil, task.Status{}, err
	}
	status, err := p.Status(ctx)
	return p, status, err
}

// endProbe ends what is left of a health check whose engine has gone: nobody waits for its result.
func (s *Service) endProbe(p task.Process, status task.Status, err error) {
	if err != nil {
		return
	}
	s.runInBackground(func(ctx context.Context) {
		if status.Exit == nil && status.Pid != 0 {
			s.killFamily(status.Pid)
			p.Signal(ctx, int(syscall.SIGKILL)) //nolint:errcheck // it may have ended
			p.Wait(ctx)                         //nolint:errcheck // the end is all that matters
		}
		p.Delete(ctx) //nolint:errcheck // it goes with its container
	})
}

// runInBackground runs f beside the requests, with a context that ends with the service.
func (s *Service) runInBackground(f func(ctx context.Context)) {
	s.background.Go(func() { f(s.life) })
}
