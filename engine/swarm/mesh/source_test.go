package mesh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"reflect"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moby/swarmkit/v2/api"
	"google.golang.org/grpc"

	"moss/engine/swarm/provider"
	"moss/engine/swarm/table"
)

// manager pretends SwarmKit's API: what it lists, and a stream of messages.
type manager struct {
	api.WatchClient
	api.ControlClient
	api.Watch_WatchClient

	asked    *api.WatchRequest
	messages chan *api.WatchMessage // closed: the stream ends
	ctx      context.Context        //nolint:containedctx // of the stream
	listing  func(kind string) error

	nodes    []*api.Node
	networks []*api.Network
	services []*api.Service
	tasks    []*api.Task
}

func newManager() *manager {
	return &manager{messages: make(chan *api.WatchMessage), listing: func(string) error { return nil }}
}

func (m *manager) Watch(ctx context.Context, r *api.WatchRequest, _ ...grpc.CallOption) (api.Watch_WatchClient, error) {
	m.asked, m.ctx = r, ctx
	return m, nil
}

func (m *manager) Recv() (*api.WatchMessage, error) {
	select {
	case message, ok := <-m.messages:
		if !ok {
			return nil, io.EOF
		}
		return message, nil
	case <-m.ctx.Done():
		return nil, m.ctx.Err()
	}
}

func (m *manager) ListNodes(context.Context, *api.ListNodesRequest, ...grpc.CallOption) (*api.ListNodesResponse, error) {
	return &api.ListNodesResponse{Nodes: m.nodes}, m.listing("nodes")
}

func (m *manager) ListNetworks(
	context.Context, *api.ListNetworksRequest, ...grpc.CallOption,
) (*api.ListNetworksResponse, error) {
	return &api.ListNetworksResponse{Networks: m.networks}, m.listing("networks")
}

func (m *manager) ListServices(
	context.Context, *api.ListServicesRequest, ...grpc.CallOption,
) (*api.ListServicesResponse, error) {
	return &api.ListServicesResponse{Services: m.services}, m.listing("services")
}

func (m *manager) ListTasks(context.Context, *api.ListTasksRequest, ...grpc.CallOption) (*api.ListTasksResponse, error) {
	return &api.ListTasksResponse{Tasks: m.tasks}, m.listing("tasks")
}

// send is one message of the stream, which its reader has taken in.
func (m *manager) send(kind api.WatchActionKind, objects ...*api.Object) {
	message := &api.WatchMessage{}
	for _, o := range objects {
		message.Events = append(message.Events, &api.WatchMessage_Event{Action: kind, Object: o})
	}
	m.messages <- message
	synctest.Wait()
}

func taskObject(id string, version uint64, state api.TaskState) *api.Object {
	return &api.Object{Object: &api.Object_Task{Task: &api.Task{
		ID: id, ServiceID: "s1", NodeID: "n1", Meta: api.Meta{Version: api.Version{Index: version}},
		Status: api.TaskStatus{State: state}, DesiredState: api.TaskStateRunning,
		Networks: []*api.NetworkAttachment{attached("red", "10.208.1.7/24")},
	}}}
}

func nodeObject(id string, version uint64) *api.Object {
	n := nodeWith(map[string]string{labelRoutes: "192.0.2.0/24"})
	n.ID, n.Meta.Version.Index = id, version
	return &api.Object{Object: &api.Object_Node{Node: n}}
}

// published runs a source in a bubble, and collects its tables.
type published struct {
	source *source
	tables []*table.Table
	ended  chan error
	cancel context.CancelFunc
}

func runManager(t *testing.T, m *manager) *published {
	t.Helper()
	p := &published{ended: make(chan error, 1)}
	p.source = newSource(m, m, func(next *table.Table) { p.tables = append(p.tables, next) })
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(t.Context())
	go func() { p.ended <- p.source.runSource(ctx) }()
	synctest.Wait()
	return p
}

