package rollout_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"moss/api/types"
	"moss/cmd/moss/rollout"
)

// task makes one of "place desired state age[ old]", such as "1 running:pending 2".
func makeTask(t *testing.T, text, condition string) types.Task {
	t.Helper()
	fields := strings.Fields(strings.Replace(text, ":", " ", 1))
	var slot, age int
	if _, err := fmt.Sscan(fields[0], &slot); err != nil {
		slot = 0
	}
	if _, err := fmt.Sscan(fields[3], &age); err != nil {
		t.Fatal(err)
	}
	made := types.Task{Slot: slot, NodeID: fields[0], DesiredState: fields[1], Spec: makeSpec("new", condition)}
	made.ServiceID = "s"
	made.CreatedAt = time.Unix(1000-int64(age), 0)
	made.Status.State, made.Status.Err, _ = strings.Cut(fields[2], "!")
	if len(fields) > 4 {
		made.Spec = makeSpec(fields[4], condition)
	}
	return made
}

func makeSpec(image, condition string) types.TaskSpec {
	made := types.TaskSpec{ContainerSpec: types.ContainerSpec{Image: image}}
	if condition != "" {
		made.RestartPolicy = &types.ServiceRestart{Condition: condition}
	}
	return made
}

func TestLook(t *testing.T) {
	for _, tc := range []struct {
		name      string
		replicas  int // negative: global
		condition string
		tasks     []string
		want      string // places, then how many are ready of how many, and whether it is done
	}{
		{"no task yet", 2, "", nil, "0/2 false"},
		{"nothing asked for", 0, "", nil, "0/0 true"},
		{"one of two is there", 1, "", []string{"1 running:preparing 1"}, "[1/1 preparing] 0/1 false"},
		{"all run", 2, "", []string{"1 running:running 1", "2 running:running 1"}, "[1/2 running!] [2/2 running!] 2/2 true"},
		{"numbers with holes", 2, "", []string{"7 running:running 1", "11 running:starting 1"}, "[1/2 running!] [2/2 starting] 1/2 false"},
		{"too many still", 1, "", []string{"1 running:running 1", "2 running:running 1"}, "[1/1 running!] [2/1 running!] 2/1 false"},
		{"some are ending", 1, "", []string{"1 running:running 1", "2 shutdown:running 1"}, "[1/1 running!] 1/1 true"},
		{"some are being removed", 1, "", []string{"1 running:running 1", "2 remove:running 1"}, "[1/1 running!] 1/1 true"},
		{"before the update", 1, "", []string{"1 running:running 1 old"}, "[1/1 ] 0/1 false"},
		{"the old one ended", 1, "", []string{"1 running:starting 1", "1 shutdown:shutdown 2 old"}, "[1/1 starting] 0/1 false"},
		{"the newest counts", 1, "", []string{"1 running:running 2 old", "1 running:ready 1"}, "[1/1 ready] 0/1 false"},
		{"the one before failed", 1, "", []string{"1 shutdown:failed!boom 2", "1 ready:ready 1"}, "[1/1 ready boom] 0/1 false"},
		{"that is over", 1, "", []string{"1 shutdown:failed!boom 2", "1 running:running 1"}, "[1/1 running!] 1/1 true"},
		{"an old one failed", 1, "", []string{"1 shutdown:failed!boom 2 old", "1 running:ready 1"}, "[1/1 ready] 0/1 false"},
		{"its own error", 1, "", []string{"1 running:pending!no-node 1"}, "[1/1 pending no-node] 0/1 false"},
		{"it has done its work", 1, "none", []string{"1 shutdown:complete 1"}, "[1/1 complete!] 1/1 true"},
		{"work of a failed one", 1, "on-failure", []string{"1 shutdown:failed 2", "1 shutdown:complete 1"}, "[1/1 complete!] 1/1 true"},
		{"work of before the update", 1, "none", []string{"1 shutdown:complete 1 old"}, "0/1 false"},
		{"to be started again", 1, "any", []string{"1 shutdown:complete 1"}, "0/1 false"},
		{"failed for good", 1, "none", []string{"1 shutdown:failed 1"}, "0/1 false"},
		{"global, no task yet", -1, "", nil, "0/0 false"},
		{"global", -1, "", []string{"nb running:running 1", "na running:running 1", "na shutdown:failed 2"}, "[na running!] [nb running!] 2/2 true"},
		{"global, one is missing", -1, "", []string{"nb running:running 1", "na running:pending 1"}, "[na pending] [nb running!] 1/2 false"},
	} {
		service := types.Service{ID: "s", Spec: types.ServiceSpec{TaskTemplate: makeSpec("new", tc.condition)}}
		if tc.replicas < 0 {
			service.Spec.Mode.Global = &struct{}{}
		} else {
			service.Spec.Mode.Replicated = &types.ReplicatedMode{Replicas: new(uint64(tc.replicas))}
		}
		tasks := make([]types.Task, 0, len(tc.tasks))
		for _, text := range tc.tasks {
			tasks = append(tasks, makeTask(t, text, tc.condition))
		}
		progress := rollout.Look(service, tasks)
		var got strings.Builder
		for _, place := range progress.Places {
			mark := strings.TrimSuffix(" "+place.Err, " ")
			if place.Ready {
				mark = "!"
			}
			fmt.Fprintf(&got, "[%s %s%s] ", place.Name, place.State, mark)
		}
		fmt.Fprintf(&got, "%d/%d %t", progress.Ready(), progress.Wanted, progress.Done(tc.replicas < 0))
		if got.String() != tc.want {
			t.Errorf("%s: got %s, want %s", tc.name, got.String(), tc.want)
		}
	}
}

