package control

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moby/swarmkit/v2/api"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"moss/engine/fault"
	"moss/engine/swarm/member"
)

// fakeMember is a node whose managers answer as a test wants.
type fakeMember struct {
	managers api.ControlClient
	err      error // of all verbs

	mu   sync.Mutex // guards the fields below
	init *member.InitOptions
	join *member.JoinOptions
	left *bool
	key  string
}

func (m *fakeMember) Init(_ context.Context, opt member.InitOptions) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.init = &opt
	return "node1", m.err
}

func (m *fakeMember) Join(_ context.Context, opt member.JoinOptions) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.join = &opt
	return m.err
}

func (m *fakeMember) Leave(_ context.Context, force bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left = &force
	return m.err
}

func (m *fakeMember) Unlock(_ context.Context, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.key = key
	return m.err
}

func (m *fakeMember) Control() (api.ControlClient, error) { return m.managers, m.err }
func (m *fakeMember) CA() (api.CAClient, error)           { return nil, m.err }

// fakeManagers answer what the tests ask for, and nothing else.
type fakeManagers struct {
	api.ControlClient

	clusters func(ctx context.Context) (*api.ListClustersResponse, error)
	create   func(*api.CreateServiceRequest) (*api.CreateServiceResponse, error)
}

func (f *fakeManagers) ListClusters(
	ctx context.Context, _ *api.ListClustersRequest, _ ...grpc.CallOption,
) (*api.ListClustersResponse, error) {
	return f.clusters(ctx)
}

func (f *fakeManagers) CreateService(
	_ context.Context, r *api.CreateServiceRequest, _ ...grpc.CallOption,
) (*api.CreateServiceResponse, error) {
	return f.create(r)
}

// TestKinds: what the managers' codes and texts are to a client.
func TestKinds(t *testing.T) {
	leaderText := "The swarm does not have a leader. It's possible that too few managers are online."
	for _, tc := range []struct {
		err    error
		status int
		text   string
	}{
		{status.Error(codes.InvalidArgument, "a"), http.StatusBadRequest, "a"},
		{status.Error(codes.FailedPrecondition, "b"), http.StatusBadRequest, "b"},
		{status.Error(codes.OutOfRange, "c"), http.StatusBadRequest, "c"},
		{status.Error(codes.NotFound, "d"), http.StatusNotFound, "d"},
		{status.Error(codes.AlreadyExists, "e"), http.StatusConflict, "e"},
		{status.Error(codes.Aborted, "f"), http.StatusConflict, "f"},
		{status.Error(codes.PermissionDenied, "g"), http.StatusForbidden, "g"},
		{status.Error(codes.Unauthenticated, "h"), http.StatusForbidden, "h"},
		{status.Error(codes.Unimplemented, "i"), http.StatusNotImplemented, "i"},
		{status.Error(codes.Unavailable, "j"), http.StatusServiceUnavailable, "j"},
		{status.Error(codes.ResourceExhausted, "k"), http.StatusServiceUnavailable, "k"},
		{status.Error(codes.DeadlineExceeded, "l"), http.StatusServiceUnavailable, "l"},
		{status.Error(codes.Unknown, "update out of sequence"), http.StatusInternalServerError, "update out of sequence"},
		{status.Error(codes.Internal, "m"), http.StatusInternalServerError, "m"},
		{errors.New("n"), http.StatusInternalServerError, "n"},
		{status.Error(codes.Unknown, leaderText), http.StatusServiceUnavailable, leaderText},
		{status.Error(codes.Unknown, "raft: no elected cluster leader"), http.StatusServiceUnavailable, "raft: no elected cluster leader"},
		{
			status.Error(codes.Unknown, "raft: failed to process the request: node lost leader status"), http.StatusServiceUnavailable,
			"raft: failed to process the request: node lost leader status",
		},
		{
			status.Error(codes.FailedPrecondition, "raft: node is not yet part of a raft cluster"), http.StatusServiceUnavailable,
			"raft: node is not yet part of a raft cluster",
		},
		{
			status.Error(codes.Unknown, "raft: failed to process the request: node is stopped"), http.StatusServiceUnavailable,
			"raft: failed to process the request: node is stopped",
		},
		{status.Error(codes.Unknown, "raft: member unknown"), http.StatusServiceUnavailable, "raft: member unknown"},
		{
			status.Error(codes.Unknown, "raft: raft message is too large and can't be sent"), http.StatusBadRequest,
			"raft: raft message is too large and can't be sent",
		},
		{fault.Conflict("o"), http.StatusConflict, "o"},
	} {
		managers := &fakeManagers{clusters: func(context.Context) (*api.ListClustersResponse, error) { return nil, tc.err }}
		a := ask(newAPI(&fakeMember{managers: managers}), http.MethodGet, "/swarm", "")
		if a.status != tc.status || a.text() != tc.text {
			t.Errorf("%v: got %d %q, want %d %q", tc.err, a.status, a.text(), tc.status, tc.text)
		}
	}
	managers := &fakeManagers{clusters: func(context.Context) (*api.ListClustersResponse, error) { return &api.ListClustersResponse{}, nil }}
	requireError(t, ask(newAPI(&fakeMember{managers: managers}), http.MethodGet, "/swarm", ""), http.StatusServiceUnavailable, "being made")
}

