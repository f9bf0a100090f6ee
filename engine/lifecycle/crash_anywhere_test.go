package lifecycle

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/task"
	"moss/engine/task/tasktest"
)

// halves are what is between the two verbs that one call stands for: it may be found so too.
var halves = map[string]string{"> restart": "at rest with code 143", "> remove by force": "at rest with code 137"}

// TestCrashAnywhere: whatever an engine was doing when it died, with the next one the container is as if that had been done or had
// not been asked for, and nothing is held that its record does not name.
func TestCrashAnywhere(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(scenes)) {
		t.Run(name, func(t *testing.T) {
			s := play(t, scenes[name])
			for begin := 0; begin < len(s.stills)-1; {
				end := begin + 1
				for !strings.HasPrefix(s.stills[end].line, ">") {
					end++
				}
				notAsked, done := s.afterCrash(t, begin), s.afterCrash(t, end)
				for i := begin + 1; i < end; i++ {
					if got := s.afterCrash(t, i); got != notAsked && got != done && got != halves[s.stills[begin].line] {
						t.Errorf("%s, crash at line %d, %s: then it is %s, want %s or %s", s.stills[begin].line, i+1, s.stills[i].line, got, notAsked, done)
					}
				}
				begin = end
			}
		})
	}
}

// TestCrashInShutdown: an engine that dies after a container of its shutdown has ended, and before its task is gone, leaves the
// restart to the next engine.
func TestCrashInShutdown(t *testing.T) {
	s := play(t, scenes["shutdown"])
	line := slices.IndexFunc(s.stills, func(f still) bool { return strings.HasPrefix(f.line, "task delete") })
	ended := &s.stills[line]
	ended.task = &task.Status{StartedAt: time.Now(), Exit: &task.Exit{Code: 143, At: time.Now()}}
	if !strings.HasSuffix(s.lines[line], " ended") {
		t.Fatalf("the end is not on the disk: %s", s.lines[line])
	}
	if got := s.afterCrash(t, line); got != "running" {
		t.Errorf("the next engine leaves the container %s", got)
	}
}

// afterCrash starts an engine on what was there at one line and tells what has become of the container a minute later.
func (s *stage) afterCrash(t *testing.T, line int) (what string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w, still := newWorld(t), s.stills[line]
		w.root, w.run = s.root, s.run
		still.restore(w, s)
		m := w.engine()
		time.Sleep(time.Minute)
		synctest.Wait()
		r, err := m.inventory.Get(s.id)
		switch {
		case fault.Is(err, fault.NotFound):
			what, r = "gone", &container.Record{}
			if _, err := os.Stat(m.folders.dataDir(s.id)); err == nil || w.layers.made[s.id] {
				t.Errorf("crash at line %d, %s: the container is gone, its layer or folder are not", line+1, still.line)
			}
		case err != nil:
			t.Error(err)
		case r.State.AtRest():
			what = fmt.Sprint("at rest with code ", r.ExitCode)
		default:
			what = r.State.String()
		}
		now := w.tasks.Task(s.id)
		_, joined := w.nets.joined[s.id]
		_, folder := os.Stat(m.folders.taskDir(s.id))
		if runs := r.State.HasProcess(); runs != (now != nil) || runs != joined || runs != (folder == nil) || w.layers.mounted[s.id] {
			t.Errorf("crash at line %d, %s: %s, but a task: %t, its folder: %t, a network: %t, a mount: %t", line+1, still.line, what,
				now != nil, folder == nil, joined, w.layers.mounted[s.id])
		}
		m.Close()
		if now != nil {
			now.End(task.Exit{})
		}
	})
	return what
}

// restore brings a world back to what was there.
func (f *still) restore(w *world, s *stage) {
	w.t.Helper()
	id := s.id
	for _, dir := range []string{w.root, w.run} {
		entries, err := os.ReadDir(dir)
		w.must(err)
		for _, entry := range entries {
			w.must(os.RemoveAll(filepath.Join(dir, entry.Name())))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(f.files)) {
		if content := f.files[path]; content != nil {
			w.must(os.WriteFile(path, content, 0o600))
		} else {
			w.must(os.MkdirAll(path, 0o700))
		}
	}
	w.layers.made[id], w.layers.mounted[id] = f.made, f.mounted
	if f.task == nil {
		return
	}
	w.tasks.Script = func(_ task.Spec, p *tasktest.Proc) int { return s.untilTold(p) }
	prepared, err := w.tasks.Prepare(w.t.Context(), task.Spec{ID: id, Dir: filepath.Join(w.run, "tasks", id)})
	w.must(err)
	if f.task.Pid != 0 || !f.task.StartedAt.IsZero() {
		_, err = prepared.Start(w.t.Context())
		w.must(err)
	}
	if f.task.Paused {
		w.must(prepared.Pause(w.t.Context()))
	}
	if f.task.Exit != nil {
		w.tasks.Task(id).End(*f.task.Exit)
		return
	}
	for _, signal := range f.signals {
		w.must(prepared.Signal(w.t.Context(), signal))
	}
}
