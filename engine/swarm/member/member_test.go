package member

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/moby/swarmkit/v2/agent/exec"
	"github.com/moby/swarmkit/v2/api"
	"github.com/rs/zerolog"

	"moss/engine/fault"
)

// idle is an executor that runs nothing.
type idle struct{}

func (idle) Describe(context.Context) (*api.NodeDescription, error) {
	return &api.NodeDescription{Hostname: "here"}, nil
}
func (idle) Configure(context.Context, *api.Node) error         { return nil }
func (idle) Controller(*api.Task) (exec.Controller, error)      { return nil, errors.New("no tasks here") }
func (idle) SetNetworkBootstrapKeys([]*api.EncryptionKey) error { return nil }

func TestMain(m *testing.M) {
	AdoptLog(zerolog.Nop())
	os.Exit(m.Run())
}

// nextPort is the port that freePort tries next.
var nextPort atomic.Int32 //nolint:gochecknoglobals // of all tests, so that no two get the same

// freePort returns a port of 127.0.0.1 that nobody listens on. It is below those that the kernel gives to connections, which
// would take it before it is used, and no port of other tests.
func freePort(t *testing.T) string {
	t.Helper()
	nextPort.CompareAndSwap(0, 28000+rand.Int32N(500))
	for range 1000 {
		port := strconv.Itoa(int(nextPort.Add(1)))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return ""
}

// options are those of a new node.
func options(t *testing.T) Options {
	t.Helper()
	dir := t.TempDir()
	return Options{
		Dir: filepath.Join(dir, "swarm"), Control: filepath.Join(dir, "control.sock"), Executor: idle{},
		Log: zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.ErrorLevel),
	}
}

// open opens a node that ends with the test.
func open(t *testing.T, opt Options) *Member {
	t.Helper()
	m := Open(opt)
	t.Cleanup(m.Close)
	return m
}

// initSwarm makes a swarm on 127.0.0.1 and returns its address.
func initSwarm(t *testing.T, m *Member, opt InitOptions) (id, addr string) {
	t.Helper()
	addr = "127.0.0.1:" + freePort(t)
	opt.ListenAddr, opt.AdvertiseAddr = addr, addr
	id, err := m.Init(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	return id, addr
}

func cluster(t *testing.T, m *Member) *api.Cluster {
	t.Helper()
	control, err := m.Control()
	if err != nil {
		t.Fatal(err)
	}
	list, err := control.ListClusters(t.Context(), &api.ListClustersRequest{})
	if err != nil || len(list.Clusters) != 1 {
		t.Fatalf("clusters: %v, %v", list, err)
	}
	return list.Clusters[0]
}

// await waits for a condition.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

func wantFault(t *testing.T, what string, err error, kind fault.Constructor, words string) {
	t.Helper()
	if !fault.Is(err, kind) || !strings.Contains(err.Error(), words) {
		t.Errorf("%s: got %v (%s), want %s with %q", what, err, fault.KindOf(err), fault.KindOf(kind("")), words)
	}
}

func TestInNoSwarm(t *testing.T) {
	t.Parallel()
	opt := options(t)
	m := open(t, opt)
	if s := m.Status(); s.State != Inactive || s.Error != "" || s.NodeID != "" {
		t.Errorf("Status: got %+v, want inactive", s)
	}
	_, err := m.Control()
	wantFault(t, "Control", err, fault.NotAcceptable, "This node is not part of a swarm")
	wantFault(t, "Leave", m.Leave(t.Context(), true), fault.NotAcceptable, "This node is not part of a swarm")
	wantFault(t, "Unlock", m.Unlock(t.Context(), "x"), fault.NotAcceptable, "This node is not part of a swarm")
	if _, err := os.Stat(opt.Dir); !os.IsNotExist(err) {
		t.Errorf("a node in no swarm has a folder: %v", err)
	}
}

// TestLife makes a swarm, restarts its node, and leaves.
func TestLife(t *testing.T) {
	t.Parallel()
	opt := options(t)
	m := open(t, opt)
	begun := time.Now()
	id, addr := initSwarm(t, m, InitOptions{Change: func(s *api.ClusterSpec) error {
		s.Orchestration.TaskHistoryRetentionLimit = 7
		return nil
	}})
	t.Logf("init: %v", time.Since(begun))
	want := Status{NodeID: id, NodeAddr: "127.0.0.1", State: Active, ControlAvailable: true, Managers: []Peer{{id, addr}}}
	if s := m.Status(); s.NodeID != want.NodeID || s.NodeAddr != want.NodeAddr || s.State != Active || !s.ControlAvailable {
		t.Errorf("Status: got %+v, want %+v", s, want)
	}
	await(t, "the manager among its own", func() bool {
		s := m.Status()
		return len(s.Managers) == 1 && s.Managers[0] == want.Managers[0]
	})
	if n := cluster(t, m).Spec.Orchestration.TaskHistoryRetentionLimit; n != 7 {
		t.Errorf("history: got %d, want 7", n)
	}
	_, err := m.Init(t.Context(), InitOptions{})
	wantFault(t, "Init again", err, fault.NotAcceptable, "This node is already part of a swarm")
	wantFault(t, "Join", m.Join(t.Context(), JoinOptions{}), fault.NotAcceptable, "This node is already part of a swarm")
	wantFault(t, "Leave", m.Leave(t.Context(), false), fault.Unavailable, "Removing the last manager erases all current state")
	wantFault(t, "Unlock", m.Unlock(t.Context(), "x"), fault.Conflict, "not locked")

	m.Close()
	next := open(t, opt)
	await(t, "the node is back", func() bool { return next.Status().State == Active && next.Status().ControlAvailable })
	if got := next.Status().NodeID; got != id {
		t.Errorf("node after a restart: got %s, want %s", got, id)
	}
	await(t, "a leader", func() bool {
		control, err := next.Control()
		if err != nil {
			return false
		}
		_, err = control.GetNode(t.Context(), &api.GetNodeRequest{NodeID: id})
		return err == nil
	})
	if err := next.Leave(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if s := next.Status(); s.State != Inactive || s.NodeID != "" {
		t.Errorf("Status after Leave: got %+v, want inactive", s)
	}
	if _, err := os.Stat(opt.Dir); !os.IsNotExist(err) {
		t.Errorf("the folder is still there after Leave: %v", err)
	}
	initSwarm(t, next, InitOptions{}) // with another port, in the same place
}
