package provider

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"testing"

	"github.com/moby/swarmkit/v2/api"
)

// records are what the store of a swarm holds, as SwarmKit keeps it between two allocators.
type records struct {
	networks []*api.Network
	services []*api.Service
	tasks    []*api.Task
	nodes    []*api.Node
}

// restore leads a new allocator through the records in SwarmKit's order.
func (r *records) restore(t *testing.T, p *Provider) *Allocator {
	t.Helper()
	a := newAllocator(t, p, "10.208.0.0/22")
	for _, n := range r.networks {
		check(t, a.Allocate(n))
	}
	for _, n := range r.nodes {
		for _, at := range n.Attachments {
			check(t, a.AllocateAttachment(n, at))
		}
	}
	for _, s := range r.services {
		check(t, a.AllocateService(s))
	}
	for _, task := range r.tasks {
		check(t, a.AllocateTask(task))
	}
	return a
}

// list returns who has which address of which network.
func (r *records) list() map[string]string {
	all := map[string]string{}
	for _, s := range r.services {
		if s.Endpoint != nil {
			for _, v := range s.Endpoint.VirtualIPs {
				all[s.ID+"@"+v.NetworkID] = v.Addr
			}
		}
	}
	for _, task := range r.tasks {
		for _, n := range task.Networks {
			all[task.ID+"@"+n.Network.ID] = n.Addresses[0]
		}
	}
	for _, node := range r.nodes {
		for _, n := range node.Attachments {
			all[node.ID+"@"+n.Network.ID] = n.Addresses[0]
		}
	}
	return all
}

// checkApart looks that subnets do not overlap, that addresses lie in their subnets, and that none is held twice.
func (r *records) checkApart(t *testing.T) {
	t.Helper()
	subnets := map[string]netip.Prefix{}
	for _, n := range r.networks {
		p := netip.MustParsePrefix(n.IPAM.Configs[0].Subnet)
		for id, other := range subnets {
			if other.Overlaps(p) {
				t.Fatalf("subnet %s of %s overlaps %s of %s", p, n.ID, other, id)
			}
		}
		subnets[n.ID] = p
	}
	seen := map[string]string{}
	for who, text := range r.list() {
		p := netip.MustParsePrefix(text)
		id := who[len(who)-2:]
		if subnet := subnets[id]; p.Masked() != subnet || p.Addr() == subnet.Addr() || p.Addr() == subnet.Addr().Next() {
			t.Fatalf("%s has %s in the subnet %s", who, text, subnet)
		}
		if other := seen[text]; other != "" {
			t.Fatalf("%s and %s have %s", who, other, text)
		}
		seen[text] = who
	}
}

// walk draws what happens to a swarm.
type walk struct {
	records

	t    *testing.T
	p    *Provider
	a    *Allocator
	draw *rand.Rand
	next int
}

func TestRandomWalkGivesNothingTwice(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			p := New(Options{})
			w := &walk{t: t, p: p, a: newAllocator(t, p, "10.208.0.0/22"), draw: rand.New(rand.NewPCG(seed, 1))}
			for range 4 { // as many as the pool has subnets
				n := &api.Network{ID: fmt.Sprint("n", len(w.networks))}
				check(t, w.a.Allocate(n))
				w.networks = append(w.networks, n)
			}
			if err := w.a.Allocate(&api.Network{ID: "n9"}); err == nil {
				t.Fatal("a fifth network has a subnet of a pool of four")
			}
			for range 1500 {
				w.step()
				w.checkApart(t)
			}
			if len(w.list()) == 0 {
				t.Error("the walk gave nothing")
			}
		})
	}
}

