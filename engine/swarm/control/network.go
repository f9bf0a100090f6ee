package control

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/moby/swarmkit/v2/api"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"moss/api/route"
	"moss/api/types"
	"moss/engine/fault"
	"moss/engine/swarm/object"
)

// Networks says which networks the swarm can have. fault.Invalid for one that cannot be, fault.Conflict for addresses that
// something else has.
type Networks interface {
	CheckNetwork(spec *api.NetworkSpec, networks []*api.Network) error
}

// Local knows the networks that are of this node alone.
type Local interface {
	// FindNetwork returns the name of one; fault.NotFound if there is none, or if nobody can say so.
	FindNetwork(ctx context.Context, ref string) (name string, err error)
}

func (s *server) listNetworks(c *route.Call) error {
	networks, err := askManagers(s, c, fetchNetworks)
	if err != nil {
		return err
	}
	return replyList(c, networks, object.NewNetwork)
}

func fetchNetworks(ctx context.Context, managers api.ControlClient) ([]*api.Network, error) {
	answer, err := managers.ListNetworks(ctx, &api.ListNetworksRequest{})
	if err != nil {
		return nil, err
	}
	return answer.Networks, nil
}

func (s *server) createNetwork(c *route.Call) error {
	var warnings []string
	created, err := askManagers(s, c, func(ctx context.Context, managers api.ControlClient) (*api.Network, error) {
		body := &types.NetworkCreate{}
		if err := decodeBody(c, body); err != nil {
			return nil, err
		}
		spec, warned, err := object.ToNetworkSpec(body)
		if err != nil {
			return nil, err
		}
		if err := checkSize(spec.Size()); err != nil {
			return nil, err
		}
		n, err := s.makeNetwork(ctx, managers, spec)
		if err != nil {
			return nil, err
		}
		warnings = warned
		if !awaitSubnet(ctx, managers, n.ID) {
			warnings = append(warnings, "The network has no subnet yet: the swarm gives it one as soon as it can")
		}
		return n, nil
	})
	if err != nil {
		return err
	}
	s.log.Info().Str("network", created.ID).Str("name", created.Spec.Annotations.Name).Msg("network created")
	return replyJSON(c, http.StatusCreated, &types.NetworkCreated{ID: created.ID, Warning: strings.Join(warnings, "; ")})
}

// makeNetwork makes a network whose subnet nothing else has. One at a time: SwarmKit creates a network whose addresses cannot
// be had, and only logs why.
func (s *server) makeNetwork(ctx context.Context, managers api.ControlClient, spec *api.NetworkSpec) (*api.Network, error) {
	s.making.Lock()
	defer s.making.Unlock()
	networks, err := fetchNetworks(ctx, managers)
	if err != nil {
		return nil, err
	}
	name := spec.Annotations.Name
	if slices.ContainsFunc(networks, func(n *api.Network) bool { return n.Spec.Annotations.Name == name }) {
		return nil, nameTaken(name)
	}
	if err := s.networks.CheckNetwork(spec, networks); err != nil {
		return nil, err
	}
	answer, err := managers.CreateNetwork(ctx, &api.CreateNetworkRequest{Spec: spec})
	if isTaken(err) {
		return nil, nameTaken(name)
	}
	if err != nil {
		return nil, err
	}
	return answer.Network, nil
}

func nameTaken(name string) error { return fault.Conflict("network with name %s already exists", name) }

const (
	subnetLimit = 3 * time.Second       // for the subnet of a new network
	subnetPause = 10 * time.Millisecond // between two looks: the control API tells of no change
)

// awaitSubnet waits until a new network has its subnet, so that whoever made it sees it. It reports false if that takes longer.
func awaitSubnet(ctx context.Context, managers api.ControlClient, id string) bool {
	ctx, cancel := context.WithTimeout(ctx, subnetLimit)
	defer cancel()
	for {
		answer, err := managers.GetNetwork(ctx, &api.GetNetworkRequest{NetworkID: id})
		if err != nil {
			return false
		}
		if answer.Network.DriverState != nil {
			return true
		}
		select {
		case <-time.After(subnetPause):
		case <-ctx.Done():
			return false
		}
	}
}

