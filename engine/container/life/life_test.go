package life

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/pidfd"
)

var day = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// lifeOf is a life with a restart policy in a state.
func lifeOf(state container.State, policy string, most int) Life {
	r := &container.Record{Name: "web", State: state}
	r.Host.RestartPolicy = container.RestartPolicy{Name: policy, MaximumRetryCount: most}
	if state.HasProcess() {
		r.Pid, r.StartedAt = 7, day
	}
	return Life{Record: r}
}

// words tells a life and actions in short.
func words(l Life, actions []Action) string {
	said := []string{l.State.String()}
	for name, is := range map[string]bool{
		"by user": l.StoppedByUser, "at start": l.RestartAtStart, "ended": l.End != nil, "thaw": l.Thaw,
	} {
		if is {
			said = append(said, name)
		}
	}
	slices.Sort(said[1:])
	if l.Enders != 0 {
		said = append(said, fmt.Sprint("enders ", l.Enders))
	}
	said = append(said, "->")
	names := []string{"tell", "released", "save", "save stop", "save phase", "wake", "arm", "disarm", "thaw", "remove"}
	for _, a := range actions {
		word := names[a.Do]
		if a.Event != "" {
			word += " " + a.Event
		}
		if a.Delay != 0 {
			word += " " + a.Delay.String()
		}
		said = append(said, word+";")
	}
	return strings.TrimSuffix(strings.Join(said, " "), ";")
}