// last returns the last table, once no further one is to come.
func (p *published) last(t *testing.T) *table.Table {
	t.Helper()
	time.Sleep(2 * publishPause)
	synctest.Wait()
	if len(p.tables) == 0 {
		t.Fatal("there is no table")
	}
	return p.tables[len(p.tables)-1]
}

func (p *published) end(t *testing.T) {
	t.Helper()
	p.cancel()
	if err := <-p.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the source ended with %v", err)
	}
}

func TestTableFromListsAndEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager()
		m.nodes = []*api.Node{nodeObject("n1", 3).GetNode()}
		m.networks = []*api.Network{
			{
				ID: "red", Spec: api.NetworkSpec{Annotations: api.Annotations{Name: "front"}}, Meta: api.Meta{Version: api.Version{Index: 9}},
				IPAM: &api.IPAMOptions{Configs: []*api.IPAMConfig{{Subnet: "10.208.1.0/24", Gateway: "10.208.1.1"}}},
			},
			{ID: "unfinished"},
		}
		m.services = []*api.Service{{ID: "s1", Spec: api.ServiceSpec{Annotations: api.Annotations{Name: "web"}}}}
		m.tasks = []*api.Task{taskObject("t1", 5, api.TaskStateStarting).GetTask(), taskObject("old", 4, api.TaskStateFailed).GetTask()}
		p := runManager(t, m)
		if len(p.tables) > 0 {
			t.Error("a table before the stream has begun")
		}
		known := false
		p.source.known = func() { known = true }
		m.send(0) // the stream has begun
		if !known || !p.source.hasNode("n1") || p.source.hasNode("n2") {
			t.Errorf("known %v, the node n1 %v, the node n2 %v", known, p.source.hasNode("n1"), p.source.hasNode("n2"))
		}
		want := []provider.Taken{{Prefix: netip.MustParsePrefix("192.0.2.0/24"), Holder: `node "alpha"`}}
		if got := p.source.listRoutes(); !reflect.DeepEqual(got, want) {
			t.Errorf("routes %v, want %v", got, want)
		}
		if kinds := len(m.asked.Entries); kinds != 4 {
			t.Errorf("%d kinds of objects are watched", kinds)
		}
		first := p.last(t)
		if first.Version != 9 || len(first.Nodes) != 1 || len(first.Networks) != 1 || len(first.Services) != 1 || len(first.Tasks) != 1 {
			t.Fatalf("the first table is %+v", first)
		}
		if first.Tasks["t1"].Ready {
			t.Error("a task that starts is ready")
		}

		m.send(api.WatchActionKindUpdate, taskObject("t1", 10, api.TaskStateRunning))
		if next := p.last(t); next.Version != 10 || !next.Tasks["t1"].Ready || first.Tasks["t1"].Ready {
			t.Errorf("version %d, ready %v: want 10 and a ready task, in this table alone", next.Version, next.Tasks["t1"].Ready)
		}
		m.send(api.WatchActionKindUpdate, taskObject("t1", 8, api.TaskStateFailed)) // as it was
		count := len(p.tables)
		m.send(api.WatchActionKindUpdate, taskObject("t1", 11, api.TaskStateRunning)) // nothing of ours has changed
		if next := p.last(t); len(p.tables) != count || !next.Tasks["t1"].Ready {
			t.Errorf("%d tables, want %d; the task is %+v", len(p.tables), count, next.Tasks["t1"])
		}
		m.send(api.WatchActionKindUpdate, taskObject("t1", 12, api.TaskStateFailed))
		m.send(api.WatchActionKindRemove, nodeObject("n1", 3))
		if next := p.last(t); next.Version != 12 || len(next.Tasks) != 0 || len(next.Nodes) != 0 || p.source.hasNode("n1") {
			t.Errorf("after their end: %+v", next)
		}
		p.end(t)
	})
}

