package lifecycle

import (
	"context"
	"errors"
	"flag" //nolint:depguard // go test -update
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/record"
	"moss/engine/task"
	"moss/engine/task/tasktest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// stage is a world whose deeds and events are written down, one line each, with the state of its container in memory and on the
// disk. Lines that begin with > are what the test does.
type stage struct {
	*world
	id       string
	engine   *Manager
	stubborn bool // the process heeds SIGKILL alone

	mu     sync.Mutex // guards the fields below
	lines  []string
	stills []still // one per line
}

// still is what an engine that dies at one line leaves behind.
type still struct {
	line    string
	files   map[string][]byte // by path; nil is a folder
	task    *task.Status      // nil: there is none
	signals []int             // that the process has got
	made    bool              // the layer
	mounted bool
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{world: newWorld(t)}
	s.tasks.Lag = time.Millisecond
	s.tasks.Script = func(_ task.Spec, p *tasktest.Proc) int { return s.untilTold(p) }
	return s
}

// untilTold plays a process that ends a moment after a signal that is no user's.
func (s *stage) untilTold(p *tasktest.Proc) int {
	for {
		select {
		case n := <-p.Signals:
			if n == int(unix.SIGUSR1) || s.stubborn {
				continue
			}
			time.Sleep(time.Millisecond)
			return 128 + n
		case <-p.Done:
			return 0
		}
	}
}

// begin starts the engine and makes the container.
func (s *stage) begin(change ...func(*container.Config, *container.HostConfig)) {
	s.setEngine()
	s.id = s.create(s.engine, "web", change...)
	s.trace = s.note
}

// note writes down one line.
func (s *stage) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	memory := "gone"
	if r, err := s.engine.inventory.Get(s.id); err == nil {
		memory = r.State.String()
	}
	s.lines = append(s.lines, fmt.Sprintf("%-24s %-10s %s", what, memory, s.onDisk()))
	s.stills = append(s.stills, s.freeze(what))
}

// onDisk tells what the next engine would read.
func (s *stage) onDisk() string {
	dir := filepath.Join(s.root, "containers", s.id)
	var newest container.Record
	for _, name := range []string{recordName, stateName} {
		var r container.Record
		if err := record.Get(filepath.Join(dir, name), &r); err == nil && r.Revision >= newest.Revision {
			newest = r
		}
	}
	p, err := readPhase(dir)
	if newest.ID == "" || err != nil {
		return "gone"
	}
	words := []string{newest.State.String()}
	if p != phaseNew {
		words = append(words, string(p))
	}
	if newest.End != nil {
		words = append(words, "ended")
	}
	if newest.Thaw {
		words = append(words, "thaw")
	}
	return strings.Join(words, " ")
}

// freeze copies what outlives the engine.
func (s *stage) freeze(what string) still {
	f := still{line: what, files: map[string][]byte{}}
	for _, base := range []string{s.root, s.run} {
		err := filepath.WalkDir(base, func(path string, entry os.DirEntry, err error) error {
			switch {
			case errors.Is(err, os.ErrNotExist): // it is being removed
				return nil
			case err != nil:
				return err
			case entry.IsDir():
				f.files[path] = nil
				return nil
			}
			raw, err := os.ReadFile(path)
			if err == nil {
				f.files[path] = raw
			}
			return nil
		})
		if err != nil {
			s.t.Error(err)
		}
	}
	if t := s.tasks.Task(s.id); t != nil {
		if status, err := t.Status(context.Background()); err == nil {
			f.task, f.signals = &status, t.Signals()
		}
	}
	s.layers.mu.Lock()
	f.made, f.mounted = s.layers.made[s.id], s.layers.mounted[s.id]
	s.layers.mu.Unlock()
	return f
}

// do writes down a verb, does it, and waits until nothing more comes of it at once.
func (s *stage) do(name string, verb func() error) {
	s.t.Helper()
	s.note("> " + name)
	err := verb()
	time.Sleep(10 * time.Millisecond)
	synctest.Wait()
	if err != nil {
		s.note("= " + kindOf(err))
	} else {
		s.note("= done")
	}
}

// kindOf names the kind of an error.
func kindOf(err error) string {
	for name, kind := range map[string]fault.Constructor{
		"not found": fault.NotFound, "conflict": fault.Conflict, "not modified": fault.NotModified, "unavailable": fault.Unavailable,
	} {
		if fault.Is(err, kind) {
			return name
		}
	}
	return "error"
}

func (s *stage) start() { s.do("start", func() error { return s.engine.Start(s.life(), s.id) }) }

func (s *stage) stop() {
	s.do("stop", func() error {
		second := time.Second
		return s.engine.Stop(s.life(), s.id, container.StopOptions{Timeout: &second})
	})
}

func (s *stage) kill(signal string) {
	s.do("kill "+signal, func() error { return s.engine.Kill(s.life(), s.id, signal) })
}

func (s *stage) exit(code int) {
	s.note(fmt.Sprint("> process exits ", code))
	s.tasks.Task(s.id).End(task.Exit{Code: code})
	time.Sleep(10 * time.Millisecond)
	synctest.Wait()
}

// next plays the next engine.
func (s *stage) next() {
	s.note("> next engine")
	s.engine.Close()
	s.setEngine()
	synctest.Wait()
}

// setEngine starts an engine. What it finds out is written down with the states of the one before.
func (s *stage) setEngine() {
	m := s.open()
	s.mu.Lock()
	s.engine = m
	s.mu.Unlock()
	m.Run()
}

func (s *stage) later(d time.Duration) {
	s.note(fmt.Sprint("> after ", d))
	time.Sleep(d)
	synctest.Wait()
}

func (s *stage) life() context.Context { return s.engine.background.life }

// play lets a scene happen in a bubble and returns it.
func play(t *testing.T, scene func(*stage)) *stage {
	t.Helper()
	var s *stage
	root, run := t.TempDir(), t.TempDir() // they outlive the bubble
	synctest.Test(t, func(t *testing.T) {
		s = newStage(t)
		s.root, s.run = root, run
		scene(s)
		s.note("> end")
		s.trace = nil
		s.engine.Close()
		if left := s.tasks.Task(s.id); left != nil {
			left.End(task.Exit{})
		}
	})
	return s
}

// TestTranscripts: what happens in which order, as the world sees it. What is made or given back side by side stands in one order.
func TestTranscripts(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(scenes)) {
		t.Run(name, func(t *testing.T) {
			s := play(t, scenes[name])
			got := strings.Join(sortSideBySide(s.lines), "\n") + "\n"
			path := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s:\n%s\nwant:\n%s", path, got, want)
			}
		})
	}
}

// sortSideBySide puts lines in one order that come from goroutines side by side.
func sortSideBySide(lines []string) []string {
	isOf := func(line string) int {
		for i, group := range [][]string{{"network join", "layer mount", "task prepare"}, {"network leave", "layer unmount", "task delete"}} {
			for _, word := range group {
				if strings.HasPrefix(line, word) {
					return i + 1
				}
			}
		}
		return 0
	}
	lines = slices.Clone(lines)
	for i := 0; i < len(lines); {
		end := i + 1
		for end < len(lines) && isOf(lines[i]) != 0 && isOf(lines[end]) == isOf(lines[i]) {
			end++
		}
		slices.Sort(lines[i:end])
		i = end
	}
	return lines
}
