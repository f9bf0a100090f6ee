package executor

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/swarmkit/v2/api"

	"moss/api/client"
	"moss/api/types"
)

// place is a task's place in a network.
func place(id, name, addr string, ingress bool, aliases ...string) *api.NetworkAttachment {
	return &api.NetworkAttachment{
		Network:   &api.Network{ID: id, Spec: api.NetworkSpec{Annotations: api.Annotations{Name: name}, Ingress: ingress}},
		Addresses: []string{addr}, Aliases: aliases,
	}
}

// inNetworks puts a task into two networks, and into that of published ports, which SwarmKit puts first.
func inNetworks(t *api.Task, _ *api.ContainerSpec) {
	t.Networks = []*api.NetworkAttachment{
		place("n0", "ingress", "10.208.0.5/24", true), place("n2", "back", "10.208.2.5/24", false, "db"),
		place("n1", "front", "10.208.1.5/24", false),
	}
	t.Endpoint = &api.Endpoint{Ports: []*api.PortConfig{{TargetPort: 80, PublishedPort: 8080}}}
}

func TestNetworksOfTask(t *testing.T) {
	body, err := newCreate(newTask(inNetworks), testNode(), nil, true)
	if err != nil {
		t.Fatal(err)
	}
	at := func(addr string, aliases ...string) *types.EndpointConfig {
		return &types.EndpointConfig{IPAMConfig: &types.IPAMConfig{IPv4Address: addr}, Aliases: aliases}
	}
	want := map[string]*types.EndpointConfig{"n0": at("10.208.0.5"), "n1": at("10.208.1.5"), "n2": at("10.208.2.5", "db")}
	if got := body.NetworkingConfig.EndpointsConfig; body.HostConfig.NetworkMode != "n2" || !reflect.DeepEqual(got, want) {
		t.Errorf("mode %s, networks %s; want n2 and %s", body.HostConfig.NetworkMode, encode(t, got), encode(t, want))
	}
	only := newTask(func(t *api.Task, _ *api.ContainerSpec) {
		t.Networks = []*api.NetworkAttachment{place("n0", "ingress", "10.208.0.5/24", true)}
	})
	if body, err := newCreate(only, testNode(), nil, true); err != nil || body.HostConfig.NetworkMode != "n0" {
		t.Errorf("a task with published ports only: mode %s, %v; want n0", body.HostConfig.NetworkMode, err)
	}
	for what, addrs := range map[string][]string{
		"no address": nil, "two addresses": {"10.208.1.5/24", "10.208.1.6/24"}, "a broken one": {"10.208.1"},
	} {
		broken := newTask(inNetworks)
		broken.Networks[2].Addresses = addrs
		if _, err := newCreate(broken, testNode(), nil, true); err == nil || !strings.Contains(err.Error(), "network front") {
			t.Errorf("%s: %v, want an error that names the network", what, err)
		}
	}
}

// fakeNetworks records what it is asked for.
type fakeNetworks struct {
	await func(ctx context.Context) error // nil: at once
	note  func(what string)               // called for each question

	mu    sync.Mutex // guards asked
	asked []string
}

func (f *fakeNetworks) Await(ctx context.Context, networks []string) error {
	f.record("await " + strings.Join(networks, " "))
	if f.await != nil {
		return f.await(ctx)
	}
	return nil
}

func (f *fakeNetworks) TakenOut(_ context.Context, taskID string) { f.record("out " + taskID) }

func (f *fakeNetworks) record(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, what)
	if f.note != nil {
		f.note(what)
	}
}

// TestNetworksInOrder: a container is created once its networks are there, and stopped once nothing leads to it.
func TestNetworksInOrder(t *testing.T) {
	networks := &fakeNetworks{}
	r := newRigIn(t, time.Minute, networks)
	var order []string
	count := func(part string) (n int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, call := range r.calls {
			if strings.Contains(call, part) {
				n++
			}
		}
		return n
	}
	networks.note = func(what string) {
		if strings.HasPrefix(what, "await") && count("/containers/create") > 0 || strings.HasPrefix(what, "out") && count("/stop") > 0 {
			t.Errorf("%s comes too late", what)
		}
		order = append(order, what)
	}
	j := r.newJob(inNetworks)
	j.advance(api.TaskStateRunning)
	j.task.DesiredState = api.TaskStateShutdown
	j.advance(api.TaskStateShutdown)
	if want := []string{"await n2 n1 n0", "out taskid"}; !reflect.DeepEqual(order, want) {
		t.Errorf("asked %q, want %q", order, want)
	}
	if err := j.ctlr.Remove(t.Context()); err != nil || len(order) != 2 {
		t.Errorf("remove: %v, asked %q; want nothing more for a container that stands", err, order)
	}

	networks.note = func(what string) { order = append(order, what) }
	running := r.newJob(inNetworks)
	running.advance(api.TaskStateRunning)
	order = nil
	if err := running.ctlr.Remove(t.Context()); err != nil || !reflect.DeepEqual(order, []string{"out taskid"}) {
		t.Errorf("remove: %v, asked %q; want that a running one is taken out first", err, order)
	}
}

// TestNetworksMissing: a task whose networks do not come is rejected after the patience, without a container.
func TestNetworksMissing(t *testing.T) {
	networks := &fakeNetworks{await: func(ctx context.Context) error {
		<-ctx.Done()
		return errors.New("network front has no bridge")
	}}
	r := newRigIn(t, 50*time.Millisecond, networks)
	j := r.newJob(inNetworks)
	j.advance(api.TaskStateRejected)
	j.expect(api.TaskStateRejected, "the networks of the task are not on this node: network front has no bridge")
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.containers) != 0 {
		t.Errorf("%d containers, want none", len(r.containers))
	}
}

// TestPlainTaskAsksNothing: a task of the node's own network does not depend on those between nodes.
func TestPlainTaskAsksNothing(t *testing.T) {
	networks := &fakeNetworks{}
	r := newRigIn(t, time.Minute, networks)
	j := r.newJob(nil)
	j.advance(api.TaskStateRunning)
	j.task.DesiredState = api.TaskStateShutdown
	j.advance(api.TaskStateShutdown)
	if len(networks.asked) > 0 {
		t.Errorf("asked %q, want nothing", networks.asked)
	}
}

func TestFindNetwork(t *testing.T) {
	r := newRig(t, time.Minute)
	r.networks = map[string]types.Network{"mine": {Name: "mine", Scope: "local"}, "ours": {Name: "ours", Scope: "swarm"}}
	if name, err := r.x.FindNetwork(t.Context(), "mine"); name != "mine" || err != nil {
		t.Errorf("mine: %q, %v", name, err)
	}
	for _, ref := range []string{"ours", "nosuch"} {
		if name, err := r.x.FindNetwork(t.Context(), ref); client.StatusOf(err) != statusNotFound {
			t.Errorf("%s: %q, %v; want a network that is not there", ref, name, err)
		}
	}
}