// TestPlacementChanged: a task stays when only the constraints change and it meets them.
func TestPlacementChanged(t *testing.T) {
	service := types.Service{Spec: types.ServiceSpec{TaskTemplate: makeSpec("new", "")}}
	service.Spec.TaskTemplate.Placement = &types.Placement{Constraints: []string{"node.role==manager"}}
	if p := rollout.Look(service, []types.Task{makeTask(t, "1 running:running 1", "")}); !p.Done(false) {
		t.Errorf("got %+v, want it done", p)
	}
}

func TestPaused(t *testing.T) {
	for message, want := range map[string]string{"task failed": "task failed", "": "the engine gives no reason"} {
		service := types.Service{UpdateStatus: &types.UpdateStatus{State: "paused", Message: message}}
		if got := rollout.Look(service, nil).Paused; got != want {
			t.Errorf("paused with %q: %q, want %q", message, got, want)
		}
		service.UpdateStatus.State = "updating"
		if got := rollout.Look(service, nil).Paused; got != "" {
			t.Errorf("updating: paused because of %q", got)
		}
	}
}

func TestReplicas(t *testing.T) {
	for want, mode := range map[int]types.ServiceMode{
		1: {}, 2: {Replicated: &types.ReplicatedMode{Replicas: new(uint64(2))}}, 1<<31 - 1: {Replicated: &types.ReplicatedMode{Replicas: new(^uint64(0))}},
	} {
		if got := rollout.Replicas(types.ServiceSpec{Mode: mode}); got != want {
			t.Errorf("Replicas(%+v) = %d, want %d", mode, got, want)
		}
	}
}

func TestCount(t *testing.T) {
	tasks := []types.Task{
		makeTask(t, "1 running:running 1", ""), makeTask(t, "2 running:running 1", ""), makeTask(t, "3 running:starting 1", ""), makeTask(t, "4 shutdown:running 1", ""),
		{ServiceID: "other", DesiredState: "running", Status: types.TaskStatus{State: "running"}, NodeID: "1"},
	}
	up := func(node string) bool { return node != "2" }
	replicated := types.Service{ID: "s", Spec: types.ServiceSpec{Mode: types.ServiceMode{Replicated: &types.ReplicatedMode{Replicas: new(uint64(9))}}}}
	if running, wanted := rollout.Count(replicated, tasks, up); running != 2 || wanted != 9 {
		t.Errorf("replicated: %d of %d, want 2 of 9", running, wanted)
	}
	global := types.Service{ID: "s", Spec: types.ServiceSpec{Mode: types.ServiceMode{Global: &struct{}{}}}}
	if running, wanted := rollout.Count(global, tasks, up); running != 2 || wanted != 3 {
		t.Errorf("global: %d of %d, want 2 of 3", running, wanted)
	}
}
