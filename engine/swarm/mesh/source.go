package mesh

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"sync"
	"time"

	"github.com/moby/swarmkit/v2/api"

	"moss/engine/swarm/provider"
	"moss/engine/swarm/table"
)

// publishPause is the least time between two tables.
const publishPause = 50 * time.Millisecond

// source builds the table from what this manager knows.
type source struct {
	watch   api.WatchClient
	control api.ControlClient
	publish func(*table.Table)
	known   func() // called once all objects are known

	mu       sync.Mutex // guards what follows
	version  uint64     // the latest that stands in an object
	listed   bool       // all objects are known
	changed  bool       // since the last table
	nodes    objects[nodeFacts]
	networks objects[table.Network]
	services objects[table.Service]
	tasks    objects[table.Task]
}

// nodeFacts are a node and the routes it has.
type nodeFacts struct {
	node   table.Node
	routes []provider.Taken
}

// objects are those of one kind, by id. What is of no use for the table has no entry once the first lists are there.
type objects[V any] map[string]object[V]

type object[V any] struct {
	version uint64
	void    bool // removed or of no use, while the first lists are under way: they may have an older one
	value   V
}

// removed is the version of an object that does not come back.
const removed = math.MaxUint64

// setObject takes an object unless a later one is known, and reports whether that changes the table.
func (o objects[V]) setObject(id string, next object[V], listed bool) bool {
	old, known := o[id]
	switch {
	case known && old.version > next.version:
		return false
	case next.void && listed:
		delete(o, id)
		return known
	}
	o[id] = next
	return !known || !reflect.DeepEqual(old.value, next.value)
}

func newSource(watch api.WatchClient, control api.ControlClient, publish func(*table.Table)) *source {
	return &source{
		watch: watch, control: control, publish: publish, known: func() {}, nodes: objects[nodeFacts]{},
		networks: objects[table.Network]{}, services: objects[table.Service]{}, tasks: objects[table.Task]{},
	}
}

// runSource publishes tables until ctx ends or the manager does.
func (s *source) runSource(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	all := api.WatchActionKindCreate | api.WatchActionKindUpdate | api.WatchActionKindRemove
	stream, err := s.watch.Watch(ctx, &api.WatchRequest{Entries: []*api.WatchRequest_WatchEntry{
		{Kind: "node", Action: all}, {Kind: "network", Action: all}, {Kind: "service", Action: all}, {Kind: "task", Action: all},
	}})
	if err != nil {
		return err
	}
	if _, err := stream.Recv(); err != nil { // says that nothing is missed from now on
		return fmt.Errorf("watch what the manager knows: %w", err)
	}
	wake := make(chan struct{}, 1)
	ended := make(chan error, 1)
	go func() { ended <- s.readEvents(stream, wake) }()
	if err := s.listObjects(ctx); err != nil {
		cancel()
		return errors.Join(err, <-ended)
	}
	s.known()
	wakeUp(wake)
	err = s.publishTables(ctx, wake, ended)
	cancel()
	return err
}

