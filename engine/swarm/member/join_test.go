package member

import (
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/moby/swarmkit/v2/api"
	"github.com/moby/swarmkit/v2/manager/encryption"

	"moss/engine/fault"
)

// join makes a node one of a swarm's.
func join(t *testing.T, m *Member, remote, token string) {
	t.Helper()
	if err := m.Join(t.Context(), JoinOptions{
		ListenAddr: "127.0.0.1:" + freePort(t), RemoteAddrs: []string{remote}, Token: token,
	}); err != nil {
		t.Fatal(err)
	}
}

func TestWorker(t *testing.T) {
	t.Parallel()
	manager := open(t, options(t))
	_, addr := initSwarm(t, manager, InitOptions{})
	tokens := cluster(t, manager).RootCA.JoinTokens
	opt := options(t)
	opt.Patience = 8 * time.Second // the removed node is waited for as long
	worker := open(t, opt)
	join(t, worker, addr, tokens.Worker)
	s := worker.Status()
	if s.State != Active || s.ControlAvailable || s.NodeID == "" || s.NodeAddr != "127.0.0.1" {
		t.Errorf("Status of a worker: got %+v", s)
	}
	_, err := worker.Control()
	wantFault(t, "Control of a worker", err, fault.NotAcceptable, "Worker nodes can't be used to view or modify")
	if r, err := readMembership(opt.Dir); err != nil || r.Token != "" || r.Joining {
		t.Errorf("the record after the way in: got %+v, %v, want no token", r, err)
	}
	worker.Close()
	worker = open(t, opt)
	await(t, "the worker is back", func() bool { return worker.Status().State == Active })
	if got := worker.Status().NodeID; got != s.NodeID {
		t.Errorf("node after a restart: got %s, want %s", got, s.NodeID)
	}

	control, err := manager.Control()
	if err != nil {
		t.Fatal(err)
	}
	worker.Close() // it is away while it is removed
	if _, err := control.RemoveNode(t.Context(), &api.RemoveNodeRequest{NodeID: s.NodeID, Force: true}); err != nil {
		t.Fatal(err)
	}
	worker = open(t, opt)
	await(t, "the removed node says so", func() bool { return worker.Status().Error != "" })
	if s := worker.Status(); s.State == Active {
		t.Errorf("Status of a removed node: got %+v", s)
	}
	if err := worker.Leave(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	join(t, worker, addr, tokens.Worker) // as another node
	if got := worker.Status().NodeID; got == s.NodeID {
		t.Errorf("node after leave and join: got %s again", got)
	}
}

func TestJoinRefused(t *testing.T) {
	t.Parallel()
	manager, other := open(t, options(t)), open(t, options(t))
	_, addr := initSwarm(t, manager, InitOptions{})
	initSwarm(t, other, InitOptions{})
	token := cluster(t, manager).RootCA.JoinTokens.Worker
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	rotated := token
	rotateWorkerToken(t, manager)
	token = cluster(t, manager).RootCA.JoinTokens.Worker
	wrongSecret := token[:strings.LastIndex(token, "-")+1] + strings.Repeat("0", 25)
	for _, tc := range []struct {
		name string
		opt  JoinOptions
		kind fault.Constructor
		want string
	}{
		{"no remote", JoinOptions{Token: token}, fault.Invalid, "RemoteAddrs"},
		{"remote without a host", JoinOptions{RemoteAddrs: []string{":2377"}, Token: token}, fault.Invalid, "RemoteAddrs"},
		{"remote with port 0", JoinOptions{RemoteAddrs: []string{"a:0"}, Token: token}, fault.Invalid, "RemoteAddrs"},
		{"no token", JoinOptions{RemoteAddrs: []string{addr}}, fault.Invalid, "JoinToken"},
		{"foreign advertise", JoinOptions{RemoteAddrs: []string{addr}, Token: token, AdvertiseAddr: "192.0.2.1"}, fault.Invalid, "AdvertiseAddr"},
		{"nobody", JoinOptions{RemoteAddrs: []string{"127.0.0.1:" + freePort(t)}, Token: token}, fault.Unavailable, "connection refused"},
		{"wrong secret", JoinOptions{RemoteAddrs: []string{addr}, Token: wrongSecret}, fault.Invalid, "join token"},
		{"rotated", JoinOptions{RemoteAddrs: []string{addr}, Token: rotated}, fault.Invalid, "A valid join token is necessary"},
		{
			"another swarm's",
			JoinOptions{RemoteAddrs: []string{addr}, Token: cluster(t, other).RootCA.JoinTokens.Worker},
			fault.Invalid, "fingerprint",
		},
		{"silent manager", JoinOptions{RemoteAddrs: []string{silent.Addr().String()}, Token: token}, fault.Unavailable, silent.Addr().String()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			opt := options(t)
			if fault.Is(tc.kind(""), fault.Unavailable) { // otherwise the managers' first answer counts, before the patience ends
				opt.Patience = 5 * time.Second
			}
			m := open(t, opt)
			begun := time.Now()
			wantFault(t, "Join", m.Join(t.Context(), tc.opt), tc.kind, tc.want)
			if took := time.Since(begun); took > time.Minute {
				t.Errorf("Join took %v", took)
			}
			if s := m.Status(); s.State != Inactive {
				t.Errorf("Status: got %+v, want inactive", s)
			}
			if _, err := os.Stat(opt.Dir); !os.IsNotExist(err) {
				t.Errorf("something is left: %v", err)
			}
		})
	}
	// The first that does not answer is no hindrance.
	m := open(t, options(t))
	if err := m.Join(t.Context(), JoinOptions{RemoteAddrs: []string{"127.0.0.1:" + freePort(t), addr}, Token: token}); err != nil {
		t.Error(err)
	}
}