// TestStep: each event in the states that matter, with what it leads to.
func TestStep(t *testing.T) {
	end := container.End{Code: 3, At: day.Add(time.Second)}
	with := func(l Life, change func(l *Life)) Life { change(&l); return l }
	running, restarting := lifeOf(container.Running, "always", 0), lifeOf(container.Restarting, "always", 0)
	ended := with(lifeOf(container.Running, "always", 0), func(l *Life) { l.End = &end })
	for _, tc := range []struct {
		name  string
		from  Life
		event Event
		want  string // beginning with ! for an error
	}{
		{"start", lifeOf(container.Created, "", 0), Started{Op: container.OpStart, At: day}, "running -> save; wake"},
		{"start of one that runs", running, Started{Op: container.OpStart}, "!not-modified"},
		{"restart", restarting, Started{Op: container.OpRestart, At: day}, "running -> save; wake"},
		{"restart of one that was killed meanwhile", lifeOf(container.Exited, "always", 0), Started{Op: container.OpRestart}, "!internal"},
		{"failed start", lifeOf(container.Created, "", 0), StartFailed{Op: container.OpStart, Code: 127}, "created -> tell die; save; wake"},
		{"failed start of one that removes itself", with(lifeOf(container.Created, "", 0), func(l *Life) { l.Host.AutoRemove = true }), StartFailed{Op: container.OpStart}, "created -> tell die; save; wake; remove"},
		{"failed restart", restarting, StartFailed{Op: container.OpRestart, Code: 127}, "exited -> tell die; save; wake"},
		{"failed restart of one that was killed", lifeOf(container.Exited, "always", 0), StartFailed{Op: container.OpRestart}, "!internal"},

		{"stop", running, EndAsked{Op: container.OpStop}, "running by user enders 1 -> save stop"},
		{"stop of a paused one", lifeOf(container.Paused, "", 0), EndAsked{Op: container.OpStop}, "paused by user enders 1 -> save stop"},
		{"stop between two runs", restarting, EndAsked{Op: container.OpStop}, "exited by user -> save stop; wake; disarm"},
		{"kill between two runs", restarting, EndAsked{Op: container.OpKill}, "exited by user -> save stop; wake; disarm"},
		{"stop before a removal", running, EndAsked{Op: container.OpStop, Removal: true}, "running by user enders 1 -> save"},
		{"stop between two runs before a removal", restarting, EndAsked{Op: container.OpStop, Removal: true}, "exited by user -> save; wake; disarm"},
		{"stop at rest", lifeOf(container.Exited, "", 0), EndAsked{Op: container.OpStop}, "!not-modified"},
		{"kill at rest", lifeOf(container.Exited, "", 0), EndAsked{Op: container.OpKill}, "!conflict"},
		{"shutdown", running, EndAsked{Op: container.OpStop, Shutdown: true}, "running at start enders 1 ->"},
		{"shutdown between two runs", restarting, EndAsked{Op: container.OpStop, Shutdown: true}, "restarting -> disarm"},
		{"no more waiting", with(running, func(l *Life) { l.Enders = 2 }), GaveUp{}, "running enders 1 ->"},

		{"end", running, ProcessEnded{end}, "running ended -> save"},
		{"end at rest", lifeOf(container.Exited, "", 0), ProcessEnded{end}, "!internal"},
		{"release, policy", ended, Released{End: end}, "restarting -> tell die; released; save; wake; arm 100ms"},
		{"release, policy, third time", with(ended, func(l *Life) { l.RestartDelay = 200 * time.Millisecond }), Released{End: end}, "restarting -> tell die; released; save; wake; arm 400ms"},
		{"release, stopped meanwhile", with(lifeOf(container.Running, "always", 0), func(l *Life) { l.End, l.StoppedByUser = &end, true }), Released{End: end}, "exited by user -> tell die; released; save; wake"},
		{"release, shutdown", with(lifeOf(container.Running, "always", 0), func(l *Life) { l.End, l.RestartAtStart = &end, true }), Released{End: end}, "exited at start -> tell die; released; save; wake"},
		{"release, engine closing", ended, Released{End: end, Closing: true}, "exited -> tell die; released; save; wake"},
		{"release, no policy", with(lifeOf(container.Paused, "no", 0), func(l *Life) { l.End = &end }), Released{End: end}, "exited -> tell die; released; save; wake"},
		{"release, out of memory", with(lifeOf(container.Running, "", 0), func(l *Life) { l.End = &end }), Released{End: container.End{OOMKilled: true}}, "exited -> tell oom; tell die; released; save; wake"},
		{"release, removes itself", with(lifeOf(container.Running, "", 0), func(l *Life) { l.End, l.Host.AutoRemove = &end, true }), Released{End: end}, "exited -> tell die; released; save; wake; remove"},
		{"release, on-failure", with(lifeOf(container.Running, "on-failure", 1), func(l *Life) { l.End = &end }), Released{End: end}, "restarting -> tell die; released; save; wake; arm 100ms"},
		{"release, on-failure, too often", with(lifeOf(container.Running, "on-failure", 1), func(l *Life) { l.End, l.RestartCount = &end, 1 }), Released{End: end}, "exited -> tell die; released; save; wake"},
		{"release, on-failure, no failure", with(lifeOf(container.Running, "on-failure", 1), func(l *Life) { l.End = &container.End{} }), Released{}, "exited -> tell die; released; save; wake"},
		{"lost", running, Lost{End: end}, "exited at start -> save; wake"},
		{"lost, its end was read", ended, Lost{End: container.End{Code: 137}}, "restarting -> tell die; save; wake"},

		{"freeze", running, FreezeBegun{}, "running thaw ->"},
		{"freeze of one that has ended", ended, FreezeBegun{}, "!conflict"},
		{"freeze that failed", with(lifeOf(container.Running, "", 0), func(l *Life) { l.Thaw = true }), FreezeFailed{}, "running -> save"},
		{"frozen", with(lifeOf(container.Running, "", 0), func(l *Life) { l.Thaw = true }), Frozen{}, "paused -> tell pause; save"},
		{"frozen for a moment", with(lifeOf(container.Running, "", 0), func(l *Life) { l.Thaw = true }), Frozen{Moment: true}, "paused thaw -> tell pause"},
		{"frozen while a kill waits", with(lifeOf(container.Running, "", 0), func(l *Life) { l.Enders = 1 }), Frozen{}, "paused enders 1 -> tell pause; save; thaw"},
		{"thawed", with(lifeOf(container.Paused, "", 0), func(l *Life) { l.Thaw = true }), Thawed{}, "running -> tell unpause; save"},
		{"thaw of one that runs", running, Thawed{}, "!conflict"},
		{"frozen one has ended", with(lifeOf(container.Paused, "", 0), func(l *Life) { l.Thaw = true }), FrozenEnded{}, "running ->"},
		{"found running", running, Found{}, "running ->"},
		{"found frozen", running, Found{Frozen: true}, "paused -> save"},
		{"found thawed", lifeOf(container.Paused, "", 0), Found{}, "running -> save"},
		{"found half frozen", with(lifeOf(container.Running, "", 0), func(l *Life) { l.Thaw = true }), Found{}, "running -> save"},

		{"another policy", restarting, PolicyChanged{}, "restarting ->"},
		{"a policy that does not restart", lifeOf(container.Restarting, "no", 0), PolicyChanged{}, "exited -> save stop; wake; disarm"},
		{"removal", lifeOf(container.Exited, "", 0), RemovalBegun{}, "removing -> save phase"},
		{"removal with volumes", lifeOf(container.Exited, "", 0), RemovalBegun{Volumes: true}, "removing -> save phase"},
		{"removal of one that runs", running, RemovalBegun{}, "!conflict"},
		{"failed removal", lifeOf(container.Removing, "", 0), RemovalFailed{Error: "disk"}, "dead -> save; wake"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := *tc.from.Record
			l, actions, err := tc.from.Step(tc.event)
			got := words(l, actions)
			if err != nil {
				got = "!" + fault.KindOf(err).String()
			}
			if got != tc.want {
				t.Errorf("Step(%T) from %s = %s, want %s", tc.event, words(tc.from, nil), got, tc.want)
			}
			if words(Life{Record: &before, Enders: tc.from.Enders}, nil) != words(tc.from, nil) || before.ExitCode != tc.from.ExitCode {
				t.Error("the record before was changed")
			}
		})
	}
}

