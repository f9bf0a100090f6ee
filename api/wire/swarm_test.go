package wire_test

import (
	"testing"

	"moss/api/apiver"
	"moss/api/types"
)

// TestGoldenSwarm compares every record of the swarm, whole, at the version that has them.
func TestGoldenSwarm(t *testing.T) {
	version := apiver.New(1, 24)
	for name, value := range map[string]any{
		"swarm": filled[types.Swarm](), "swarm-minimal": types.Swarm{}, "swarm-unlock-key": filled[types.SwarmUnlockKey](),
		"node": filled[types.Node](), "node-minimal": types.Node{},
		"service": filled[types.Service](), "service-minimal": types.Service{}, "service-created": filled[types.ServiceCreated](),
		"task": filled[types.Task](), "task-minimal": types.Task{},
	} {
		golden(t, name, version, value)
	}
}

// TestGoldenSwarmBodies reads bodies with every field that there is.
func TestGoldenSwarmBodies(t *testing.T) {
	version := apiver.New(1, 24)
	var init types.SwarmInit
	decodeFilled(t, version, filled[types.SwarmInit](), &init)
	golden(t, "swarm-init", version, init)
	var join types.SwarmJoin
	decodeFilled(t, version, filled[types.SwarmJoin](), &join)
	golden(t, "swarm-join", version, join)
	var spec types.SwarmSpec
	decodeFilled(t, version, filled[types.SwarmSpec](), &spec)
	golden(t, "swarm-spec", version, spec)
	var unlock types.SwarmUnlock
	decodeFilled(t, version, filled[types.SwarmUnlock](), &unlock)
	golden(t, "swarm-unlock", version, unlock)
	var node types.NodeSpec
	decodeFilled(t, version, filled[types.NodeSpec](), &node)
	golden(t, "node-spec", version, node)
	var service types.ServiceSpec
	decodeFilled(t, version, filled[types.ServiceSpec](), &service)
	golden(t, "service-spec", version, service)
}
