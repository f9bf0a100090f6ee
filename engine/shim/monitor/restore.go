package monitor

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"moss/engine/shim/proto"
)

const (
	mostKept     = 16      // files
	mostKeptSize = 4 << 20 // bytes of each
)

// kept are the files without which a runtime does nothing for a container: its bundle, and what the runtime itself noted.
// They are in a folder that a logout or a program that tidies up may empty; held open, they can be written again.
type kept struct {
	mu    sync.Mutex // guards files, and is held by restoreFolder
	files []*os.File // by the names that they were opened by
}

// keepFiles opens them once the container runs.
func (m *monitor) keepFiles() {
	m.kept.mu.Lock()
	defer m.kept.mu.Unlock()
	names := []string{filepath.Join(m.dir, "config.json")}
	state := filepath.Join(m.spec.Runtime.Root, m.spec.ID)
	entries, err := os.ReadDir(state)
	if err != nil && m.spec.Runtime.Root != "" {
		logError("keep the runtime's files", err)
	}
	for _, entry := range entries {
		if entry.Type().IsRegular() {
			names = append(names, filepath.Join(state, entry.Name()))
		}
	}
	for _, name := range names[:min(len(names), mostKept)] {
		if f, err := os.Open(name); err == nil {
			m.kept.files = append(m.kept.files, f)
		}
	}
}

// lookAlone is how often a shim without an engine looks after its folder.
const lookAlone = 100 * time.Millisecond

func (m *monitor) countWaiter(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiters += n
}

// keepFolder has the task's folder written again whenever it goes while no engine waits for the task's end, which would ask
// for it: the next engine finds the task by it.
func (m *monitor) keepFolder() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waiters > 0 || m.keeping || !m.first.inState(running) {
		return
	}
	m.keeping = true
	go m.lookAfterFolder() // ends with the task
}

func (m *monitor) lookAfterFolder() {
	look := time.NewTicker(lookAlone)
	defer look.Stop()
	for m.isAlone() {
		// Whoever owns the folder above makes it; what a login mounts there later would hide one of the shim's.
		if isMissing(m.socket.path) && !isMissing(filepath.Dir(m.dir)) {
			if err := m.restoreFolder(); err != nil {
				logError("write the task's folder again", err)
			}
		}
		select {
		case <-look.C:
		case <-m.first.over:
		}
	}
}

// isAlone reports whether the task's folder is to be looked after. It is called by lookAfterFolder, which ends otherwise.
func (m *monitor) isAlone() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keeping = m.waiters == 0 && m.first.inState(running)
	return m.keeping
}

// restoreFolder writes again what is gone of the task's folder and of the runtime's, and listens there anew, while the task
// runs.
func (m *monitor) restoreFolder() error {
	m.kept.mu.Lock()
	defer m.kept.mu.Unlock()
	if !m.first.inState(running) {
		return nil
	}
	err := m.writeFilesLocked()
	if isMissing(m.socket.path) { // who finds it finds the rest
		err = errors.Join(err, m.socket.bindAgain())
	}
	return errors.Join(err, m.writePid()) // the last: without a socket beside it the shim is taken for dead
}

func (m *monitor) writeFilesLocked() error {
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		return err
	}
	errs := make([]error, 0, len(m.kept.files))
	for _, f := range m.kept.files {
		errs = append(errs, writeAgain(f))
	}
	if isMissing(filepath.Join(m.dir, proto.SpecFile)) {
		errs = append(errs, proto.WriteSpec(m.dir, m.spec))
	}
	if isMissing(filepath.Join(m.dir, proto.AliveFile)) {
		errs = append(errs, m.noteAlive(m.first.currentRecord().Pid))
	}
	m.mu.Lock()
	for _, p := range m.execs {
		errs = append(errs, os.MkdirAll(p.dir, 0o700))
	}
	m.mu.Unlock()
	return errors.Join(errs...)
}

func (m *monitor) writePid() error {
	path := filepath.Join(m.dir, proto.PidFile)
	if !isMissing(path) {
		return nil
	}
	return os.WriteFile(path, []byte(strconv.Itoa(m.first.currentRecord().Pid)), 0o600)
}

// restoreForEnd is restoreFolder for the runtime's own cleaning up and for the record, and gives up what was kept.
func (m *monitor) restoreForEnd() {
	m.kept.mu.Lock()
	defer m.kept.mu.Unlock()
	if isMissing(filepath.Join(m.dir, proto.SpecFile)) {
		if err := errors.Join(m.writeFilesLocked(), m.writePid()); err != nil {
			logError("write the task's folder again", err)
		}
	}
	for _, f := range m.kept.files {
		_ = f.Close()
	}
	m.kept.files = nil
}

// writeAgain puts a file back under its name unless there is one.
func writeAgain(f *os.File) error {
	if !isMissing(f.Name()) {
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

func isMissing(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}
