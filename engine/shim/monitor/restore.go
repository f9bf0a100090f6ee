package monitor

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"moss/engine/pidfd"
	"moss/engine/shim/proto"
	"moss/engine/task"
)

const (
	mostKept     = 16      // files
	mostKeptSize = 4 << 20 // bytes of each
)

// taskFolder is the task's folder and the runtime's, which a logout or a program that tidies up may empty. The files without
// which the runtime does nothing for the container, its bundle and the runtime's own state, are held open, so that they can
// be written again.
type taskFolder struct {
	dir    string
	spec   task.Spec
	self   pidfd.ID
	socket *listener
	first  *process
	execs  *execTable

	mu    sync.Mutex // guards files, and is held by restoreFolder
	files []*os.File // by the names that they were opened by

	watch   sync.Mutex // guards the fields below
	waiters int        // connections of engines that wait for the end of the first process
	keeping bool       // lookAfterFolder runs, while there is no waiter
}

// keepFiles opens them once the container runs.
func (f *taskFolder) keepFiles() {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := []string{filepath.Join(f.dir, "config.json")}
	state := filepath.Join(f.spec.Runtime.Root, f.spec.ID)
	entries, err := os.ReadDir(state)
	if err != nil && f.spec.Runtime.Root != "" {
		logError("keep the runtime's files", err)
	}
	for _, entry := range entries {
		if entry.Type().IsRegular() {
			names = append(names, filepath.Join(state, entry.Name()))
		}
	}
	for _, name := range names[:min(len(names), mostKept)] {
		if file, err := os.Open(name); err == nil {
			f.files = append(f.files, file)
		}
	}
}

// noteAlive leaves a word on which processes this task consists of: by it an engine ends them should the shim hang. first
// is the container's first process; 0 before it runs.
func (f *taskFolder) noteAlive(first int) (err error) {
	a := proto.Alive{Shim: f.self}
	if first != 0 {
		if a.First, err = pidfd.Find(first); err != nil {
			return err
		}
	}
	return proto.WriteAlive(f.dir, a)
}

// lookAlone is how often a shim without an engine looks after its folder.
const lookAlone = 100 * time.Millisecond

func (f *taskFolder) countWaiter(n int) {
	f.watch.Lock()
	defer f.watch.Unlock()
	f.waiters += n
}

// keepFolder has the task's folder written again whenever it goes while no engine waits for the task's end, which would ask
// for it: the next engine finds the task by it.
func (f *taskFolder) keepFolder() {
	f.watch.Lock()
	defer f.watch.Unlock()
	if f.waiters > 0 || f.keeping || !f.first.inState(running) {
		return
	}
	f.keeping = true
	go f.lookAfterFolder() // ends with the task
}

func (f *taskFolder) lookAfterFolder() {
	look := time.NewTicker(lookAlone)
	defer look.Stop()
	for f.isAlone() {
		// Whoever owns the folder above makes it; what a login mounts there later would hide one of the shim's.
		if proto.IsMissing(f.socket.path) && !proto.IsMissing(filepath.Dir(f.dir)) {
			if err := f.restoreFolder(); err != nil {
				logError("write the task's folder again", err)
			}
		}
		select {
		case <-look.C:
		case <-f.first.over:
		}
	}
}

// isAlone reports whether the task's folder is to be looked after. It is called by lookAfterFolder, which ends otherwise.
func (f *taskFolder) isAlone() bool {
	f.watch.Lock()
	defer f.watch.Unlock()
	f.keeping = f.waiters == 0 && f.first.inState(running)
	return f.keeping
}

// restoreFolder writes again what is gone of the task's folder and of the runtime's, and listens there anew, while the task
// runs.
func (f *taskFolder) restoreFolder() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.first.inState(running) {
		return nil
	}
	err := f.writeFilesLocked()
	if proto.IsMissing(f.socket.path) { // who finds it finds the rest
		err = errors.Join(err, f.socket.bindAgain())
	}
	return errors.Join(err, f.writePid()) // the last: without a socket beside it the shim is taken for dead
}

func (f *taskFolder) writeFilesLocked() error {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	errs := make([]error, 0, len(f.files))
	for _, file := range f.files {
		errs = append(errs, writeAgain(file))
	}
	if proto.IsMissing(filepath.Join(f.dir, proto.SpecFile)) {
		errs = append(errs, proto.WriteSpec(f.dir, f.spec))
	}
	if proto.IsMissing(filepath.Join(f.dir, proto.AliveFile)) {
		errs = append(errs, f.noteAlive(f.first.currentRecord().Pid))
	}
	for _, p := range f.execs.listProcesses() {
		errs = append(errs, os.MkdirAll(p.dir, 0o700))
	}
	return errors.Join(errs...)
}

func (f *taskFolder) writePid() error {
	path := filepath.Join(f.dir, proto.PidFile)
	if !proto.IsMissing(path) {
		return nil
	}
	return os.WriteFile(path, []byte(strconv.Itoa(f.first.currentRecord().Pid)), 0o600)
}

// restoreForEnd is restoreFolder for the runtime's own cleaning up and for the record, and gives up what was kept.
func (f *taskFolder) restoreForEnd() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if proto.IsMissing(filepath.Join(f.dir, proto.SpecFile)) {
		if err := errors.Join(f.writeFilesLocked(), f.writePid()); err != nil {
			logError("write the task's folder again", err)
		}
	}
	for _, file := range f.files {
		_ = file.Close()
	}
	f.files = nil
}

// writeAgain puts a file back under its name unless there is one.
func writeAgain(f *os.File) error {
	if !proto.IsMissing(f.Name()) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(f.Name()), 0o700); err != nil {
		return err
	}
	data, err := io.ReadAll(io.NewSectionReader(f, 0, mostKeptSize))
	if err != nil {
		return err
	}
	return os.WriteFile(f.Name(), data, 0o600)
}
