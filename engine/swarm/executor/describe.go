package executor

import (
	"context"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/moby/swarmkit/v2/api"

	"moss/api/types"
)

// describeLimit bounds how long Describe waits for the engine: SwarmKit does nothing else meanwhile.
const describeLimit = 5 * time.Second

// Describe returns what the engine says of this node: its name, platform, resources (nanoseconds of processor time per second,
// and bytes), version, labels and plugins. Resources are those of the machine, or less where cgroups bound them; see the
// package's comment. An engine that is away is described as it was last. At the first time its answer is waited for; when it does
// not come the node is described without resources, and SwarmKit asks again every 20 s. The error is always nil.
func (x *Executor) Describe(ctx context.Context) (*api.NodeDescription, error) {
	x.mu.Lock()
	last := x.described.Copy()
	x.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, describeLimit)
	defer cancel()
	persist := x.engine.awaitEngine
	if last != nil {
		persist = tryOnce
	}
	var info types.Info
	err := persist(ctx, func(ctx context.Context) error {
		raw, err := x.engine.client.Info(ctx)
		return decodeRecord(raw, err, &info)
	})
	switch {
	case err == nil:
		last = x.newDescription(&info)
		x.mu.Lock()
		x.described = last.Copy()
		x.mu.Unlock()
	case last == nil:
		x.opt.Log.Warn().Err(err).Msg("the engine does not describe this node")
		last = &api.NodeDescription{
			Platform: &api.Platform{Architecture: runtime.GOARCH, OS: runtime.GOOS}, Resources: &api.Resources{},
			Engine: &api.EngineDescription{},
		}
		last.Hostname, _ = os.Hostname()
	}
	return last, nil // SwarmKit cannot do with an error: a session without a description fails
}

func (x *Executor) newDescription(info *types.Info) *api.NodeDescription {
	bounds := readBounds(x.opt.CgroupRoot, x.opt.CgroupSelf)
	resources := &api.Resources{NanoCPUs: int64(info.NCPU) * 1e9, MemoryBytes: info.MemTotal}
	if bounds.nanoCPUs > 0 {
		resources.NanoCPUs = min(resources.NanoCPUs, bounds.nanoCPUs)
	}
	if bounds.memory > 0 {
		resources.MemoryBytes = min(resources.MemoryBytes, bounds.memory)
	}
	engine := &api.EngineDescription{EngineVersion: info.ServerVersion, Labels: map[string]string{}}
	for _, label := range info.Labels {
		key, value, _ := strings.Cut(label, "=")
		engine.Labels[key] = value
	}
	networks := info.Plugins.Network
	if x.opt.Networks != nil {
		networks = append(slices.Clone(networks), overlayDriver) // without it no task with a network comes to this node
	}
	for _, kind := range []struct {
		name  string
		names []string
	}{{"Log", info.Plugins.Log}, {"Network", networks}, {"Volume", info.Plugins.Volume}} {
		for _, name := range slices.Sorted(slices.Values(kind.names)) { // SwarmKit takes another order for a change
			engine.Plugins = append(engine.Plugins, api.PluginDescription{Type: kind.name, Name: name})
		}
	}
	return &api.NodeDescription{
		Hostname: info.Name, Platform: &api.Platform{Architecture: info.Architecture, OS: info.OSType}, Resources: resources,
		Engine: engine,
	}
}
