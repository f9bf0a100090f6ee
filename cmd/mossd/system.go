package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"

	"moss/engine/config"
	"moss/engine/damage"
	"moss/engine/fault"
	"moss/engine/id"
	"moss/engine/image"
	"moss/engine/logdriver"
	"moss/engine/record"
	swarmstatus "moss/engine/swarm/status"
	"moss/engine/system"
	"moss/engine/volume"
	"moss/imagesvc"
	"moss/rootless"
	"moss/slirp/ipam"
)

// newSystem gathers what the engine says about itself.
func newSystem(
	cfg config.Config, facts rootless.Facts, p *parts, images *imagesvc.Service, runtime ociRuntime, answer asked,
) (*system.Service, error) {
	status, err := p.store.Status()
	if err != nil {
		return nil, err
	}
	known := p.registries.Config()
	security := []string{"name=seccomp,profile=builtin", "name=rootless", "name=cgroupns"}
	number, warnings := answer.describeVersion(runtime)
	warnings = append(warnings, limitWarnings(facts, runtime)...)
	warnings = append(warnings, p.store.Warnings()...)
	if facts.SingleID {
		warnings = append(warnings, "No subordinate ids: running with a single id ("+facts.SingleIDReason+")")
	}
	if emulatesIDs(cfg, facts) {
		warnings = append(warnings, "Other ids are emulated in containers: chown, setgroups, setuid and the like succeed without "+
			"effect (emulate-ids)")
	}
	if uids, gids := fewIDs("/proc/self/uid_map", "/proc/self/gid_map"); uids > 0 {
		warnings = append(warnings, "WARNING: "+fewWarning(uids, gids))
	}
	if facts.Uplink.Driver == config.NetworkNone && facts.Uplink.Reason != "" {
		warnings = append(warnings, "WARNING: "+noWayOut(facts.Uplink.Reason))
	}
	return system.New(system.Facts{
		ID: p.identity, Version: version, GitCommit: commit, BuildTime: builtAt(), DataRoot: facts.Root, Labels: cfg.Labels,
		StorageDriver: p.store.Driver(), StorageStatus: status, Cgroup: cgroupFacts(facts.Cgroups, runtime),
		Runtimes:       map[string]system.Runtime{runtime.name: {Path: runtime.call.Path, Version: number}},
		DefaultRuntime: runtime.name, LogDriver: logDefaults(cfg).Type, Uplink: cfg.NetworkDriver,
		SingleID: facts.SingleID, SecurityOptions: security,
		Plugins: system.Plugins{
			Volume: []string{volume.DriverLocal}, Network: []string{"bridge", "host", "null"}, Log: logdriver.Names(),
		},
		InsecureCIDRs: known.InsecureCIDRs, IndexServer: known.IndexServer,
		HTTPProxy: proxySetting("HTTP_PROXY"), HTTPSProxy: proxySetting("HTTPS_PROXY"), NoProxy: proxySetting("NO_PROXY"),
		AddressPools: addressPools(), InitBinary: "moss-shim", DeviceDirs: p.devices.Dirs(),
		Warnings: warnings, Debug: cfg.LogLevel == "debug",
	}, system.Counters{
		Containers: func(context.Context) (system.Counts, error) {
			_, running, paused, stopped := p.containers.Inventory().Counts()
			return system.Counts{Running: running, Paused: paused, Stopped: stopped}, nil
		},
		Images: func(ctx context.Context) (int, error) {
			list, err := images.List(ctx, image.ListOptions{All: true})
			return len(list), err
		},
		Listeners:  p.bus.Listeners,
		Damaged:    func() []string { return damageShown(p.damage) },
		Devices:    p.devices.Names,
		Registries: func() []system.Registry { return registryFacts(p.registries.Config()) },
		Swarm:      func(ctx context.Context) swarmstatus.Node { return p.swarm.Node(ctx) }, // made after this
		InNetwork:  p.network.Inside,
	})
}

// addressPools are those of new networks.
func addressPools() []system.AddressPool {
	sources := ipam.DefaultSources()
	pools := make([]system.AddressPool, 0, len(sources))
	for _, p := range sources {
		pools = append(pools, system.AddressPool{Base: p.Base.String(), Size: p.Size})
	}
	return pools
}

// maxDamageShown bounds what info shows of damaged files; the folder has them all.
const maxDamageShown = 200

// damageShown describes what is damaged, a line each.
func damageShown(account *damage.Account) []string {
	found, err := account.All()
	var lines []string
	for _, f := range found {
		if len(lines) == maxDamageShown {
			lines = append(lines, fmt.Sprintf("damaged: and %d more", len(found)-maxDamageShown))
			break
		}
		lines = append(lines, f.String())
	}
	if err != nil {
		lines = append(lines, "damaged: "+err.Error())
	}
	return lines
}

// identity is what makes one data folder recognisable.
type engineIdentity struct {
	ID     string
	Format int // of the data folder
}

// identityName is the file in the data folder that holds it.
const identityName = "engine.json"

// dataFormat is the layout of the data folder that this engine writes. A newer one is refused rather than misread.
const dataFormat = 1

// ensureIdentity returns the id of the data folder, which is made with it. A folder whose file is damaged gets another one:
// nothing but what clients see depends on it.
func ensureIdentity(root string, account *damage.Account) (string, error) {
	path := filepath.Join(root, identityName)
	var known engineIdentity
	err := record.Get(path, &known)
	switch {
	case err == nil && known.Format > dataFormat:
		return "", fault.Conflict("%s was written by a newer moss (format %d, this one knows %d)", root, known.Format, dataFormat)
	case err == nil && id.Is(known.ID):
		return known.ID, nil
	case err == nil:
		err = errors.New("it holds no id")
	case fault.Is(err, fault.NotFound):
		err = nil
	}
	if err != nil {
		if err := account.SetAside(path, err); err != nil {
			return "", err
		}
	}
	known = engineIdentity{ID: id.New(), Format: dataFormat}
	return known.ID, record.Put(path, known)
}

// builtAt returns when the program was built, as the build said, or when its commit was made; empty where neither is known.
func builtAt() string {
	if buildTime != "" {
		return buildTime
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.time" {
			return s.Value
		}
	}
	return ""
}