func (w *walk) step() {
	w.next++
	n := w.networks[w.draw.IntN(len(w.networks))]
	switch w.draw.IntN(12) {
	case 0, 1, 2, 3:
		task := &api.Task{ID: fmt.Sprint("t", w.next), Networks: []*api.NetworkAttachment{{Network: n}}}
		if w.a.AllocateTask(task) == nil { // a subnet may be full
			w.tasks = append(w.tasks, task)
		}
	case 4, 5:
		w.dropTask()
	case 6:
		s := &api.Service{ID: fmt.Sprint("s", w.next), Spec: specOf(n.ID)}
		if w.a.AllocateService(s) == nil {
			w.services = append(w.services, s)
		}
	case 7:
		w.changeService(n)
	case 8:
		node := &api.Node{ID: fmt.Sprint("h", w.next), Attachments: []*api.NetworkAttachment{{Network: n}}}
		if w.a.AllocateAttachment(node, node.Attachments[0]) == nil {
			w.nodes = append(w.nodes, node)
		}
	case 9:
		w.dropNode()
	case 10:
		w.again()
	case 11:
		before := w.list()
		w.a = w.restore(w.t, w.p)
		if after := w.list(); fmt.Sprint(after) != fmt.Sprint(before) {
			w.t.Fatalf("addresses after a restart: %v, want %v", after, before)
		}
	}
}

func (w *walk) dropTask() {
	if len(w.tasks) == 0 {
		return
	}
	i := w.draw.IntN(len(w.tasks))
	old := w.tasks[i].Copy()
	check(w.t, w.a.DeallocateTask(w.tasks[i]))
	w.tasks = slices.Delete(w.tasks, i, i+1)
	if w.a.IsTaskAllocated(old) {
		w.t.Fatalf("task %s is gone and allocated", old.ID)
	}
	check(w.t, w.a.DeallocateTask(old)) // an event that comes twice
}

func (w *walk) dropNode() {
	if len(w.nodes) == 0 {
		return
	}
	i := w.draw.IntN(len(w.nodes))
	check(w.t, w.a.DeallocateAttachment(w.nodes[i], w.nodes[i].Attachments[0]))
	w.nodes = slices.Delete(w.nodes, i, i+1)
}

// changeService adds or takes a network, or removes the service.
func (w *walk) changeService(n *api.Network) {
	if len(w.services) == 0 {
		return
	}
	i := w.draw.IntN(len(w.services))
	s := w.services[i]
	switch w.draw.IntN(3) {
	case 0:
		check(w.t, w.a.DeallocateService(s))
		w.services = slices.Delete(w.services, i, i+1)
		return
	case 1:
		s.Spec = specOf(n.ID)
	case 2:
		s.Spec = specOf(w.networks[0].ID, n.ID)
	}
	if err := w.a.AllocateService(s); err == nil && !w.a.IsServiceAllocated(s) {
		w.t.Fatalf("service %s has %v and is not allocated", s.ID, s.Endpoint.VirtualIPs)
	}
}

// again repeats what was done: nothing moves.
func (w *walk) again() {
	before := w.list()
	for _, n := range w.networks {
		if !w.a.IsAllocated(n) {
			w.t.Fatalf("network %s is not allocated", n.ID)
		}
		check(w.t, w.a.Allocate(n))
	}
	for _, task := range w.tasks {
		if !w.a.IsTaskAllocated(task) {
			w.t.Fatalf("task %s is not allocated", task.ID)
		}
		check(w.t, w.a.AllocateTask(task))
	}
	for _, node := range w.nodes {
		if !w.a.IsAttachmentAllocated(node, node.Attachments[0]) {
			w.t.Fatalf("node %s is not allocated", node.ID)
		}
		check(w.t, w.a.AllocateAttachment(node, node.Attachments[0]))
	}
	if after := w.list(); fmt.Sprint(after) != fmt.Sprint(before) {
		w.t.Fatalf("addresses after the same again: %v, want %v", after, before)
	}
}

func specOf(networks ...string) api.ServiceSpec {
	var spec api.ServiceSpec
	for _, id := range networks {
		spec.Task.Networks = append(spec.Task.Networks, &api.NetworkAttachmentConfig{Target: id})
	}
	return spec
}