func (s *server) removeNetwork(c *route.Call) error {
	id, err := askManagers(s, c, func(ctx context.Context, managers api.ControlClient) (string, error) {
		networks, err := fetchNetworks(ctx, managers)
		if err != nil {
			return "", err
		}
		n, err := pickNetwork(networks, c.Param("id"))
		if err != nil {
			return "", err
		}
		if n.Spec.Annotations.Name == object.Ingress {
			return "", fault.Forbidden("%s is a pre-defined network and cannot be removed", object.Ingress)
		}
		_, err = managers.RemoveNetwork(ctx, &api.RemoveNetworkRequest{NetworkID: n.ID})
		if status.Code(err) == codes.FailedPrecondition {
			return "", explainUse(ctx, managers, n, err)
		}
		return n.ID, err
	})
	if err == nil {
		s.log.Info().Str("network", id).Msg("network removed")
	}
	return c.Empty(err)
}

// explainUse names the services that a network cannot be removed for. SwarmKit says their ids.
func explainUse(ctx context.Context, managers api.ControlClient, n *api.Network, refused error) error {
	answer, err := managers.ListServices(ctx, &api.ListServicesRequest{})
	if err != nil {
		return err
	}
	var names []string
	for _, service := range answer.Services {
		if usesNetwork(&service.Spec, n.ID) {
			names = append(names, service.Spec.Annotations.Name)
		}
	}
	if len(names) == 0 { // a task that has not ended yet
		return fault.Conflict("error while removing network: %s", status.Convert(refused).Message())
	}
	slices.Sort(names)
	return fault.Conflict("error while removing network: network %s id %s is in use by the services %s",
		n.Spec.Annotations.Name, n.ID, strings.Join(names, ", "))
}

func usesNetwork(s *api.ServiceSpec, id string) bool {
	return slices.ContainsFunc(slices.Concat(s.Task.Networks, s.Networks), func(c *api.NetworkAttachmentConfig) bool {
		return c.Target == id
	})
}

// pickNetwork finds a network by its id, its name, or the beginning of its id, in this order. fault.NotFound for none and
// fault.Conflict for several.
func pickNetwork(networks []*api.Network, ref string) (*api.Network, error) {
	for _, matches := range []func(*api.Network) bool{
		func(n *api.Network) bool { return n.ID == ref },
		func(n *api.Network) bool { return n.Spec.Annotations.Name == ref },
		func(n *api.Network) bool { return ref != "" && strings.HasPrefix(n.ID, ref) },
	} {
		var found []*api.Network
		for _, n := range networks {
			if matches(n) {
				found = append(found, n)
			}
		}
		if len(found) == 1 {
			return found[0], nil
		}
		if len(found) > 1 {
			return nil, fault.Conflict("network %s is ambiguous (%d matches found)", ref, len(found))
		}
	}
	return nil, fault.NotFound("network %s not found", ref)
}

// resolveNetworks puts the ids of networks in the places where a service may name them.
func (s *server) resolveNetworks(ctx context.Context, managers api.ControlClient, spec *api.ServiceSpec) error {
	if len(spec.Task.Networks) == 0 && len(spec.Networks) == 0 {
		return nil
	}
	networks, err := fetchNetworks(ctx, managers)
	if err != nil {
		return err
	}
	for _, configs := range [][]*api.NetworkAttachmentConfig{spec.Task.Networks, spec.Networks} {
		seen := map[string]bool{}
		for _, config := range configs {
			n, err := pickNetwork(networks, config.Target)
			if fault.Is(err, fault.NotFound) {
				err = s.explainMissing(ctx, config.Target, err)
			}
			switch {
			case err != nil:
				return err
			case n.Spec.Annotations.Name == object.Ingress:
				return notEligible(object.Ingress, "it carries published ports, and services publish ports to be in it")
			case seen[n.ID]:
				return fault.Invalid("Networks: network %s is there twice", config.Target)
			}
			seen[n.ID] = true
			config.Target = n.ID
		}
	}
	return nil
}

// localLimit bounds the question for a network of this node alone.
const localLimit = 2 * time.Second

// explainMissing returns the error of a network that the swarm does not have. One of this node alone is no network of services.
func (s *server) explainMissing(ctx context.Context, ref string, missing error) error {
	ctx, cancel := context.WithTimeout(ctx, localLimit)
	defer cancel()
	name, err := s.local.FindNetwork(ctx, ref)
	if err != nil {
		return missing
	}
	return notEligible(name, "it is of one node alone, only networks of the swarm are, as those of the driver overlay")
}

// notEligible is what clients are told of networks that services cannot be in (document 2, 4.6).
func notEligible(name, why string) error {
	return fault.Forbidden("network %s is not eligible for services: %s", name, why)
}