// walk is a container whose events come in any order that an engine can bring about.
type walk struct {
	t       *testing.T
	rnd     *rand.Rand
	life    Life
	saved   container.Record // what the next engine reads
	process bool             // there is one
	frozen  bool
	armed   bool
	now     time.Time
	trail   []string
}

// step takes one event and keeps the books on what it leads to.
func (w *walk) step(e Event) bool {
	l, actions, err := w.life.Step(e)
	w.trail = append(w.trail, fmt.Sprintf("%T %s", e, words(l, actions)))
	if len(w.trail) > 20 {
		w.trail = w.trail[1:]
	}
	if err != nil {
		return false
	}
	w.life = l
	beside := false
	for _, a := range actions {
		if beside && a.Do <= Disarm {
			w.fail("%v comes after what is done beside", a.Do)
		}
		beside = a.Do > Disarm
		switch a.Do {
		case Save, SaveStop:
			w.saved = *l.Record
		case Arm:
			w.armed = true
		case Disarm:
			w.armed = false
		case Thaw:
			w.frozen = false
			w.step(Thawed{})
		case Tell, TellReleased, SavePhase, Wake, Remove:
		}
	}
	return true
}

func (w *walk) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(w.trail, "\n"))
}

// check holds what is true after every event.
func (w *walk) check() {
	w.t.Helper()
	r := w.life.Record
	switch {
	case w.armed && r.State != container.Restarting:
		w.fail("a timer runs while it is %s", r.State)
	case r.State == container.Restarting && !w.armed:
		w.fail("it waits for a timer that does not run")
	case r.State == container.Restarting && r.StoppedByUser:
		w.fail("its user stopped it, and it waits for a restart")
	case w.process != r.State.HasProcess():
		w.fail("process: %t, but it is %s", w.process, r.State)
	case w.frozen != (r.State == container.Paused):
		w.fail("frozen: %t, but it is %s", w.frozen, r.State)
	case r.State.AtRest() && (r.Pid != 0 || r.End != nil || r.Thaw || r.Network.Leaving != ""):
		w.fail("it is at rest, and its record holds something")
	case w.life.Enders < 0 || w.life.RestartDelay > longestDelay || r.RestartCount > 3 && r.Host.RestartPolicy.Name == "on-failure":
		w.fail("%d enders, delay %s, %d restarts", w.life.Enders, w.life.RestartDelay, r.RestartCount)
	case r.StoppedByUser != w.saved.StoppedByUser:
		w.fail("stopped by its user: %t, saved: %t", r.StoppedByUser, w.saved.StoppedByUser)
	case (r.State.AtRest() || r.State == container.Restarting) && r.State != w.saved.State:
		w.fail("it is %s, and %s for the next engine", r.State, w.saved.State)
	}
}