// TestNoAnswer: managers that do not answer are waited for in bounded time, and no longer than the client waits.
func TestNoAnswer(t *testing.T) {
	managers := &fakeManagers{clusters: func(ctx context.Context) (*api.ListClustersResponse, error) {
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}}
	handler := newAPI(&fakeMember{managers: managers})
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		requireError(t, ask(handler, http.MethodGet, "/swarm", ""), http.StatusServiceUnavailable, "The swarm does not have a leader. ")
		if took := time.Since(begun); took != 20*time.Second {
			t.Errorf("answered after %s, want 20 s", took)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		time.AfterFunc(3*time.Second, cancel)
		begun := time.Now()
		if a := askContext(ctx, handler, http.MethodGet, "/swarm", ""); a.status != http.StatusServiceUnavailable {
			t.Errorf("a client that has gone is the managers' trouble: %d %s", a.status, a.body)
		}
		if took := time.Since(begun); took != 3*time.Second {
			t.Errorf("asked for %s, want as long as the client waits, 3 s", took)
		}
	})
}

// TestNoManager: what this node cannot do is said before anything of a request is looked at.
func TestNoManager(t *testing.T) {
	handler := newAPI(&fakeMember{err: fault.NotAcceptable("This node is not part of a swarm.")})
	for _, path := range []string{"/swarm", "/swarm/unlockkey", "/nodes", "/nodes/x", "/services", "/services/x", "/tasks", "/tasks/x"} {
		requireError(t, ask(handler, http.MethodGet, path+"?filters=x", ""), http.StatusNotAcceptable, "not part of a swarm")
	}
	for _, path := range []string{"/swarm/update", "/nodes/x/update", "/services/create", "/services/x/update"} {
		requireError(t, ask(handler, http.MethodPost, path, "{"), http.StatusNotAcceptable, "not part of a swarm")
	}
	for _, path := range []string{"/nodes/x", "/services/x"} {
		requireError(t, ask(handler, http.MethodDelete, path, ""), http.StatusNotAcceptable, "not part of a swarm")
	}
	requireError(t, ask(handler, http.MethodPost, "/swarm/leave", ""), http.StatusNotAcceptable, "not part of a swarm")
	requireError(t, ask(handler, http.MethodPost, "/swarm/unlock", `{"UnlockKey":"k"}`), http.StatusNotAcceptable, "not part of a swarm")
	requireError(t, ask(handler, http.MethodPost, "/swarm/init", `{}`), http.StatusNotAcceptable, "not part of a swarm")
	join := `{"RemoteAddrs":["a"],"JoinToken":"t"}`
	requireError(t, ask(handler, http.MethodPost, "/swarm/join", join), http.StatusNotAcceptable, "not part of a swarm")
}

// TestMembershipRequests: what a client asks for reaches the member.
func TestMembershipRequests(t *testing.T) {
	m := &fakeMember{}
	handler := newAPI(m)
	a := ask(handler, http.MethodPost, "/swarm/init", `{"ListenAddr":"l","AdvertiseAddr":"a","DataPathAddr":"d","ForceNewCluster":true,"AutoLockManagers":true,`+
		`"Availability":"drain","SubnetSize":24,"DataPathPort":0,"DefaultAddrPool":null,"Spec":{"Orchestration":{"TaskHistoryRetentionLimit":7}}}`)
	if a.status != http.StatusOK || compact(t, a.body) != `"node1"` {
		t.Errorf("init: %d %s", a.status, a.body)
	}
	spec := &api.ClusterSpec{Raft: api.RaftConfig{ElectionTick: 10, HeartbeatTick: 1}}
	if err := m.init.Change(spec); err != nil || spec.Orchestration.TaskHistoryRetentionLimit != 7 || !spec.EncryptionConfig.AutoLockManagers {
		t.Errorf("change: %v, %+v", err, spec)
	}
	m.init.Change = nil
	if want := (member.InitOptions{
		ListenAddr: "l", AdvertiseAddr: "a", DataPathAddr: "d", ForceNewCluster: true, AutoLock: true, Availability: api.NodeAvailabilityDrain,
	}); !reflect.DeepEqual(*m.init, want) {
		t.Errorf("init with %+v, want %+v", *m.init, want)
	}
	ask(handler, http.MethodPost, "/swarm/init", `{"Spec":{"EncryptionConfig":{"AutoLockManagers":true}}}`)
	if !m.init.AutoLock || m.init.ForceNewCluster {
		t.Errorf("init with %+v, want a lock", *m.init)
	}
	a = ask(handler, http.MethodPost, "/swarm/join", `{"ListenAddr":"l","AdvertiseAddr":"a","DataPathAddr":"d","RemoteAddrs":["r1","r2"],"JoinToken":"t","Availability":"pause"}`)
	if want := (member.JoinOptions{
		ListenAddr: "l", AdvertiseAddr: "a", DataPathAddr: "d", RemoteAddrs: []string{"r1", "r2"}, Token: "t", Availability: api.NodeAvailabilityPause,
	}); a.status != http.StatusOK || len(a.body) != 0 || !reflect.DeepEqual(*m.join, want) {
		t.Errorf("join: %d %s with %+v, want %+v", a.status, a.body, *m.join, want)
	}
	for query, force := range map[string]bool{"": false, "?force=1": true, "?force=0": false} {
		if a := ask(handler, http.MethodPost, "/swarm/leave"+query, ""); a.status != http.StatusOK || len(a.body) != 0 || *m.left != force {
			t.Errorf("leave%s: %d %s, force %t", query, a.status, a.body, *m.left)
		}
	}
	if a := ask(handler, http.MethodPost, "/swarm/unlock", `{"UnlockKey":"k"}`); a.status != http.StatusOK || len(a.body) != 0 || m.key != "k" {
		t.Errorf("unlock: %d %s with %q", a.status, a.body, m.key)
	}
}

