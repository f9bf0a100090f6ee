package object

import (
	"math"
	"net/url"
	"time"

	gogotypes "github.com/gogo/protobuf/types"
	"github.com/moby/swarmkit/v2/api"

	"moss/api/types"
)

// swarmName is the one name that SwarmKit has for a swarm.
const swarmName = "default"

const (
	// minCertExpiry is the shortest life of a node's certificate. SwarmKit refuses less.
	minCertExpiry = time.Hour
	// minHeartbeat keeps nodes from reporting without a pause: the field counts nanoseconds.
	minHeartbeat = 100 * time.Millisecond
)

var caProtocols = []option[api.ExternalCA_CAProtocol]{ //nolint:gochecknoglobals // a constant
	{"cfssl", api.ExternalCA_CAProtocolCFSSL},
}

// ChangeSwarm puts what a client asks for into the specification of a swarm. What is nil, 0 or empty is left as it is, but for
// EncryptionConfig. Errors are fault.Invalid and name the field; the specification may have changed then.
func ChangeSwarm(spec *api.ClusterSpec, asked *types.SwarmSpec) error {
	if asked.Name != "" && asked.Name != swarmName {
		return refuseField("Name", "%q: a swarm's name is %q", asked.Name, swarmName)
	}
	spec.Annotations.Name = swarmName
	if err := checkKeys(asked.Labels); err != nil {
		return refuseField("Labels", "%v", err)
	}
	if asked.Labels != nil {
		spec.Annotations.Labels = asked.Labels
	}
	if limit := asked.Orchestration.TaskHistoryRetentionLimit; limit != nil {
		spec.Orchestration.TaskHistoryRetentionLimit = *limit
	}
	if err := changeRaft(&spec.Raft, &asked.Raft); err != nil {
		return err
	}
	if period := asked.Dispatcher.HeartbeatPeriod; period != 0 {
		if period < minHeartbeat {
			return refuseField("Dispatcher.HeartbeatPeriod", "%s is less than %s; the number counts nanoseconds", period, minHeartbeat)
		}
		spec.Dispatcher.HeartbeatPeriod = gogotypes.DurationProto(period)
	}
	if err := changeCA(&spec.CAConfig, &asked.CAConfig); err != nil {
		return err
	}
	if driver := asked.TaskDefaults.LogDriver; driver != nil {
		var err error
		if spec.TaskDefaults.LogDriver, err = toLogDriver("TaskDefaults.LogDriver", driver); err != nil {
			return err
		}
		if driver.Name == "" && len(driver.Options) == 0 {
			spec.TaskDefaults.LogDriver = nil // each node's own default again
		}
	}
	spec.EncryptionConfig.AutoLockManagers = asked.EncryptionConfig.AutoLockManagers
	return nil
}

func changeRaft(spec *api.RaftConfig, asked *types.SwarmRaft) error {
	if asked.SnapshotInterval != 0 {
		spec.SnapshotInterval = asked.SnapshotInterval
	}
	if asked.KeepOldSnapshots != nil {
		spec.KeepOldSnapshots = *asked.KeepOldSnapshots
	}
	if asked.LogEntriesForSlowFollowers != 0 {
		spec.LogEntriesForSlowFollowers = asked.LogEntriesForSlowFollowers
	}
	for _, ticks := range []struct {
		field string
		asked int
		into  *uint32
	}{
		{"Raft.HeartbeatTick", asked.HeartbeatTick, &spec.HeartbeatTick},
		{"Raft.ElectionTick", asked.ElectionTick, &spec.ElectionTick},
	} {
		if ticks.asked < 0 || ticks.asked > math.MaxInt32 {
			return refuseField(ticks.field, "%d is not from 1 to %d", ticks.asked, math.MaxInt32)
		}
		if ticks.asked != 0 {
			*ticks.into = uint32(ticks.asked)
		}
	}
	if spec.ElectionTick <= spec.HeartbeatTick && (asked.ElectionTick != 0 || asked.HeartbeatTick != 0) {
		return refuseField("Raft.ElectionTick", "%d is not more than HeartbeatTick, %d", spec.ElectionTick, spec.HeartbeatTick)
	}
	return nil
}

func changeCA(spec *api.CAConfig, asked *types.SwarmCA) error {
	if expiry := asked.NodeCertExpiry; expiry != 0 {
		if expiry < minCertExpiry {
			return refuseField("CAConfig.NodeCertExpiry", "minimum certificate expiry time is: %s, got %s", minCertExpiry, expiry)
		}
		spec.NodeCertExpiry = gogotypes.DurationProto(expiry)
	}
	if asked.ExternalCAs == nil {
		return nil
	}
	authorities := make([]*api.ExternalCA, 0, len(asked.ExternalCAs))
	for i := range asked.ExternalCAs {
		one, field := &asked.ExternalCAs[i], indexField("CAConfig.ExternalCAs", i)
		protocol, err := toOption(field+".Protocol", one.Protocol, caProtocols)
		if err != nil {
			return err
		}
		if at, err := url.Parse(one.URL); err != nil || at.Scheme != "https" || at.Host == "" {
			return refuseField(field+".URL", "%q is not an address that begins with https://", one.URL)
		}
		authorities = append(authorities, &api.ExternalCA{Protocol: protocol, URL: one.URL, Options: one.Options})
	}
	spec.ExternalCAs = authorities
	return nil
}

// NewSwarm returns the swarm as clients see it, with its join tokens.
func NewSwarm(c *api.Cluster) *types.Swarm {
	return &types.Swarm{
		ID: c.ID, ObjectMeta: newMeta(&c.Meta), Spec: newSwarmSpec(&c.Spec),
		JoinTokens: types.SwarmTokens{Worker: c.RootCA.JoinTokens.Worker, Manager: c.RootCA.JoinTokens.Manager},
	}
}

func newSwarmSpec(s *api.ClusterSpec) types.SwarmSpec {
	return types.SwarmSpec{
		Annotations:   newAnnotations(&s.Annotations),
		Orchestration: types.SwarmOrchestration{TaskHistoryRetentionLimit: &s.Orchestration.TaskHistoryRetentionLimit},
		Raft: types.SwarmRaft{
			SnapshotInterval: s.Raft.SnapshotInterval, KeepOldSnapshots: &s.Raft.KeepOldSnapshots,
			LogEntriesForSlowFollowers: s.Raft.LogEntriesForSlowFollowers,
			HeartbeatTick:              int(s.Raft.HeartbeatTick), ElectionTick: int(s.Raft.ElectionTick),
		},
		Dispatcher: types.SwarmDispatcher{HeartbeatPeriod: lengthOf(s.Dispatcher.HeartbeatPeriod)},
		CAConfig: types.SwarmCA{
			NodeCertExpiry: lengthOf(s.CAConfig.NodeCertExpiry),
			ExternalCAs: convertList(s.CAConfig.ExternalCAs, func(c **api.ExternalCA) types.SwarmExternalCA {
				return types.SwarmExternalCA{Protocol: newOption((*c).Protocol, caProtocols), URL: (*c).URL, Options: (*c).Options}
			}),
		},
		TaskDefaults:     types.SwarmTaskDefaults{LogDriver: newLogDriver(s.TaskDefaults.LogDriver)},
		EncryptionConfig: types.SwarmEncryption{AutoLockManagers: s.EncryptionConfig.AutoLockManagers},
	}
}