// TestEventsDuringTheLists: a list may be older than what the stream has said before the list is there.
func TestEventsDuringTheLists(t *testing.T) {
	for name, tc := range map[string]struct {
		kind  api.WatchActionKind
		event *api.Object
		want  string
	}{
		"removed":            {api.WatchActionKindRemove, taskObject("t1", 5, api.TaskStateRunning), "[] 5"},
		"ended":              {api.WatchActionKindUpdate, taskObject("t1", 6, api.TaskStateFailed), "[] 6"},
		"runs now":           {api.WatchActionKindUpdate, taskObject("t1", 6, api.TaskStateRunning), "[t1 ready] 6"},
		"older than listed":  {api.WatchActionKindUpdate, taskObject("t1", 4, api.TaskStateRunning), "[t1] 5"},
		"older than the end": {api.WatchActionKindUpdate, taskObject("t0", 4, api.TaskStateRunning), "[t1] 6"},
		"new":                {api.WatchActionKindCreate, taskObject("t2", 6, api.TaskStateAssigned), "[t1 t2] 6"},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := newManager()
			m.tasks = []*api.Task{taskObject("t1", 5, api.TaskStateStarting).GetTask()}
			if name == "older than the end" {
				m.tasks = append(m.tasks, taskObject("t0", 6, api.TaskStateFailed).GetTask())
			}
			begun, goOn := make(chan struct{}), make(chan struct{})
			m.listing = func(kind string) error {
				if kind == "tasks" {
					close(begun)
					<-goOn
				}
				return nil
			}
			p := runManager(t, m)
			m.send(0)
			<-begun
			m.send(tc.kind, tc.event)
			time.Sleep(time.Minute)
			if len(p.tables) > 0 {
				t.Errorf("%s: a table before all is known", name)
			}
			close(goOn)
			var came []string
			next := p.last(t)
			for _, id := range []string{"t0", "t1", "t2"} {
				if task, in := next.Tasks[id]; in {
					came = append(came, id)
					if task.Ready {
						came = append(came, "ready")
					}
				}
			}
			if got := fmt.Sprint(came, " ", next.Version); got != tc.want {
				t.Errorf("%s: got %s, want %s", name, got, tc.want)
			}
			// What comes again later counts.
			m.send(api.WatchActionKindUpdate, taskObject("t1", 20, api.TaskStateRunning))
			if next := p.last(t); !next.Tasks["t1"].Ready {
				t.Errorf("%s: at last the task is %+v, want it ready", name, next.Tasks["t1"])
			}
			p.end(t)
		})
	}
}

// TestSourceEnds: whoever runs a source hears why it has ended.
func TestSourceEnds(t *testing.T) {
	broken := errors.New("broken")
	for name, prepare := range map[string]func(m *manager) error{
		"the stream does not begin": func(m *manager) error { close(m.messages); return io.EOF },
		"no tasks": func(m *manager) error {
			m.listing = func(kind string) error { return map[string]error{"tasks": broken}[kind] }
			return broken
		},
		"no nodes": func(m *manager) error {
			m.listing = func(kind string) error { return map[string]error{"nodes": broken}[kind] }
			return broken
		},
		"the stream ends": func(m *manager) error {
			m.listing = func(kind string) error {
				if kind == "tasks" {
					close(m.messages)
				}
				return nil
			}
			return io.EOF
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := newManager()
			want := prepare(m)
			p := runManager(t, m)
			if name != "the stream does not begin" {
				m.messages <- &api.WatchMessage{}
			}
			if err := <-p.ended; !errors.Is(err, want) {
				t.Errorf("%s: ended with %v, want %v", name, err, want)
			}
			p.cancel()
		})
	}
}

// TestTablesArePaced: many changes are few tables.
func TestTablesArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager()
		p := runManager(t, m)
		m.send(0)
		begun := time.Now()
		for i := range 1000 {
			m.send(api.WatchActionKindUpdate, taskObject("t"+strconv.Itoa(i), uint64(i+1), api.TaskStateRunning))
			time.Sleep(time.Millisecond)
		}
		last := p.last(t)
		if most := int(time.Since(begun)/publishPause) + 2; len(last.Tasks) != 1000 || last.Version != 1000 || len(p.tables) > most {
			t.Errorf("%d tables, want %d at most; the last has %d tasks", len(p.tables), most, len(last.Tasks))
		}
		p.end(t)
	})
}