func wakeUp(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// publishTables publishes what has changed.
func (s *source) publishTables(ctx context.Context, wake <-chan struct{}, ended <-chan error) error {
	for {
		select {
		case <-wake:
		case err := <-ended:
			return err
		case <-ctx.Done():
			return errors.Join(ctx.Err(), <-ended)
		}
		if t := s.buildTable(); t != nil {
			s.publish(t)
		}
		select {
		case <-time.After(publishPause):
		case <-ctx.Done():
		}
	}
}

// readEvents follows the stream to its end.
func (s *source) readEvents(stream api.Watch_WatchClient, wake chan<- struct{}) error {
	for {
		message, err := stream.Recv()
		if err != nil {
			return err
		}
		s.mu.Lock()
		for _, e := range message.Events {
			s.noteObject(e.Object, e.Action == api.WatchActionKindRemove)
		}
		s.mu.Unlock()
		wakeUp(wake)
	}
}

// noteObject takes one object. s.mu is held.
func (s *source) noteObject(o *api.Object, gone bool) {
	switch {
	case o.GetNode() != nil:
		n := o.GetNode()
		node, routes := convertNode(n)
		noteIn(s, s.nodes, n.ID, n.Meta.Version.Index, nodeFacts{node, routes}, true, gone)
	case o.GetNetwork() != nil:
		n := o.GetNetwork()
		network, useful := convertNetwork(n)
		noteIn(s, s.networks, n.ID, n.Meta.Version.Index, network, useful, gone)
	case o.GetService() != nil:
		v := o.GetService()
		noteIn(s, s.services, v.ID, v.Meta.Version.Index, convertService(v), true, gone)
	case o.GetTask() != nil:
		t := o.GetTask()
		task, useful := convertTask(t)
		noteIn(s, s.tasks, t.ID, t.Meta.Version.Index, task, useful, gone)
	}
}

// noteIn puts one object into those of its kind. s.mu is held.
func noteIn[V any](s *source, to objects[V], id string, version uint64, value V, useful, gone bool) {
	s.version = max(s.version, version)
	next := object[V]{version: version, void: !useful || gone, value: value}
	if gone {
		next.version = removed
	}
	if to.setObject(id, next, s.listed) {
		s.changed = true
	}
}

// listObjects takes all objects there are. The managers' API asks the leader, which is never behind this manager.
func (s *source) listObjects(ctx context.Context) error {
	nodes, err := s.control.ListNodes(ctx, &api.ListNodesRequest{})
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	networks, err := s.control.ListNetworks(ctx, &api.ListNetworksRequest{})
	if err != nil {
		return fmt.Errorf("list networks: %w", err)
	}
	services, err := s.control.ListServices(ctx, &api.ListServicesRequest{})
	if err != nil {
		return fmt.Errorf("list services: %w", err)
	}
	tasks, err := s.control.ListTasks(ctx, &api.ListTasksRequest{})
	if err != nil {
		return fmt.Errorf("list tasks: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range nodes.Nodes {
		s.noteObject(&api.Object{Object: &api.Object_Node{Node: v}}, false)
	}
	for _, v := range networks.Networks {
		s.noteObject(&api.Object{Object: &api.Object_Network{Network: v}}, false)
	}
	for _, v := range services.Services {
		s.noteObject(&api.Object{Object: &api.Object_Service{Service: v}}, false)
	}
	for _, v := range tasks.Tasks {
		s.noteObject(&api.Object{Object: &api.Object_Task{Task: v}}, false)
	}
	s.listed, s.changed = true, true
	forgetVoid(s.nodes)
	forgetVoid(s.networks)
	forgetVoid(s.services)
	forgetVoid(s.tasks)
	return nil
}

func forgetVoid[V any](o objects[V]) {
	for id, v := range o {
		if v.void {
			delete(o, id)
		}
	}
}

// buildTable returns the table, nil if it is the last one.
func (s *source) buildTable() *table.Table {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.listed || !s.changed {
		return nil
	}
	s.changed = false
	return &table.Table{
		Version:  s.version,
		Nodes:    valuesOf(s.nodes, func(n nodeFacts) table.Node { return n.node }),
		Networks: valuesOf(s.networks, sameValue), Services: valuesOf(s.services, sameValue), Tasks: valuesOf(s.tasks, sameValue),
	}
}

func sameValue[V any](v V) V { return v }

func valuesOf[V, T any](o objects[V], convert func(V) T) map[string]T {
	values := make(map[string]T, len(o))
	for id, v := range o {
		values[id] = convert(v.value)
	}
	return values
}

// hasNode tells whether the swarm has a node.
func (s *source) hasNode(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.nodes[id]
	return ok
}

// listRoutes returns the routes of all nodes.
func (s *source) listRoutes() (routes []provider.Taken) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nodes {
		routes = append(routes, n.value.routes...)
	}
	return routes
}
