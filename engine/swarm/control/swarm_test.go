package control

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"moss/api/types"
)

func TestSwarmInspect(t *testing.T) {
	r := newRig(t)
	s := get[types.Swarm](r, "/swarm")
	if s.ID == "" || s.Spec.Name != "default" || s.Spec.Labels["of"] != "tests" || s.Version.Index == 0 || s.CreatedAt.IsZero() ||
		*s.Spec.Orchestration.TaskHistoryRetentionLimit != 3 || s.Spec.Raft.ElectionTick <= s.Spec.Raft.HeartbeatTick ||
		s.Spec.Dispatcher.HeartbeatPeriod == 0 || s.Spec.CAConfig.NodeCertExpiry == 0 {
		t.Errorf("%+v", s)
	}
	for _, token := range []string{s.JoinTokens.Worker, s.JoinTokens.Manager} {
		if !strings.HasPrefix(token, "SWMTKN-1-") {
			t.Errorf("token %q", token)
		}
	}
}

func TestSwarmUpdate(t *testing.T) {
	r := newRig(t)
	history := func(limit int64) func(*types.SwarmSpec) {
		return func(s *types.SwarmSpec) { // nothing else is sent
			*s = types.SwarmSpec{Orchestration: types.SwarmOrchestration{TaskHistoryRetentionLimit: &limit}}
		}
	}
	before, after := r.changeSwarm("", history(4))
	if *after.Spec.Orchestration.TaskHistoryRetentionLimit != 4 || after.Spec.Raft != (types.SwarmRaft{
		SnapshotInterval: before.Spec.Raft.SnapshotInterval, KeepOldSnapshots: after.Spec.Raft.KeepOldSnapshots,
		LogEntriesForSlowFollowers: before.Spec.Raft.LogEntriesForSlowFollowers,
		HeartbeatTick:              before.Spec.Raft.HeartbeatTick, ElectionTick: before.Spec.Raft.ElectionTick,
	}) || after.Spec.Labels["of"] != "tests" || after.JoinTokens != before.JoinTokens {
		t.Errorf("%+v after a change of %+v", after, before)
	}
	for query, wantWorker := range map[string]bool{"rotateWorkerToken=1&": true, "rotateManagerToken=true&": false} {
		before, after = r.changeSwarm(query, func(*types.SwarmSpec) {})
		if worker, manager := after.JoinTokens.Worker != before.JoinTokens.Worker, after.JoinTokens.Manager != before.JoinTokens.Manager; worker != wantWorker ||
			manager == wantWorker {
			t.Errorf("%s changes the worker's token: %t, the manager's: %t", query, worker, manager)
		}
	}
	before, _ = r.changeSwarm("", history(3))
	body := encode(t, before.Spec)
	r.refused(http.StatusInternalServerError, "update out of sequence", http.MethodPost, fmt.Sprintf("/swarm/update?version=%d", before.Version.Index), body)
	at := fmt.Sprintf("/swarm/update?version=%d", get[types.Swarm](r, "/swarm").Version.Index)
	r.refused(http.StatusBadRequest, "version", http.MethodPost, "/swarm/update", body)
	r.refused(http.StatusBadRequest, "body is missing", http.MethodPost, at, "")
	r.refused(http.StatusBadRequest, "Name: ", http.MethodPost, at, `{"Name":"mine"}`)
	r.refused(http.StatusBadRequest, "CAConfig.ForceRotate is of", http.MethodPost, at, `{"CAConfig":{"ForceRotate":1}}`)
	r.refused(http.StatusBadRequest, "CAConfig.SigningCACert is of", http.MethodPost, at, `{"CAConfig":{"SigningCACert":"x"}}`)
	r.refused(http.StatusBadRequest, "CAConfig.SigningCAKey is of", http.MethodPost, at, `{"CAConfig":{"SigningCAKey":"x"}}`)
	r.refused(http.StatusBadRequest, "too long", http.MethodPost, at, encode(t, types.SwarmSpec{
		Annotations: types.Annotations{Labels: map[string]string{"a": strings.Repeat("x", 600_000)}},
	}))
}

func TestUnlockKey(t *testing.T) {
	r := newRig(t)
	key := func() string { return get[types.SwarmUnlockKey](r, "/swarm/unlockkey").UnlockKey }
	lock := func(on bool, query string) {
		t.Helper()
		r.changeSwarm(query, func(s *types.SwarmSpec) { s.EncryptionConfig.AutoLockManagers = on })
	}
	if got := key(); got != "" {
		t.Errorf("key %q of a swarm that is not locked", got)
	}
	r.refused(http.StatusConflict, "not locked", http.MethodPost, "/swarm/unlock", `{"UnlockKey":"x"}`)
	r.refused(http.StatusBadRequest, "UnlockKey: ", http.MethodPost, "/swarm/unlock", `{}`)
	lock(true, "")
	first := key()
	lock(true, "rotateManagerUnlockKey=1&")
	second := key()
	if !strings.HasPrefix(first, "SWMKEY-1-") || !strings.HasPrefix(second, "SWMKEY-1-") || first == second {
		t.Errorf("keys %q and %q, want two of SwarmKit's form", first, second)
	}
	lock(false, "")
	if got := key(); got != "" {
		t.Errorf("key %q of a swarm that is not locked any more", got)
	}
}

// TestSwarmTwice: a node of a swarm takes no part in another.
func TestSwarmTwice(t *testing.T) {
	r := newRig(t)
	r.refused(http.StatusNotAcceptable, "This node is already part of a swarm", http.MethodPost, "/swarm/init", `{}`)
	join := `{"RemoteAddrs":["127.0.0.1:1"],"JoinToken":"SWMTKN-1-x"}`
	r.refused(http.StatusNotAcceptable, "This node is already part of a swarm", http.MethodPost, "/swarm/join", join)
}
