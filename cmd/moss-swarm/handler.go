package main

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	swarmapi "github.com/moby/swarmkit/v2/api"
	"github.com/rs/zerolog"

	"moss/api/apiver"
	"moss/api/route"
	"moss/api/swarmroute"
	"moss/engine/swarm/control"
	"moss/engine/swarm/member"
	"moss/engine/swarm/status"
)

// newHandler returns what the socket answers: the endpoints of the swarm, and those of the engine alone. closeNode ends all that
// writes into the node's folder.
func newHandler(node *member.Member, tasks control.Local, end *ending, closeNode func(), log zerolog.Logger) http.Handler {
	verbs := control.New(control.Options{Member: node, Networks: node.Networks(), Local: tasks, Log: log})
	api := route.New(append(swarmroute.Routes(verbs), swarmroute.NetworkRoutes(verbs)...), route.Options{
		Version: version, Serve: apiver.Range{Since: apiver.Min, Until: apiver.Max}, Log: log,
	})
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+status.NodePath, func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(describeNode(r.Context(), node))
	})
	mux.HandleFunc("GET "+status.WatchPath, func(w http.ResponseWriter, r *http.Request) {
		if http.NewResponseController(w).Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
		case <-end.done:
		}
	})
	mux.HandleFunc("POST "+status.EndPath, func(w http.ResponseWriter, _ *http.Request) {
		if http.NewResponseController(w).Flush() != nil {
			return
		}
		closeNode() // whoever is answered may remove the folder
		end.now()
	})
	mux.Handle("/", api)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !end.enter() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		defer end.leave()
		mux.ServeHTTP(w, r)
	})
}

// clusterLimit bounds the question for the number of nodes, which a swarm without a leader does not answer.
const clusterLimit = time.Second

// describeNode tells the engine where the node stands.
func describeNode(ctx context.Context, m *member.Member) status.Node {
	s := m.Status()
	node := status.Node{
		ID: s.NodeID, Addr: s.NodeAddr, State: string(s.State), Error: s.Error, ControlAvailable: s.ControlAvailable,
	}
	for _, p := range s.Managers {
		node.Managers = append(node.Managers, status.Manager{NodeID: p.NodeID, Addr: p.Addr})
	}
	if !s.ControlAvailable {
		return node
	}
	ctx, cancel := context.WithTimeout(ctx, clusterLimit)
	defer cancel()
	if control, err := m.Control(); err == nil {
		node.Cluster = countNodes(ctx, control)
	}
	return node
}

// countNodes returns nil if the swarm has no leader.
func countNodes(ctx context.Context, control swarmapi.ControlClient) *status.Cluster {
	clusters, err := control.ListClusters(ctx, &swarmapi.ListClustersRequest{})
	if err != nil || len(clusters.Clusters) != 1 {
		return nil
	}
	nodes, err := control.ListNodes(ctx, &swarmapi.ListNodesRequest{})
	if err != nil {
		return nil
	}
	cluster := &status.Cluster{ID: clusters.Clusters[0].ID, Nodes: len(nodes.Nodes)}
	for _, n := range nodes.Nodes {
		if n.ManagerStatus != nil {
			cluster.Managers++
		}
	}
	return cluster
}
