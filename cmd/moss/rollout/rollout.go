// Package rollout tells from the records of a service and of its tasks how far the service is. It asks no engine and writes
// nothing.
package rollout

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"moss/api/types"
)

// States of tasks and of updates that decide something (document 1, 2.10).
const (
	Running  = "running"
	Complete = "complete"
	paused   = "paused"
)

// Place is one of the places that a service has tasks for: a number of a replicated one, a node of a global one.
type Place struct {
	Name  string // "2/3", or the id of the node
	State string // of the task that is to run there; empty: the task there is one of before the update
	Err   string // of that task or, while it does not run, of the one before it
	Ready bool   // the task is one of the present specification, and runs or has done what it is for
}

// Progress is how far a service is.
type Progress struct {
	Wanted int // tasks; of a global service as many as it has
	Places []Place
	Paused string // why the update has stopped; empty: it has not
}

// Look tells how far a service is.
func Look(service types.Service, tasks []types.Task) Progress {
	p := Progress{}
	if update := service.UpdateStatus; update != nil && update.State == paused {
		p.Paused = cmp.Or(update.Message, "the engine gives no reason")
	}
	byPlace := map[string][]types.Task{}
	for _, task := range tasks {
		key := fmt.Sprintf("%09d", task.Slot)
		if service.Spec.Mode.Global != nil {
			key = task.NodeID
		}
		byPlace[key] = append(byPlace[key], task)
	}
	for _, key := range slices.Sorted(maps.Keys(byPlace)) {
		if place, ok := lookAtPlace(service.Spec.TaskTemplate, byPlace[key]); ok {
			place.Name = key
			p.Places = append(p.Places, place)
		}
	}
	p.Wanted = len(p.Places)
	if service.Spec.Mode.Global == nil {
		p.Wanted = Replicas(service.Spec)
		for i := range p.Places {
			p.Places[i].Name = fmt.Sprintf("%d/%d", i+1, p.Wanted)
		}
	}
	return p
}

// lookAtPlace reports false if no task is to run there any more.
func lookAtPlace(spec types.TaskSpec, tasks []types.Task) (Place, bool) {
	slices.SortFunc(tasks, func(a, b types.Task) int { return b.CreatedAt.Compare(a.CreatedAt) })
	newest := slices.IndexFunc(tasks, IsWanted)
	if newest < 0 {
		last := tasks[0]
		if last.Status.State == Complete && restartsFailed(spec) && isOf(spec, last.Spec) {
			return Place{State: Complete, Ready: true}, true
		}
		return Place{}, false
	}
	task := tasks[newest]
	if !isOf(spec, task.Spec) {
		return Place{}, true
	}
	place := Place{State: task.Status.State, Err: task.Status.Err, Ready: task.Status.State == Running}
	if !place.Ready && place.Err == "" && newest+1 < len(tasks) && isOf(spec, tasks[newest+1].Spec) {
		place.Err = tasks[newest+1].Status.Err
	}
	return place, true
}

// IsWanted reports whether a task is to run, now or soon: it has not been told to end.
func IsWanted(task types.Task) bool {
	alive := []string{"new", "pending", "assigned", "accepted", "preparing", "ready", "starting", Running}
	return slices.Contains(alive, task.DesiredState)
}

// restartsFailed reports whether a task that has done what it is for is not replaced.
func restartsFailed(spec types.TaskSpec) bool {
	return spec.RestartPolicy != nil && (spec.RestartPolicy.Condition == "none" || spec.RestartPolicy.Condition == "on-failure")
}

// isOf reports whether a task has been made of a specification. Constraints do not count: a task that meets new ones stays.
func isOf(spec, task types.TaskSpec) bool {
	spec.Placement, task.Placement = nil, nil
	return reflect.DeepEqual(spec, task)
}

// Ready returns how many tasks are as they shall be.
func (p Progress) Ready() int {
	ready := 0
	for _, place := range p.Places {
		if place.Ready {
			ready++
		}
	}
	return ready
}

// Done reports whether there is nothing left to wait for. A global service that has no task is not done: its tasks may be about
// to be made.
func (p Progress) Done(global bool) bool {
	return len(p.Places) == p.Wanted && p.Ready() == p.Wanted && (p.Wanted > 0 || !global)
}

// Replicas returns how many tasks a replicated service is to have, 1 where it does not say.
func Replicas(spec types.ServiceSpec) int {
	if r := spec.Mode.Replicated; r != nil && r.Replicas != nil {
		return int(min(*r.Replicas, 1<<31-1))
	}
	return 1
}

// Count returns how many tasks of a service run on nodes that are up, and how many it is to have.
func Count(service types.Service, tasks []types.Task, up func(nodeID string) bool) (running, wanted int) {
	for _, task := range tasks {
		if task.ServiceID != service.ID {
			continue
		}
		if task.Status.State == Running && up(task.NodeID) {
			running++
		}
		if IsWanted(task) {
			wanted++
		}
	}
	if service.Spec.Mode.Global == nil {
		wanted = Replicas(service.Spec)
	}
	return running, wanted
}
