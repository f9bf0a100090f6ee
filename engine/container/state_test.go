package container

import (
	"encoding/json"
	"strings"
	"testing"

	"moss/engine/fault"
)

// ops are all operations in the order of the table's columns.
var ops = []Op{OpStart, OpStop, OpKill, OpPause, OpUnpause, OpEnd, OpExit, OpRestart, OpRemove, OpRemoveFailed}

// The table of docs/architecture.md, section 3, in words: a state, "304", "!" (wrong state), "-" (cannot happen).
//
//nolint:dupword // cells of a table
const stateTable = `
            start    stop    kill     pause   unpause  end       exit      restart     remove    failed
created     running  304     !        !       !        -         -         -           removing  -
running     304      exited  running  paused  !        running   exited    restarting  !         -
paused      !        exited  paused   !       running  running   exited    restarting  !         -
restarting  304      exited  exited   !       !        -         -         running     !         -
exited      running  304     !        !       !        -         -         -           removing  -
removing    !        304     !        !       !        removing  removing  -           !         dead
dead        !        304     !        !       !        -         -         -           removing  -
`

// endingRow is that of a container whose process has ended and what it held is being released: it cannot be paused.
const endingRow = "ending 304 exited running ! ! running exited restarting ! -"

func TestNextFollowsTheTable(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(stateTable), "\n")
	if got, want := len(lines)-1, len(States()); got != want {
		t.Fatalf("table has %d states, want %d", got, want)
	}
	for _, line := range lines[1:] {
		cells := strings.Fields(line)
		from, err := ParseState(cells[0])
		if err != nil {
			t.Fatal(err)
		}
		if got, want := len(cells)-1, len(ops); got != want {
			t.Fatalf("row %s has %d cells, want %d", from, got, want)
		}
		for i, op := range ops {
			next, err := nextState("web", from, op)
			if got, want := verdict(next, err), cells[i+1]; got != want {
				t.Errorf("Next(%s, %s) = %s, want %s", from, op, got, want)
			}
			if err != nil && next != from {
				t.Errorf("Next(%s, %s) with error %v = %s, want %s", from, op, err, next, from)
			}
			if err != nil && !strings.Contains(err.Error(), "web") {
				t.Errorf("Next(%s, %s) error %q does not name the container", from, op, err)
			}
		}
	}
}

func TestNextOfAnEndingContainer(t *testing.T) {
	cells := strings.Fields(endingRow)
	for _, state := range []State{Running, Paused} {
		r := &Record{Name: "web", State: state, End: &End{Code: 1}}
		for i, op := range ops {
			next, err := r.Next(op)
			if got, want := verdict(next, err), cells[i+1]; got != want {
				t.Errorf("Next(%s) of an ending container = %s, want %s", op, got, want)
			}
			if err != nil && next != state {
				t.Errorf("Next(%s) with error %v = %s, want %s", op, err, next, state)
			}
		}
		r.End = nil
		if next, err := r.Next(OpPause); state == Running && (err != nil || next != Paused) {
			t.Errorf("Next(pause) of one that lives = %s, %v, want paused", next, err)
		}
	}
}

func verdict(next State, err error) string {
	switch {
	case err == nil:
		return next.String()
	case fault.Is(err, fault.NotModified):
		return "304"
	case fault.Is(err, fault.Conflict):
		return "!"
	default:
		return "-"
	}
}

func TestNextOutsideTheTable(t *testing.T) {
	for _, tc := range []struct {
		from State
		op   Op
	}{{ending + 1, OpStart}, {-1, OpStart}, {Created, -1}, {Created, OpRemoveFailed + 1}} {
		if _, err := nextState("", tc.from, tc.op); err == nil || fault.KindOf(err) != fault.KindInternal {
			t.Errorf("nextState(%d, %d) error = %v, want an internal one", tc.from, tc.op, err)
		}
	}
}

func TestWrongStateTexts(t *testing.T) {
	for _, tc := range []struct {
		from State
		op   Op
		want string
	}{
		{Exited, OpKill, "Container web is not running"},
		{Created, OpPause, "Container web is not running"},
		{Paused, OpPause, "Container web is already paused"},
		{Restarting, OpPause, "Container web is restarting, wait until the container is running"},
		{Running, OpUnpause, "Container web is not paused"},
		{Running, OpRemove, "You cannot remove a running container web. Stop the container before attempting removal or force remove"},
		{Removing, OpRemove, "removal of container web is already in progress"},
		{Paused, OpStart, "cannot start a paused container, try unpause instead: Container web"},
		{Dead, OpStart, "Container web is marked for removal and cannot be started"},
		{Running, OpStart, "Container web is already started"},
		{Exited, OpStop, "Container web is already stopped"},
	} {
		if _, err := nextState("web", tc.from, tc.op); err == nil || err.Error() != tc.want {
			t.Errorf("nextState(web, %s, %s) error = %v, want %s", tc.from, tc.op, err, tc.want)
		}
	}
	if _, err := nextState("", Exited, OpKill); err == nil || err.Error() != "Container is not running" {
		t.Errorf("Next(exited, kill) error = %v", err)
	}
}

func TestStateInRecords(t *testing.T) {
	for _, s := range States() {
		raw, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var back State
		if err := json.Unmarshal(raw, &back); err != nil || back != s {
			t.Errorf("%s came back from %s as %s, %v", s, raw, back, err)
		}
	}
	var s State
	if err := json.Unmarshal([]byte(`"asleep"`), &s); err == nil {
		t.Error("an unknown state was taken")
	}
}

func TestDerivedBooleans(t *testing.T) {
	for _, tc := range []struct {
		state                                               State
		running, paused, restarting, dead, process, resting bool
	}{
		{Created, false, false, false, false, false, true},
		{Running, true, false, false, false, true, false},
		{Paused, true, true, false, false, true, false},
		{Restarting, true, false, true, false, false, false},
		{Exited, false, false, false, false, false, true},
		{Removing, false, false, false, false, false, false},
		{Dead, false, false, false, true, false, true},
	} {
		got := []bool{
			tc.state.Running(), tc.state.Paused(), tc.state.Restarting(), tc.state.Dead(), tc.state.HasProcess(), tc.state.AtRest(),
		}
		want := []bool{tc.running, tc.paused, tc.restarting, tc.dead, tc.process, tc.resting}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%s: booleans = %v, want %v", tc.state, got, want)
				break
			}
		}
	}
}
