package control

import (
	"cmp"
	"net/http"
	"testing"

	"moss/api/route"
	"moss/api/swarmroute"
	"moss/api/types"
)

func TestTaskFilters(t *testing.T) {
	r := newRig(t)
	name := uniqueName("tasked")
	spec := plainService(name)
	spec.Labels = map[string]string{"tier": "back"}
	spec.Mode = types.ServiceMode{Replicated: &types.ReplicatedMode{Replicas: new(uint64(2))}}
	id := r.service(spec)
	global := plainService(uniqueName("everywhere"))
	global.Mode = types.ServiceMode{Global: &struct{}{}}
	everywhere := r.service(global)
	tasks, other := r.running(id, 2), r.running(everywhere, 1)
	first, second := tasks[0], tasks[1]
	if first.Slot > second.Slot {
		first, second = second, first
	}
	all := []string{first.ID, second.ID}
	for _, tc := range []struct {
		filters map[string][]string
		want    []string
	}{
		{map[string][]string{"service": {name}}, all},
		{map[string][]string{"service": {id}}, all},
		{map[string][]string{"service": {id[:12]}}, all},
		{map[string][]string{"service": {id, everywhere}}, append(all, other[0].ID)},
		{map[string][]string{"service": {id}, "node": {"here"}}, all},
		{map[string][]string{"service": {id}, "node": {swarm.nodeID}}, all},
		{map[string][]string{"service": {id}, "label": {"tier=back"}}, all},
		{map[string][]string{"service": {id}, "label": {"tier=front"}}, nil},
		{map[string][]string{"service": {id}, "desired-state": {"running"}}, all},
		{map[string][]string{"service": {id}, "desired-state": {"Running", "shutdown"}}, all},
		{map[string][]string{"service": {id}, "desired-state": {"shutdown"}}, nil},
		{map[string][]string{"service": {id}, "desired-state": {"accepted"}}, nil},
		{map[string][]string{"id": {first.ID}}, []string{first.ID}},
		{map[string][]string{"id": {first.ID[:15], second.ID[:15]}}, all},
		{map[string][]string{"name": {name}}, all},
		{map[string][]string{"name": {name + ".1"}}, []string{first.ID}},
		{map[string][]string{"name": {name + ".2." + second.ID}}, []string{second.ID}},
		{map[string][]string{"service": {id}, "_up-to-date": {"true"}}, all},
	} {
		requireIDs(t, tc.filters, get[[]types.Task](r, filtered("/tasks", tc.filters)), func(t types.Task) string { return t.ID }, tc.want)
	}
	for _, ref := range []string{first.ID, first.ID[:15], name + ".1." + first.ID} {
		if got := get[types.Task](r, "/tasks/"+ref); got.ID != first.ID {
			t.Errorf("task %s is %s, want %s", ref, got.ID, first.ID)
		}
	}
	r.refused(http.StatusNotFound, "not found", http.MethodGet, "/tasks/"+name+".1", "")
	if other[0].Slot != 0 || other[0].NodeID != swarm.nodeID {
		t.Errorf("task of a global service: %+v", other[0])
	}
	for _, tc := range []struct {
		status  int
		words   string
		filters map[string][]string
	}{
		{http.StatusNotFound, "service nosuch not found", map[string][]string{"service": {"nosuch"}}},
		{http.StatusNotFound, "node nosuch not found", map[string][]string{"node": {"nosuch"}}},
		{http.StatusBadRequest, "Invalid desired-state filter: 'dead'", map[string][]string{"desired-state": {"dead"}}},
		{http.StatusBadRequest, "Invalid filter '_up-to-date=x'", map[string][]string{"_up-to-date": {"x"}}},
		{http.StatusBadRequest, "Invalid filter 'slot'", map[string][]string{"slot": {"1"}}},
	} {
		r.refused(tc.status, tc.words, http.MethodGet, filtered("/tasks", tc.filters), "")
	}
	// Several ids that begin alike are not one.
	shared := 0
	for shared < len(first.ID) && first.ID[shared] == second.ID[shared] {
		shared++
	}
	if shared > 0 {
		r.refused(http.StatusConflict, "is ambiguous (", http.MethodGet, "/tasks/"+first.ID[:shared], "")
	}
}

// TestOldTasks: a task that was replaced is not up to date, and its end is shown.
func TestOldTasks(t *testing.T) {
	r := newRig(t)
	spec := plainService(uniqueName("renewed"))
	id := r.service(spec)
	old := r.running(id, 1)[0]
	r.changeService(id, func(s *types.ServiceSpec) { s.TaskTemplate.ForceUpdate = 1 })
	var renewed types.Task
	r.await("another task", func() bool {
		renewed = r.running(id, 1)[0]
		return renewed.ID != old.ID && renewed.Spec.ForceUpdate == 1
	})
	r.await("the end of the old one", func() bool {
		task := get[types.Task](r, "/tasks/"+old.ID)
		return task.DesiredState == "shutdown" && task.Status.State == "complete"
	})
	fresh := get[[]types.Task](r, filtered("/tasks", map[string][]string{"service": {id}, "_up-to-date": {"1"}}))
	requireIDs(t, "up to date", fresh, func(t types.Task) string { return t.ID }, []string{renewed.ID})
	ended := get[[]types.Task](r, filtered("/tasks", map[string][]string{"service": {id}, "desired-state": {"shutdown"}}))
	requireIDs(t, "ended", ended, func(t types.Task) string { return t.ID }, []string{old.ID})
}

// TestDeclaredFilters: each list takes the filters that the table of endpoints has for it, and no others.
func TestDeclaredFilters(t *testing.T) {
	r := newRig(t)
	fine := map[string]string{"role": "manager", "membership": "accepted", "desired-state": "running", "_up-to-date": "1", "node": "here"}
	fine["service"] = r.service(plainService(uniqueName("declared")))
	lists := 0
	for _, e := range swarmroute.Routes(&swarmroute.Verbs{}) {
		for _, p := range e.Shape.Params {
			if p.Kind != route.Filters {
				continue
			}
			lists++
			for _, value := range p.Values {
				r.do(http.StatusOK, http.MethodGet, filtered(e.Path, map[string][]string{value.Name: {cmp.Or(fine[value.Name], "x")}}), "")
			}
			r.refused(http.StatusBadRequest, "Invalid filter 'nosuch'", http.MethodGet, filtered(e.Path, map[string][]string{"nosuch": {"x"}}), "")
		}
	}
	if lists != 3 {
		t.Errorf("%d lists, want those of nodes, services and tasks", lists)
	}
}
