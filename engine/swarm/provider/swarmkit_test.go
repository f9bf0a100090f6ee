package provider

import (
	"context"
	"fmt"
	"testing"

	"github.com/moby/swarmkit/v2/api"
	"github.com/moby/swarmkit/v2/manager/allocator"
	"github.com/moby/swarmkit/v2/manager/state/store"
)

// leader runs SwarmKit's own allocator over the store until stop is called.
func leader(t *testing.T, s *store.MemoryStore) (stop func()) {
	t.Helper()
	na, err := New(Options{}).NewAllocator(nil)
	check(t, err)
	a := allocator.New(s, na)
	done := make(chan error, 1)
	go func() { done <- a.Run(context.Background()) }()
	return func() {
		a.Stop()
		check(t, <-done)
	}
}

// await waits for a commit after which the store is as it should be.
func await(t *testing.T, s *store.MemoryStore, ready func(store.ReadTx) bool) {
	t.Helper()
	var ok bool
	events, cancel, err := store.ViewAndWatch(s, func(tx store.ReadTx) error {
		ok = ready(tx)
		return nil
	})
	check(t, err)
	defer cancel()
	for !ok {
		select {
		case <-events:
			s.View(func(tx store.ReadTx) { ok = ready(tx) })
		case <-t.Context().Done():
			t.Fatal("the store is not as it should be")
		}
	}
}

// tasksReady says that all tasks have been through the allocator.
func tasksReady(tx store.ReadTx) bool {
	tasks, err := store.FindTasks(tx, store.All)
	for _, task := range tasks {
		if task.Status.State < api.TaskStatePending || len(task.Networks) != 2 {
			return false
		}
	}
	nodes, nodeErr := store.FindNodes(tx, store.All)
	return err == nil && nodeErr == nil && len(nodes) == 1 && len(nodes[0].Attachments) > 0
}

// addressesIn lists all addresses and ports of the store.
func addressesIn(t *testing.T, s *store.MemoryStore) map[string]string {
	t.Helper()
	all, holders := map[string]string{}, map[string]string{}
	note := func(who, addr string) {
		if other := holders[addr]; other != "" && other != who {
			t.Errorf("%s and %s have %s", who, other, addr)
		}
		holders[addr], all[who] = who, addr
	}
	s.View(func(tx store.ReadTx) {
		services, _ := store.FindServices(tx, store.All)
		for _, v := range services {
			for _, ip := range v.Endpoint.VirtualIPs {
				note(v.ID+"@"+ip.NetworkID, ip.Addr)
			}
			for _, p := range v.Endpoint.Ports {
				note(fmt.Sprint(v.ID, ":", p.TargetPort), fmt.Sprint("port ", p.PublishedPort))
				if p.PublishedPort != 8080 && (p.PublishedPort < 30000 || p.PublishedPort > 32767) {
					t.Errorf("published port %d", p.PublishedPort)
				}
			}
		}
		tasks, _ := store.FindTasks(tx, store.All)
		for _, task := range tasks {
			for _, n := range task.Networks {
				note(task.ID+"@"+n.Network.ID, n.Addresses[0])
			}
		}
		nodes, _ := store.FindNodes(tx, store.All)
		for _, node := range nodes {
			for _, n := range node.Attachments {
				note(node.ID+"@"+n.Network.ID, n.Addresses[0])
			}
		}
	})
	return all
}

func createTask(t *testing.T, s *store.MemoryStore, id, service string) {
	t.Helper()
	check(t, s.Update(func(tx store.Tx) error {
		spec := api.TaskSpec{Networks: []*api.NetworkAttachmentConfig{{Target: "net"}}}
		return store.CreateTask(tx, &api.Task{ID: id, ServiceID: service, Spec: spec, DesiredState: api.TaskStateRunning})
	}))
}

// TestUnderSwarmKit has SwarmKit's allocator give addresses and ports, and a second leader go on from the store.
func TestUnderSwarmKit(t *testing.T) {
	s := store.NewMemoryStore(nil)
	defer func() { check(t, s.Close()) }()
	check(t, s.Update(func(tx store.Tx) error {
		ingress := &api.Network{ID: "ingress", Spec: api.NetworkSpec{
			Ingress: true, Annotations: api.Annotations{Name: "ingress"}, DriverConfig: &api.Driver{},
			IPAM: &api.IPAMOptions{Driver: &api.Driver{}},
		}}
		if err := store.CreateNetwork(tx, ingress); err != nil {
			return err
		}
		return store.CreateNode(tx, &api.Node{ID: "node"})
	}))
	stop := leader(t, s)
	check(t, s.Update(func(tx store.Tx) error {
		return store.CreateNetwork(tx, &api.Network{ID: "net", Spec: api.NetworkSpec{Annotations: api.Annotations{Name: "net"}}})
	}))
	for i, port := range []uint32{0, 8080, 0} {
		id := fmt.Sprint("service", i)
		check(t, s.Update(func(tx store.Tx) error {
			spec := specOf("net")
			spec.Annotations.Name = id
			spec.Endpoint = &api.EndpointSpec{Ports: []*api.PortConfig{{TargetPort: 80, PublishedPort: port}}}
			return store.CreateService(tx, &api.Service{ID: id, Spec: spec})
		}))
		for j := range 5 {
			createTask(t, s, fmt.Sprint("task", i, j), id)
		}
	}
	await(t, s, tasksReady)
	stop()
	before := addressesIn(t, s)
	if want := 3*3 + 15*2 + 1; len(before) != want {
		t.Errorf("%d addresses and ports, want %d: %v", len(before), want, before)
	}

	stop = leader(t, s)
	createTask(t, s, "late", "service0")
	await(t, s, tasksReady)
	stop()
	after := addressesIn(t, s)
	for who, addr := range before {
		if after[who] != addr {
			t.Errorf("%s had %s, and %s under the next leader", who, addr, after[who])
		}
	}
	if len(after) != len(before)+2 {
		t.Errorf("%d addresses after one more task, %d before", len(after), len(before))
	}
}
