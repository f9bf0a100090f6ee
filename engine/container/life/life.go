package life

import (
	"slices"
	"time"

	"moss/engine/container"
	"moss/engine/pidfd"
)

// Life is what decides about a container's next step. Only Step makes another one of it.
type Life struct {
	*container.Record               // as it was published; not to be changed
	RestartDelay      time.Duration // of the restart policy, the last one; 0 before its first restart since a start by a user
	Enders            int           // callers that wait for the end of its process
}

// Event is a thing that has happened to a container or that a user asks for.
type Event interface {
	// step makes a life what it is after the event. The life's record may be changed: it is a copy.
	step(l *Life) ([]Action, error)
}

// Action is what an event leads to. The engine carries actions out in their order: it tells, saves, wakes, sets the timer,
// and then does the rest. An engine that dies in between tells once more rather than never, and a caller that is woken finds
// on the disk what it hears.
type Action struct {
	Do    Deed
	Event string        // of Tell
	Delay time.Duration // of Arm
}

// Deed is the kind of an action.
type Deed int

// The deeds.
const (
	Tell         Deed = iota // publish an event of the container
	TellReleased             // publish that the networks and volumes of the record before are given back
	Save                     // write the record for the next engine; a power cut may lose it
	SaveStop                 // as Save; the disk is waited for where a power cut would start the container again
	SavePhase                // write the phase alone, from which the rest follows
	Wake                     // let callers go on that wait for what the record says now
	Arm                      // start the timer of the restart policy
	Disarm                   // stop the timer
	Thaw                     // let frozen processes go on
	Remove                   // remove the container
)

// Step returns the life after an event and what is to be done about it. It touches nothing. The errors are those of Record.Next;
// with one the life is as before.
func (l Life) Step(e Event) (Life, []Action, error) {
	record := *l.Record
	after := Life{&record, l.RestartDelay, l.Enders}
	actions, err := e.step(&after)
	if err != nil {
		return l, nil, err
	}
	return after, actions, nil
}

// moveState changes the state by the table.
func (l *Life) moveState(op container.Op) (err error) {
	l.State, err = l.Next(op)
	return err
}

func deeds(list ...Deed) []Action {
	actions := make([]Action, 0, len(list))
	for _, d := range list {
		actions = append(actions, Action{Do: d})
	}
	return actions
}

func tell(event string) Action { return Action{Do: Tell, Event: event} }

// Started is the beginning of a process: by a user with OpStart, by the restart policy with OpRestart. It is
// fault.Internal for a restart that a kill has ended meanwhile.
type Started struct {
	Op      container.Op
	Process pidfd.ID
	At      time.Time
	BootID  string // of the running kernel
	Network container.Network
}

func (e Started) step(l *Life) ([]Action, error) {
	if err := l.moveState(e.Op); err != nil {
		return nil, err
	}
	l.Pid, l.PidStart, l.StartedAt, l.ExitCode, l.Error, l.OOMKilled = e.Process.Pid, e.Process.Start, e.At, 0, "", false
	l.BootID, l.RestartAtStart, l.Network, l.End, l.Thaw = e.BootID, false, e.Network, nil, false
	l.Health = container.NewHealth(&l.Config)
	if e.Op == container.OpStart {
		l.StoppedByUser, l.RestartCount, l.RestartDelay = false, 0, 0
	}
	noteNetworks(l.Record)
	return deeds(Save, Wake), nil
}

// StartFailed is a start that came to no process. It is fault.Internal for a restart that a kill has ended before.
type StartFailed struct {
	Op    container.Op
	Code  int
	Error string
	At    time.Time
}

func (e StartFailed) step(l *Life) ([]Action, error) {
	if e.Op == container.OpRestart {
		if _, err := l.Next(container.OpRestart); err != nil {
			return nil, err
		}
		if err := l.moveState(container.OpStop); err != nil {
			return nil, err
		}
	}
	l.ExitCode, l.Error, l.FinishedAt = e.Code, e.Error, e.At.UTC()
	actions := []Action{tell("die"), {Do: Save}, {Do: Wake}}
	if l.Host.AutoRemove {
		actions = append(actions, Action{Do: Remove})
	}
	return actions, nil
}

// EndAsked is the wish that the process ends: a user's with OpStop or OpKill, or the engine's own at its shutdown. One that waits
// for its restart has no process and comes to rest at once, or at a shutdown waits for the next engine. The caller that ends a
// process says GaveUp when it does not wait for its end any more.
type EndAsked struct {
	Op       container.Op
	Shutdown bool // the next engine starts it again
	Removal  bool // the container is removed then: no disk is waited for, since the removal says all
}

func (e EndAsked) step(l *Life) ([]Action, error) {
	if _, err := l.Next(e.Op); err != nil {
		return nil, err
	}
	save := SaveStop
	if e.Removal {
		save = Save
	}
	if l.State == container.Restarting {
		if e.Shutdown {
			return deeds(Disarm), nil
		}
		l.StoppedByUser = true
		return deeds(save, Wake, Disarm), l.moveState(e.Op)
	}
	l.Enders++
	if e.Shutdown {
		l.RestartAtStart = true
		return nil, nil
	}
	l.StoppedByUser = true
	return deeds(save), nil
}

// GaveUp is the end of waiting for the end of a process, whether that came or not.
type GaveUp struct{}

func (GaveUp) step(l *Life) ([]Action, error) {
	l.Enders--
	return nil, nil
}

// PolicyChanged is another restart policy. One that would not restart the container ends its waiting.
type PolicyChanged struct{}

func (PolicyChanged) step(l *Life) ([]Action, error) {
	if l.State != container.Restarting || ShouldRestart(l.Record, l.RestartCount-1) {
		return nil, nil
	}
	return deeds(SaveStop, Wake, Disarm), l.moveState(container.OpStop)
}

