package main

import (
	"context"
	"fmt"
	"maps"
	"os"

	"github.com/moby/swarmkit/v2/api"

	"moss/engine/swarm/executor"
	"moss/engine/swarm/mesh"
)

// labelled is an executor that tells managers of this node's tunnel as well.
type labelled struct {
	*executor.Executor

	networks *mesh.Mesh
}

// Describe returns the description of the node. Its error is that of the executor.
func (l labelled) Describe(ctx context.Context) (*api.NodeDescription, error) {
	node, err := l.Executor.Describe(ctx)
	if err != nil || node.Engine == nil {
		return node, err
	}
	labels := l.networks.Labels(ctx)
	maps.Copy(labels, withoutOwn(node.Engine.Labels))
	node.Engine.Labels = labels
	return node, nil
}

// withoutOwn returns the labels that a person gave the engine.
func withoutOwn(labels map[string]string) map[string]string {
	labels = maps.Clone(labels)
	maps.DeleteFunc(labels, func(key, _ string) bool { return mesh.IsOwnLabel(key) })
	return labels
}

// holdNetNS opens the network namespace at a path, nil without one. The engine's own path goes with the engine; pathOf the file
// is good until the caller closes it.
func holdNetNS(path string) (*os.File, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // none is no error
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("hold the containers' network namespace: %w", err)
	}
	return file, nil
}

// pathOf returns the path of an open file, empty for nil.
func pathOf(file *os.File) string {
	if file == nil {
		return ""
	}
	return fmt.Sprintf("/proc/self/fd/%d", file.Fd())
}