// crash plays the next engine, which has the saved record and finds the process or does not.
func (w *walk) crash() {
	w.armed = false
	saved := w.saved
	w.life = Life{Record: &saved}
	switch {
	case saved.State.HasProcess() && w.process && w.rnd.IntN(4) > 0:
		if saved.Thaw {
			w.frozen = false
		}
		w.step(Found{Frozen: w.frozen})
	case saved.State.HasProcess():
		w.process, w.frozen = false, false
		w.step(Lost{End: container.End{Code: 137, At: w.now}})
	case w.process: // started, and not saved
		op := container.OpStart
		if saved.State == container.Restarting {
			op = container.OpRestart
		}
		w.frozen = false
		w.step(Started{Op: op, At: w.now, Process: pidfd.ID{Pid: 7}})
	}
	if w.life.State == container.Restarting {
		w.armed = true
	}
}

// event lets one thing happen that can.
func (w *walk) event() {
	w.now = w.now.Add(time.Duration(w.rnd.IntN(20)) * time.Second)
	op := container.OpStart
	if w.armed {
		op = container.OpRestart
	}
	ended := w.life.End != nil
	end := container.End{Code: w.rnd.IntN(2), At: w.now}
	net := container.Network{Leaving: "n"}
	switch w.rnd.IntN(12) {
	case 0, 1, 2: // a user, or the timer; a user's start of one that waits is refused
		if !w.process && w.step(Started{Op: op, At: w.now, Process: pidfd.ID{Pid: 7}, Network: net}) {
			w.process, w.armed = true, false
		}
	case 3:
		if !w.process && w.step(StartFailed{Op: op, Code: 127, At: w.now}) {
			w.armed = false
		}
	case 4:
		w.step(EndAsked{Op: []container.Op{container.OpStop, container.OpKill}[w.rnd.IntN(2)]})
	case 5:
		if w.life.Enders > 0 {
			w.step(GaveUp{})
		}
	case 6:
		if w.process && !ended && w.step(ProcessEnded{end}) {
			w.frozen = false
		}
	case 7, 8:
		if ended {
			w.process, w.frozen = false, false
			w.step(Released{End: *w.life.End})
		}
	case 9:
		if w.process && !ended && w.step(FreezeBegun{}) {
			w.saved = *w.life.Record
			if w.rnd.IntN(2) == 0 {
				w.frozen = true
				w.step(Frozen{Moment: w.rnd.IntN(2) == 0})
			} else {
				w.step(FreezeFailed{})
			}
		}
	case 10:
		if w.frozen {
			w.frozen = false
			w.step(Thawed{})
		}
	case 11:
		if w.rnd.IntN(10) == 0 && !ended {
			w.crash()
		}
	}
}

// TestWalk: a million events in any order, engines that die among them.
func TestWalk(t *testing.T) {
	policies := []container.RestartPolicy{{}, {Name: "always"}, {Name: "unless-stopped"}, {Name: "on-failure", MaximumRetryCount: 3}}
	seen := map[container.State]int{}
	for seed := range uint64(1000) {
		w := &walk{t: t, rnd: rand.New(rand.NewPCG(seed, 1)), now: day} //nolint:gosec // no secret
		w.life = lifeOf(container.Created, "", 0)
		w.life.Host.RestartPolicy = policies[seed%4]
		w.saved = *w.life.Record
		for range 1000 {
			w.event()
			w.check()
			seen[w.life.State]++
		}
	}
	for _, s := range []container.State{container.Running, container.Paused, container.Restarting, container.Exited} {
		if seen[s] < 1000 {
			t.Errorf("%s was seen %d times only: %v", s, seen[s], slices.Collect(maps.Keys(seen)))
		}
	}
}
