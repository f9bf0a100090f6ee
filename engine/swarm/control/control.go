// Package control answers the endpoints of the swarm, nodes, services, tasks and the swarm's networks with what SwarmKit's
// managers say. It reads a request, asks by SwarmKit's control API, and turns the answer into the API's records; package object
// converts. It knows neither containers nor how this node came into its swarm, which is the Member's.
package control

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/moby/swarmkit/v2/api"
	"github.com/rs/zerolog"

	"moss/api/route"
	"moss/api/swarmroute"
	"moss/api/wire"
	"moss/engine/fault"
	"moss/engine/swarm/member"
)

// Member is this node's part in a swarm. Its errors have a kind: fault.NotAcceptable where the node is not what a call needs.
type Member interface {
	Init(ctx context.Context, opt member.InitOptions) (nodeID string, err error)
	Join(ctx context.Context, opt member.JoinOptions) error
	Leave(ctx context.Context, force bool) error
	Unlock(ctx context.Context, key string) error
	// Control returns the managers' API, for a node that is a manager.
	Control() (api.ControlClient, error)
	// CA returns the managers' certificate authority, for a node that is a manager.
	CA() (api.CAClient, error)
}

// Options are what the endpoints work with.
type Options struct {
	Member   Member   // required
	Networks Networks // required
	Local    Local    // required
	Log      zerolog.Logger
}

// New returns the functions of all endpoints. Their errors have a kind: fault.NotAcceptable on a node that is no manager, and
// fault.Unavailable within callLimit if the swarm has no leader.
func New(opt Options) *swarmroute.Verbs {
	s := &server{member: opt.Member, networks: opt.Networks, local: opt.Local, log: opt.Log}
	return &swarmroute.Verbs{
		SwarmInit: s.initSwarm, SwarmJoin: s.joinSwarm, SwarmLeave: s.leaveSwarm, SwarmInspect: s.inspectSwarm,
		SwarmUpdate: s.updateSwarm, SwarmUnlock: s.unlockSwarm, SwarmUnlockKey: s.showUnlockKey,
		NodeList: s.listNodes, NodeInspect: s.inspectNode, NodeUpdate: s.updateNode, NodeRemove: s.removeNode,
		ServiceList: s.listServices, ServiceCreate: s.createService, ServiceInspect: s.inspectService,
		ServiceUpdate: s.updateService, ServiceRemove: s.removeService,
		TaskList: s.listTasks, TaskInspect: s.inspectTask,
		NetworkList: s.listNetworks, NetworkCreate: s.createNetwork, NetworkRemove: s.removeNetwork,
		Secrets: s.absentObjects("secret"), Configs: s.absentObjects("config"), Logs: s.refuseLogs,
	}
}

// server answers the endpoints.
type server struct {
	member   Member
	networks Networks
	local    Local
	log      zerolog.Logger
	making   sync.Mutex // held while a network is made
}

// callLimit bounds what the managers are asked for one request. Without a leader SwarmKit would wait for one.
const callLimit = 20 * time.Second

// askManagers calls do with the managers' API, in bounded time. Its errors, and those of do, have a kind.
func askManagers[T any](
	s *server, c *route.Call, do func(ctx context.Context, managers api.ControlClient) (T, error),
) (answer T, err error) {
	managers, err := s.member.Control()
	if err != nil {
		return answer, err
	}
	ctx, cancel := context.WithTimeout(c.Ctx(), callLimit)
	defer cancel()
	if answer, err = do(ctx, managers); err != nil {
		return answer, explainError(c.Ctx(), ctx, err)
	}
	return answer, nil
}

// replyJSON answers with v in the form of the call's version.
func replyJSON(c *route.Call, status int, v any) error {
	body, err := wire.Encode(v, c.Version())
	if err != nil {
		return err
	}
	return c.JSON(status, body)
}

// replyList answers with a list.
func replyList[From, To any](c *route.Call, list []From, convert func(From) To) error {
	shown := make([]To, len(list))
	for i, one := range list {
		shown[i] = convert(one)
	}
	return replyJSON(c, http.StatusOK, shown)
}

// decodeBody reads the call's JSON body, which must be there. A field of later versions that has a value is fault.Invalid: a
// service without what was asked for is another one.
func decodeBody(c *route.Call, into any) error {
	raw, err := c.JSONBody()
	if err != nil {
		return err
	}
	if len(raw) == 0 {
		return fault.Invalid("the body is missing: want a JSON object")
	}
	warnings, err := wire.DecodeWarn(raw, into, c.Version())
	if err == nil && len(warnings) > 0 {
		return fault.Invalid("%s", warnings[0])
	}
	return err
}