// TestMembershipRefused: a wrong field is named before the member is asked.
func TestMembershipRefused(t *testing.T) {
	m := &fakeMember{}
	handler := newAPI(m)
	for _, tc := range []struct {
		path, body string
		status     int
		words      string
	}{
		{"/swarm/init", `{"DataPathPort":4789}`, http.StatusBadRequest, "DataPathPort is of"},
		{"/swarm/init", `{"DefaultAddrPool":["10.0.0.0/8"]}`, http.StatusBadRequest, "DefaultAddrPool is of"},
		{"/swarm/init", `{"Availability":"x"}`, http.StatusBadRequest, "Availability: "},
		{"/swarm/init", `{"Spec":{"Name":"x"}}`, http.StatusBadRequest, "Spec.Name: "},
		{"/swarm/init", `{"Spec":{"Raft":{"HeartbeatTick":10}}}`, http.StatusBadRequest, "Spec.Raft.ElectionTick: 10 is not more than"},
		{"/swarm/init", `{"Spec":{"CAConfig":{"ForceRotate":2}}}`, http.StatusBadRequest, "Spec.CAConfig.ForceRotate is of"},
		{"/swarm/init", `{"ListenAddr":5}`, http.StatusBadRequest, "ListenAddr"},
		{"/swarm/init", ``, http.StatusBadRequest, "body is missing"},
		{"/swarm/join", `{"Availability":"x","RemoteAddrs":["r"],"JoinToken":"t"}`, http.StatusBadRequest, "Availability: "},
		{"/swarm/join", `{"JoinToken":"t"}`, http.StatusBadRequest, "at least 1 RemoteAddr is required to join"},
		{"/swarm/join", `{"RemoteAddrs":["r"]}`, http.StatusBadRequest, "JoinToken: "},
		{"/swarm/join", ``, http.StatusBadRequest, "body is missing"},
		{"/swarm/unlock", `{}`, http.StatusBadRequest, "UnlockKey: "},
		{"/swarm/unlock", ``, http.StatusBadRequest, "body is missing"},
	} {
		requireError(t, ask(handler, http.MethodPost, tc.path, tc.body), tc.status, tc.words)
	}
	if m.init != nil || m.join != nil || m.key != "" {
		t.Error("the member was asked all the same")
	}
}

// TestTakenNames: a name that moss has chosen is chosen again if there is such a service, in bounded tries; one that the client has
// chosen is not.
func TestTakenNames(t *testing.T) {
	taken := status.Error(codes.AlreadyExists, "name conflicts with an existing object")
	var asked []string
	managers := &fakeManagers{create: func(r *api.CreateServiceRequest) (*api.CreateServiceResponse, error) {
		asked = append(asked, r.Spec.Annotations.Name)
		if len(asked) < 4 {
			return nil, taken
		}
		return &api.CreateServiceResponse{Service: &api.Service{ID: "s1"}}, nil
	}}
	handler := newAPI(&fakeMember{managers: managers})
	const body = `"TaskTemplate":{"ContainerSpec":{"Image":"i"}}}`
	if a := ask(handler, http.MethodPost, "/services/create", "{"+body); a.status != http.StatusCreated || len(asked) != 4 {
		t.Errorf("%d %s after %q", a.status, a.body, asked)
	}
	if strings.ContainsAny(asked[0], "0123456789") || !strings.ContainsAny(asked[1], "0123456789") {
		t.Errorf("names %q, want numbers from the second on", asked)
	}
	asked = nil
	requireError(t, ask(handler, http.MethodPost, "/services/create", `{"Name":"mine",`+body), http.StatusConflict, "name conflicts")
	if len(asked) != 1 {
		t.Errorf("%q were tried", asked)
	}
	asked, managers.create = nil, func(r *api.CreateServiceRequest) (*api.CreateServiceResponse, error) {
		asked = append(asked, r.Spec.Annotations.Name)
		return nil, taken
	}
	requireError(t, ask(handler, http.MethodPost, "/services/create", "{"+body), http.StatusConflict, "name conflicts")
	if len(asked) != maxNameTries+1 {
		t.Errorf("%d names were tried, want %d", len(asked), maxNameTries+1)
	}
}
