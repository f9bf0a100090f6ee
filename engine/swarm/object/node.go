package object

import (
	"maps"
	"strings"

	"github.com/moby/swarmkit/v2/api"

	"moss/api/types"
)

var availabilities = []option[api.NodeSpec_Availability]{ //nolint:gochecknoglobals // a constant
	{"active", api.NodeAvailabilityActive},
	{"pause", api.NodeAvailabilityPause},
	{"drain", api.NodeAvailabilityDrain},
}

var roles = []option[api.NodeRole]{ //nolint:gochecknoglobals // a constant
	{"worker", api.NodeRoleWorker},
	{"manager", api.NodeRoleManager},
}

var memberships = []option[api.NodeSpec_Membership]{ //nolint:gochecknoglobals // a constant
	{"accepted", api.NodeMembershipAccepted},
	{"pending", api.NodeMembershipPending},
}

var nodeStates = []option[api.NodeStatus_State]{ //nolint:gochecknoglobals // a constant
	{"unknown", api.NodeStatus_UNKNOWN},
	{"down", api.NodeStatus_DOWN},
	{"ready", api.NodeStatus_READY},
	{"disconnected", api.NodeStatus_DISCONNECTED},
}

var reachabilities = []option[api.RaftMemberStatus_Reachability]{ //nolint:gochecknoglobals // a constant
	{"unknown", api.RaftMemberStatus_UNKNOWN},
	{"unreachable", api.RaftMemberStatus_UNREACHABLE},
	{"reachable", api.RaftMemberStatus_REACHABLE},
}

// ToAvailability reads active, pause or drain in any case; empty is active.
func ToAvailability(field, text string) (api.NodeSpec_Availability, error) {
	return toOption(field, text, availabilities)
}

// ToRole reads worker or manager in any case; empty is worker.
func ToRole(field, text string) (api.NodeRole, error) { return toOption(field, text, roles) }

// ToMembership reads accepted or pending in any case; empty is accepted.
func ToMembership(field, text string) (api.NodeSpec_Membership, error) {
	return toOption(field, text, memberships)
}

// ChangeNode puts what a client asks for into the specification of a node. Role and Availability must be given, as nothing
// says what a client means that leaves them out. Errors are fault.Invalid and name the field; the specification may have
// changed then.
func ChangeNode(spec *api.NodeSpec, asked *types.NodeSpec) (err error) {
	if asked.Role == "" {
		return refuseField("Role", "want worker or manager")
	}
	if spec.DesiredRole, err = ToRole("Role", asked.Role); err != nil {
		return err
	}
	if asked.Availability == "" {
		return refuseField("Availability", "want active, pause or drain")
	}
	if spec.Availability, err = ToAvailability("Availability", asked.Availability); err != nil {
		return err
	}
	if err := checkKeys(asked.Labels); err != nil {
		return refuseField("Labels", "%v", err)
	}
	spec.Annotations.Name, spec.Annotations.Labels = asked.Name, asked.Labels
	return nil
}

// NewNode returns a node as clients see it.
func NewNode(n *api.Node) *types.Node {
	node := &types.Node{
		ID: n.ID, ObjectMeta: newMeta(&n.Meta),
		Spec: types.NodeSpec{
			Annotations: newAnnotations(&n.Spec.Annotations), Role: newOption(n.Spec.DesiredRole, roles),
			Availability: newOption(n.Spec.Availability, availabilities),
		},
		Description: newDescription(n.Description),
		Status: types.NodeStatus{
			State: newOption(n.Status.State, nodeStates), Message: n.Status.Message, Addr: n.Status.Addr,
		},
	}
	if m := n.ManagerStatus; m != nil {
		node.ManagerStatus = &types.NodeManagerStatus{
			Leader: m.Leader, Reachability: newOption(m.Reachability, reachabilities), Addr: m.Addr,
		}
	}
	return node
}

// hiddenLabels begins the labels by which nodes tell each other of their networks.
const hiddenLabels = "moss."

// EngineLabels returns the labels that a node's engine was started with; nil if the node has told of none.
func EngineLabels(d *api.NodeDescription) map[string]string {
	if d == nil || d.Engine == nil {
		return nil
	}
	isHidden := func(key, _ string) bool { return strings.HasPrefix(key, hiddenLabels) }
	labels := maps.Clone(d.Engine.Labels)
	maps.DeleteFunc(labels, isHidden)
	return labels
}

func newDescription(d *api.NodeDescription) types.NodeDescription {
	if d == nil {
		return types.NodeDescription{}
	}
	description := types.NodeDescription{Hostname: d.Hostname}
	if d.Platform != nil {
		description.Platform = types.NodePlatform{Architecture: d.Platform.Architecture, OS: d.Platform.OS}
	}
	if r := newResources(d.Resources); r != nil {
		description.Resources = *r
	}
	if e := d.Engine; e != nil {
		description.Engine = types.NodeEngine{
			EngineVersion: e.EngineVersion, Labels: EngineLabels(d),
			Plugins: convertList(e.Plugins, func(p *api.PluginDescription) types.NodePlugin {
				return types.NodePlugin{Type: p.Type, Name: p.Name}
			}),
		}
	}
	return description
}
