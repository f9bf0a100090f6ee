package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"moss/api/client"
	"moss/api/types"
)

// settle is how long the engine has after its first answer to start what its policies say.
const settle = time.Second

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// check compares what the engine says with what was acknowledged.
func (m *model) check(ctx context.Context, c *client.Client) (faults []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := &checker{ctx: ctx, c: c, saved: map[string]bool{}}
	waitFor(ctx, settle)
	known := map[string]bool{}
	for _, ctr := range m.containers {
		known[ctr.id] = true
		k.checkContainer(ctr)
	}
	k.checkVolumes(m.volumes)
	k.checkNetworks(m.networks)
	k.checkImages(m.images, m.over, m.syncs, m.pace)
	k.useContainers(known)
	return k.faults
}

type checker struct {
	ctx    context.Context //nolint:containedctx // of one check
	c      *client.Client
	saved  map[string]bool // images, by their ids
	faults []string
}

func (k *checker) addFault(format string, args ...any) {
	k.faults = append(k.faults, fmt.Sprintf(format, args...))
}

// about is what inspect says of a container.
type about struct {
	Name   string
	State  struct{ Status string }
	Config struct{ Labels map[string]string }

	HostConfig      struct{ RestartPolicy struct{ Name string } }
	NetworkSettings struct{ Networks map[string]json.RawMessage }
}

func (k *checker) checkContainer(ctr *ctr) {
	found, err := k.c.ContainerInspect(k.ctx, ctr.id, false)
	if err != nil {
		if !ctr.removing {
			k.addFault("container %s (%.12s) is lost: %v", &ctr.name, ctr.id, err)
		}
		return
	}
	if ctr.removing {
		return // there still, or again: whole, which is seen when it is used
	}
	var is about
	if err := json.Unmarshal(found.Raw, &is); err != nil {
		k.addFault("container %s: %v", &ctr.name, err)
		return
	}
	name := strings.TrimPrefix(is.Name, "/")
	if !ctr.name.allows(name) {
		k.addFault("container %.12s has the name %q, want %s", ctr.id, name, &ctr.name)
	}
	if got := is.HostConfig.RestartPolicy.Name; !ctr.policy.allows(got) {
		k.addFault("container %s has the restart policy %q, want %s", name, got, &ctr.policy)
	}
	if is.Config.Labels["made"] == "" {
		k.addFault("container %s has lost its labels", name)
	}
	for network, v := range ctr.joined {
		got := "no"
		if _, in := is.NetworkSettings.Networks[network]; in {
			got = "yes"
		}
		if !v.allows(got) {
			k.addFault("container %s in network %s: %q, want %s", name, network, got, v)
		}
	}
	status := is.State.Status
	switch {
	case !ctr.started && status != "created":
		k.addFault("container %s was never started and is %s", name, status)
	case ctr.stopped && !ctr.policy.busy && ctr.policy.now != "always" && (status == "running" || status == "restarting"):
		k.addFault("container %s (%s) was stopped by its user and is %s", name, ctr.policy.now, status)
	}
}

func (k *checker) checkVolumes(want map[string]bool) {
	list, _, err := k.c.Volumes(k.ctx, nil)
	if err != nil {
		k.addFault("volumes: %v", err)
	}
	there := map[string]*types.Volume{}
	for _, v := range list {
		there[v.Name] = v
		if _, asked := want[v.Name]; asked && strings.HasPrefix(v.Name, "v") && v.Labels["made"] != v.Name {
			k.addFault("volume %s has lost its labels", v.Name)
		}
	}
	for name, acked := range want {
		if _, ok := there[name]; acked && !ok {
			k.addFault("volume %s is lost", name)
		}
	}
}

func (k *checker) checkNetworks(want map[string]bool) {
	list, err := k.c.NetworkList(k.ctx, nil)
	if err != nil {
		k.addFault("networks: %v", err)
	}
	there := map[string]types.Network{}
	for _, n := range list {
		there[n.Name] = n
	}
	for name, acked := range want {
		if n, ok := there[name]; acked && (!ok || n.Labels["made"] != name) {
			k.addFault("network %s is lost: %v", name, n)
		}
	}
}

// useContainers starts and removes every container: none is half there.
func (k *checker) useContainers(known map[string]bool) {
	list, err := k.c.Containers(k.ctx, client.ContainersOptions{All: true})
	if err != nil {
		k.addFault("containers: %v", err)
	}
	for _, ctr := range list {
		err := k.c.ContainerStart(k.ctx, ctr.ID, "")
		if err != nil {
			k.addFault("container %v (acknowledged: %v) does not start: %v", ctr.Names, known[ctr.ID], err)
		}
		if err := k.c.ContainerRemove(k.ctx, ctr.ID, client.RemoveOptions{Force: true, Volumes: true}); err != nil {
			k.addFault("container %v is not removed: %v", ctr.Names, err)
		}
	}
}