// ProcessEnded is the end of the process. What it held is not given back yet.
type ProcessEnded struct{ End container.End }

func (e ProcessEnded) step(l *Life) ([]Action, error) {
	if err := l.moveState(container.OpEnd); err != nil {
		return nil, err
	}
	l.End = &e.End
	return deeds(Save), nil
}

// Released is the return of all that an ended process has held. The restart policy decides what follows.
type Released struct {
	End     container.End
	Closing bool // the engine is: what follows is for the next one
}

func (e Released) step(l *Life) ([]Action, error) {
	l.ExitCode = e.End.Code
	op := container.OpExit
	if !e.Closing && l.State != container.Removing && !l.RestartAtStart && ShouldRestart(l.Record, l.RestartCount) {
		op = container.OpRestart
		l.RestartDelay = l.nextDelay(e.End.At.Sub(l.StartedAt))
	}
	if err := l.moveState(op); err != nil {
		return nil, err
	}
	l.noteEnd(e.End)
	l.KilledMonitor = e.End.KilledMonitor
	var actions []Action
	if l.OOMKilled {
		actions = append(actions, tell("oom"))
	}
	actions = append(actions, tell("die"), Action{Do: TellReleased}, Action{Do: Save}, Action{Do: Wake})
	switch {
	case op == container.OpRestart:
		l.RestartCount++
		actions = append(actions, Action{Do: Arm, Delay: l.RestartDelay})
	case l.Host.AutoRemove && l.State == container.Exited && !e.Closing:
		actions = append(actions, Action{Do: Remove})
	}
	return actions, nil
}

// noteEnd notes how the process ended, of which nothing is held any more.
func (l *Life) noteEnd(end container.End) {
	l.Pid, l.ExitCode, l.FinishedAt, l.Error, l.OOMKilled = 0, end.Code, end.At.UTC(), end.Error, end.OOMKilled
	l.Network, l.End, l.Thaw, l.MonitorSilent = container.Network{}, nil, false, false
}

// Lost is a process that is gone together with its monitor while no engine ran. If an engine has read its end, that counts;
// otherwise End, and the container starts with the engine as one that ran. The engine sees to timers and removals later.
type Lost struct{ End container.End }

func (e Lost) step(l *Life) ([]Action, error) {
	if l.End != nil {
		actions, err := Released{End: *l.End}.step(l)
		return slices.DeleteFunc(actions, func(a Action) bool { return a.Do == TellReleased || a.Do > Wake }), err
	}
	if err := l.moveState(container.OpExit); err != nil {
		return nil, err
	}
	l.noteEnd(e.End)
	l.RestartAtStart = true
	return deeds(Save, Wake), nil
}

// FreezeBegun is the beginning of a freeze. The caller saves it: an engine that finds it half-done lets the processes go on.
type FreezeBegun struct{}

func (FreezeBegun) step(l *Life) ([]Action, error) {
	_, err := l.Next(container.OpPause)
	l.Thaw = true
	return nil, err
}

// FreezeFailed is a freeze that is taken back.
type FreezeFailed struct{}

func (FreezeFailed) step(l *Life) ([]Action, error) {
	l.Thaw = false
	return deeds(Save), nil
}

// Frozen is the end of a freeze. One for a moment only ends with the engine. A process whose end is waited for must not wait for
// an unpause.
type Frozen struct{ Moment bool }

func (e Frozen) step(l *Life) ([]Action, error) {
	if err := l.moveState(container.OpPause); err != nil {
		return nil, err
	}
	actions := []Action{tell("pause")}
	if !e.Moment {
		l.Thaw = false
		actions = append(actions, Action{Do: Save})
	}
	if l.Enders > 0 {
		actions = append(actions, Action{Do: Thaw})
	}
	return actions, nil
}

// Thawed is the end of a pause.
type Thawed struct{}

func (Thawed) step(l *Life) ([]Action, error) {
	if err := l.moveState(container.OpUnpause); err != nil {
		return nil, err
	}
	l.Thaw = false
	return []Action{tell("unpause"), {Do: Save}}, nil
}

// FrozenEnded is the end of a process that was paused, before its monitor has told of it.
type FrozenEnded struct{}

func (FrozenEnded) step(l *Life) ([]Action, error) {
	if err := l.moveState(container.OpEnd); err != nil {
		return nil, err
	}
	l.Thaw = false
	return nil, nil
}

// Found is what the task says of a container that is taken over, or whose monitor answers again.
type Found struct{ Frozen bool }

func (e Found) step(l *Life) ([]Action, error) {
	thaw := l.Thaw
	l.Thaw = false
	op := container.OpUnpause
	if e.Frozen {
		op = container.OpPause
	}
	if l.moveState(op) == nil || thaw { // otherwise the state says so already
		return deeds(Save), nil
	}
	return nil, nil
}

// RemovalBegun is the beginning of a removal. Volumes takes the anonymous volumes along, which go with a container that removes
// itself too.
type RemovalBegun struct{ Volumes bool }

func (e RemovalBegun) step(l *Life) ([]Action, error) {
	if err := l.moveState(container.OpRemove); err != nil {
		return nil, err
	}
	l.RemoveVolumes = l.RemoveVolumes || e.Volumes || l.Host.AutoRemove
	return deeds(SavePhase), nil
}

// RemovalFailed is the end of a removal that could not be completed.
type RemovalFailed struct{ Error string }

func (e RemovalFailed) step(l *Life) ([]Action, error) {
	if err := l.moveState(container.OpRemoveFailed); err != nil {
		return nil, err
	}
	l.Error = e.Error
	return deeds(Save, Wake), nil
}
