package control

import (
	"context"
	"net/http"

	"github.com/moby/swarmkit/v2/api"
	"github.com/moby/swarmkit/v2/manager/encryption"
	"github.com/moby/swarmkit/v2/manager/state/raft"

	"moss/api/route"
	"moss/api/types"
	"moss/engine/fault"
	"moss/engine/swarm/member"
	"moss/engine/swarm/object"
)

func (s *server) initSwarm(c *route.Call) error {
	body := &types.SwarmInit{}
	if err := decodeBody(c, body); err != nil {
		return err
	}
	availability, err := object.ToAvailability("Availability", body.Availability)
	if err != nil {
		return err
	}
	locks := &body.Spec.EncryptionConfig.AutoLockManagers
	*locks = *locks || body.AutoLockManagers
	change := func(spec *api.ClusterSpec) error {
		if err := object.ChangeSwarm(spec, &body.Spec); err != nil {
			return fault.Invalid("Spec.%w", err)
		}
		return nil
	}
	// A wrong field is found before there is anything of a swarm.
	if err := change(&api.ClusterSpec{Raft: raft.DefaultRaftConfig()}); err != nil {
		return err
	}
	id, err := s.member.Init(c.Ctx(), member.InitOptions{
		ListenAddr: body.ListenAddr, AdvertiseAddr: body.AdvertiseAddr, DataPathAddr: body.DataPathAddr,
		ForceNewCluster: body.ForceNewCluster, AutoLock: *locks, Availability: availability, Change: change,
	})
	if err != nil {
		return err
	}
	return replyJSON(c, http.StatusOK, id)
}

func (s *server) joinSwarm(c *route.Call) error {
	body := &types.SwarmJoin{}
	if err := decodeBody(c, body); err != nil {
		return err
	}
	availability, err := object.ToAvailability("Availability", body.Availability)
	if err != nil {
		return err
	}
	if len(body.RemoteAddrs) == 0 {
		return fault.Invalid("RemoteAddrs: at least 1 RemoteAddr is required to join")
	}
	if body.JoinToken == "" {
		return fault.Invalid("JoinToken: want the token that a manager shows")
	}
	return c.Empty(s.member.Join(c.Ctx(), member.JoinOptions{
		ListenAddr: body.ListenAddr, AdvertiseAddr: body.AdvertiseAddr, DataPathAddr: body.DataPathAddr,
		RemoteAddrs: body.RemoteAddrs, Token: body.JoinToken, Availability: availability,
	}))
}

func (s *server) leaveSwarm(c *route.Call) error {
	return c.Empty(s.member.Leave(c.Ctx(), c.Bool("force")))
}

func (s *server) unlockSwarm(c *route.Call) error {
	body := &types.SwarmUnlock{}
	if err := decodeBody(c, body); err != nil {
		return err
	}
	if body.UnlockKey == "" {
		return fault.Invalid("UnlockKey: want the key that a manager shows")
	}
	return c.Empty(s.member.Unlock(c.Ctx(), body.UnlockKey))
}

func (s *server) inspectSwarm(c *route.Call) error {
	cluster, err := askManagers(s, c, findCluster)
	if err != nil {
		return err
	}
	return replyJSON(c, http.StatusOK, object.NewSwarm(cluster))
}

func (s *server) updateSwarm(c *route.Call) error {
	_, err := askManagers(s, c, func(ctx context.Context, managers api.ControlClient) (*api.UpdateClusterResponse, error) {
		version, err := readVersion(c)
		if err != nil {
			return nil, err
		}
		body := &types.SwarmSpec{}
		if err := decodeBody(c, body); err != nil {
			return nil, err
		}
		cluster, err := findCluster(ctx, managers)
		if err != nil {
			return nil, err
		}
		spec := cluster.Spec.Copy()
		if err := object.ChangeSwarm(spec, body); err != nil {
			return nil, err
		}
		if err := checkSize(spec.Size()); err != nil {
			return nil, err
		}
		return managers.UpdateCluster(ctx, &api.UpdateClusterRequest{
			ClusterID: cluster.ID, ClusterVersion: version, Spec: spec,
			Rotation: api.KeyRotation{
				WorkerJoinToken: c.Bool("rotateWorkerToken"), ManagerJoinToken: c.Bool("rotateManagerToken"),
				ManagerUnlockKey: c.Bool("rotateManagerUnlockKey"),
			},
		})
	})
	if err == nil {
		s.log.Info().Msg("swarm updated")
	}
	return c.Empty(err)
}

func (s *server) showUnlockKey(c *route.Call) error {
	key, err := askManagers(s, c, func(ctx context.Context, _ api.ControlClient) (string, error) {
		authority, err := s.member.CA()
		if err != nil {
			return "", err
		}
		answer, err := authority.GetUnlockKey(ctx, &api.GetUnlockKeyRequest{})
		if err != nil || len(answer.UnlockKey) == 0 {
			return "", err
		}
		return encryption.HumanReadableKey(answer.UnlockKey), nil
	})
	if err != nil {
		return err
	}
	return replyJSON(c, http.StatusOK, &types.SwarmUnlockKey{UnlockKey: key})
}