func rotateWorkerToken(t *testing.T, m *Member) {
	t.Helper()
	control, err := m.Control()
	if err != nil {
		t.Fatal(err)
	}
	now := cluster(t, m)
	if _, err := control.UpdateCluster(t.Context(), &api.UpdateClusterRequest{
		ClusterID: now.ID, ClusterVersion: &now.Meta.Version, Spec: &now.Spec, Rotation: api.KeyRotation{WorkerJoinToken: true},
	}); err != nil {
		t.Fatal(err)
	}
}

// TestJoinLocked: a manager that joins a locked swarm gets its key, and waits for it after a restart.
func TestJoinLocked(t *testing.T) {
	t.Parallel()
	first := open(t, options(t))
	_, addr := initSwarm(t, first, InitOptions{AutoLock: true})
	opt := options(t)
	second := open(t, opt)
	join(t, second, addr, cluster(t, first).RootCA.JoinTokens.Manager)
	if s := second.Status(); s.State != Active {
		t.Errorf("Status: got %+v, want active", s)
	}
	await(t, "the second manager answers", func() bool { return second.Status().ControlAvailable })
	second.Close()
	second = open(t, opt)
	await(t, "it is locked", func() bool { return second.Status().State == Locked })
}

func TestLocked(t *testing.T) {
	t.Parallel()
	opt := options(t)
	m := open(t, opt)
	id, _ := initSwarm(t, m, InitOptions{AutoLock: true})
	authority, err := m.CA()
	if err != nil {
		t.Fatal(err)
	}
	answer, err := authority.GetUnlockKey(t.Context(), &api.GetUnlockKeyRequest{})
	if err != nil {
		t.Fatal(err)
	}
	key := encryption.HumanReadableKey(answer.UnlockKey)
	m.Close()
	m = open(t, opt)
	await(t, "it is locked", func() bool { return m.Status().State == Locked })
	_, err = m.Control()
	wantFault(t, "Control", err, fault.NotAcceptable, "Swarm is encrypted and needs to be unlocked before it can be used.")
	wantFault(t, "Leave", m.Leave(t.Context(), false), fault.Unavailable, "Swarm is encrypted and locked.")
	wrong := answer.UnlockKey
	wrong[3]++
	for _, key := range []string{"", "nonsense", encryption.HumanReadableKey(wrong)} {
		wantFault(t, "Unlock", m.Unlock(t.Context(), key), fault.Invalid, "swarm could not be unlocked: invalid key provided")
		if s := m.Status(); s.State != Locked {
			t.Errorf("Status after a wrong key: got %+v, want locked", s)
		}
	}
	if err := m.Unlock(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if s := m.Status(); s.State != Active || s.NodeID != id {
		t.Errorf("Status: got %+v, want active as %s", s, id)
	}
	wantFault(t, "Unlock", m.Unlock(t.Context(), key), fault.Conflict, "not locked")
}

// reachableManagers counts the managers that one of them reaches, itself included.
func reachableManagers(t *testing.T, m *Member) (count int) {
	t.Helper()
	control, err := m.Control()
	if err != nil {
		t.Fatal(err)
	}
	answer, err := control.ListNodes(t.Context(), &api.ListNodesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range answer.Nodes {
		if n.ManagerStatus != nil && n.ManagerStatus.Reachability == api.RaftMemberStatus_REACHABLE {
			count++
		}
	}
	return count
}

// TestQuorumLost: what needs a leader fails in time, and a forced swarm of the one that is left works.
func TestQuorumLost(t *testing.T) {
	t.Parallel()
	opt := options(t)
	opt.Patience = 5 * time.Second
	first, second := open(t, opt), open(t, options(t))
	id, addr := initSwarm(t, first, InitOptions{})
	join(t, second, addr, cluster(t, first).RootCA.JoinTokens.Manager)
	await(t, "the second manager answers", func() bool { return second.Status().ControlAvailable })
	await(t, "the first reaches it", func() bool { return reachableManagers(t, first) == 2 })
	wantFault(t, "Leave", first.Leave(t.Context(), false), fault.Unavailable, "Removing this node leaves 1 managers out of 2.")
	second.Close()
	control, err := first.Control()
	if err != nil {
		t.Fatal(err)
	}
	begun, now := time.Now(), cluster(t, first)
	_, err = control.UpdateCluster(t.Context(), &api.UpdateClusterRequest{
		ClusterID: now.ID, ClusterVersion: &now.Meta.Version, Spec: &now.Spec, Rotation: api.KeyRotation{WorkerJoinToken: true},
	})
	t.Logf("without a quorum: %v after %v", err, time.Since(begun))
	if err == nil || !strings.Contains(err.Error(), "The swarm does not have a leader") || time.Since(begun) > 30*time.Second {
		t.Errorf("UpdateCluster without a quorum: got %v after %v", err, time.Since(begun))
	}
	wantFault(t, "Leave", first.Leave(t.Context(), false), fault.Unavailable, "consensus")
	again, err := first.Init(t.Context(), InitOptions{ForceNewCluster: true})
	if err != nil || again != id {
		t.Fatalf("Init with ForceNewCluster: got %s, %v, want %s", again, err, id)
	}
	if s := first.Status(); s.State != Active || s.NodeAddr != "127.0.0.1" {
		t.Errorf("Status: got %+v", s)
	}
	cluster(t, first)
}
