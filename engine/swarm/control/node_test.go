package control

import (
	"fmt"
	"net/http"
	"testing"

	"moss/api/types"
)

func TestNodes(t *testing.T) {
	r := newRig(t)
	id := swarm.nodeID
	for _, ref := range []string{id, "here", id[:10]} {
		n := get[types.Node](r, "/nodes/"+ref)
		if n.ID != id || n.Description.Hostname != "here" || n.Spec.Role != "manager" || n.Spec.Availability != "active" ||
			n.Status.State != "ready" || n.ManagerStatus == nil || !n.ManagerStatus.Leader || n.ManagerStatus.Reachability != "reachable" ||
			n.Description.Engine.Labels["disk"] != "fast" {
			t.Errorf("node %s: %+v", ref, n)
		}
	}
	r.refused(http.StatusNotFound, "node nosuch not found", http.MethodGet, "/nodes/nosuch", "")
	r.refused(http.StatusNotFound, "node her not found", http.MethodGet, "/nodes/her", "")
	for _, tc := range []struct {
		filters map[string][]string
		there   bool
	}{
		{nil, true},
		{map[string][]string{"id": {id[:5]}}, true},
		{map[string][]string{"id": {"nosuch"}}, false},
		{map[string][]string{"name": {"he"}}, true},
		{map[string][]string{"name": {"ere"}}, false},
		{map[string][]string{"role": {"manager"}}, true},
		{map[string][]string{"role": {"worker"}}, false},
		{map[string][]string{"role": {"worker", "Manager"}}, true},
		{map[string][]string{"membership": {"accepted"}}, true},
		{map[string][]string{"membership": {"pending"}}, false},
		{map[string][]string{"label": {"disk"}}, true},
		{map[string][]string{"label": {"disk=fast"}}, true},
		{map[string][]string{"label": {"disk=slow"}}, false},
		{map[string][]string{"node.label": {"disk"}}, false},
	} {
		got := get[[]types.Node](r, filtered("/nodes", tc.filters))
		if (len(got) == 1) != tc.there {
			t.Errorf("nodes of %v: %d, want the one: %t", tc.filters, len(got), tc.there)
		}
	}
	for key, value := range map[string]string{"role": "", "membership": "gone"} {
		r.refused(http.StatusBadRequest, "Invalid "+key+" filter", http.MethodGet, filtered("/nodes", map[string][]string{key: {value}}), "")
	}
	r.refused(http.StatusBadRequest, "Invalid filter 'state'", http.MethodGet, filtered("/nodes", map[string][]string{"state": {"x"}}), "")
}

func TestNodeUpdate(t *testing.T) {
	r := newRig(t)
	n := get[types.Node](r, "/nodes/here")
	was := n.Spec
	update := func(version uint64) string { return fmt.Sprintf("/nodes/here/update?version=%d", version) }
	from := r.changeNode("here", func(s *types.NodeSpec) { s.Labels, s.Availability = map[string]string{"rack": "7"}, "Pause" })
	r.refused(http.StatusInternalServerError, "update out of sequence", http.MethodPost, update(from), encode(t, was))
	changed := get[types.Node](r, "/nodes/here")
	if changed.Spec.Availability != "pause" || changed.Spec.Labels["rack"] != "7" || changed.Version.Index <= from {
		t.Errorf("%+v", changed)
	}
	for filter, there := range map[string]bool{"rack=7": true, "rack=8": false} {
		got := get[[]types.Node](r, filtered("/nodes", map[string][]string{"node.label": {filter}}))
		if (len(got) == 1) != there {
			t.Errorf("nodes with %s: %d", filter, len(got))
		}
	}
	// The managers' own part of the specification is as it was.
	if got := get[[]types.Node](r, filtered("/nodes", map[string][]string{"membership": {"accepted"}})); len(got) != 1 {
		t.Error("an update takes the node's membership away")
	}
	at := update(changed.Version.Index)
	r.refused(http.StatusBadRequest, "last manager", http.MethodPost, at, `{"Role":"worker","Availability":"active"}`)
	r.refused(http.StatusBadRequest, "Role: ", http.MethodPost, at, `{"Role":"boss","Availability":"active"}`)
	r.refused(http.StatusBadRequest, "Availability: ", http.MethodPost, at, `{"Role":"manager"}`)
	r.refused(http.StatusBadRequest, "version", http.MethodPost, "/nodes/here/update", `{"Role":"manager","Availability":"active"}`)
	r.refused(http.StatusNotFound, "not found", http.MethodPost, "/nodes/nosuch/update?version=1", `{"Role":"manager","Availability":"active"}`)
	r.changeNode("here", func(s *types.NodeSpec) { *s = was })
}

func TestNodeRemoveRefused(t *testing.T) {
	r := newRig(t)
	for _, force := range []string{"", "?force=1"} {
		r.refused(http.StatusBadRequest, "is a cluster manager and is a member of the raft cluster", http.MethodDelete, "/nodes/here"+force, "")
	}
	r.refused(http.StatusNotFound, "node nosuch not found", http.MethodDelete, "/nodes/nosuch", "")
	r.refused(http.StatusBadRequest, "the name or the id of a node", http.MethodDelete, "/nodes/%2F?force=1", "")
}
