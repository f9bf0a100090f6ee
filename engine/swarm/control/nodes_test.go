package control

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"moss/api/types"
	"moss/engine/swarm/member"
)

// TestTwoNodes: a second node joins as a worker, has its share of the tasks, is emptied and removed.
func TestTwoNodes(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir()
	second := member.Open(member.Options{
		Dir: filepath.Join(dir, "swarm"), Control: filepath.Join(dir, "control.sock"), Executor: &recorder{}, Log: zerolog.Nop(),
	})
	t.Cleanup(second.Close)
	worker := newAPI(second)
	manager := get[types.Node](r, "/nodes/"+swarm.nodeID).ManagerStatus.Addr
	s := get[types.Swarm](r, "/swarm")
	join := fmt.Sprintf(`{"ListenAddr":"127.0.0.1","AdvertiseAddr":"127.0.0.1","RemoteAddrs":[%q],"JoinToken":%q}`,
		manager, s.JoinTokens.Worker)
	requireError(t, ask(worker, http.MethodGet, "/nodes", ""), http.StatusNotAcceptable, "This node is not part of a swarm")
	if a := ask(worker, http.MethodPost, "/swarm/join", join); a.status != http.StatusOK || len(a.body) != 0 {
		t.Fatalf("join: %d %s", a.status, a.body)
	}
	id := second.Status().NodeID
	requireError(t, ask(worker, http.MethodGet, "/nodes", ""), http.StatusNotAcceptable, "This node is not a swarm manager")
	r.await("the worker among the nodes", func() bool {
		n := get[[]types.Node](r, filtered("/nodes", map[string][]string{"role": {"worker"}}))
		return len(n) == 1 && n[0].ID == id && n[0].Status.State == "ready" && n[0].ManagerStatus == nil
	})
	r.refused(http.StatusConflict, "node here is ambiguous (2 matches found)", http.MethodGet, "/nodes/here", "")
	r.refused(http.StatusConflict, "node here is ambiguous (2 matches found)", http.MethodDelete, "/nodes/here?force=1", "")

	spec := plainService(uniqueName("both"))
	spec.Mode = types.ServiceMode{Global: &struct{}{}}
	service := r.service(spec)
	r.running(service, 2)
	onWorker := func() []types.Task {
		return get[[]types.Task](r, filtered("/tasks", map[string][]string{"node": {id}, "service": {service}, "desired-state": {"running"}}))
	}
	if tasks := onWorker(); len(tasks) != 1 || tasks[0].NodeID != id {
		t.Errorf("tasks of the worker: %+v", tasks)
	}
	r.changeNode(id, func(s *types.NodeSpec) { s.Availability = "drain" })
	r.await("an empty node", func() bool { return len(onWorker()) == 0 })

	r.refused(http.StatusBadRequest, "is not down and can't be removed", http.MethodDelete, "/nodes/"+id, "")
	if a := r.do(http.StatusOK, http.MethodDelete, "/nodes/"+id+"?force=1", ""); len(a.body) != 0 {
		t.Errorf("remove answers %q, want nothing", a.body)
	}
	r.refused(http.StatusNotFound, "not found", http.MethodGet, "/nodes/"+id, "")
	if a := ask(worker, http.MethodPost, "/swarm/leave", ""); a.status != http.StatusOK || len(a.body) != 0 {
		t.Errorf("leave: %d %s", a.status, a.body)
	}
	requireError(t, ask(worker, http.MethodPost, "/swarm/leave", ""), http.StatusNotAcceptable, "This node is not part of a swarm")
}
