package control

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"

	"github.com/moby/swarmkit/v2/api"

	"moss/api/compat"
	"moss/api/route"
	"moss/api/types"
	"moss/api/wire"
	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/swarm/object"
)

func (s *server) listServices(c *route.Call) error {
	services, err := askManagers(s, c, func(ctx context.Context, managers api.ControlClient) ([]*api.Service, error) {
		f, err := readFilters(c, "id", "label", "name")
		if err != nil {
			return nil, err
		}
		answer, err := managers.ListServices(ctx, &api.ListServicesRequest{
			Filters: &api.ListServicesRequest_Filters{IDPrefixes: f["id"], NamePrefixes: f["name"]},
		})
		if err != nil {
			return nil, err
		}
		return keepLabelled(answer.Services, f["label"], func(s *api.Service) map[string]string {
			return s.Spec.Annotations.Labels
		}), nil
	})
	if err != nil {
		return err
	}
	return replyList(c, services, object.NewService)
}

func (s *server) inspectService(c *route.Call) error {
	service, err := askManagers(s, c, func(ctx context.Context, managers api.ControlClient) (*api.Service, error) {
		return findService(ctx, managers, c.Param("id"))
	})
	if err != nil {
		return err
	}
	return replyJSON(c, http.StatusOK, object.NewService(service))
}

// maxNameTries bounds the search for a name that is free. From the second on they have a number.
const maxNameTries = 10

func (s *server) createService(c *route.Call) error {
	created, err := askManagers(s, c, func(ctx context.Context, managers api.ControlClient) (*api.CreateServiceResponse, error) {
		body := &types.ServiceSpec{}
		if err := decodeBody(c, body); err != nil {
			return nil, err
		}
		given := body.Name != ""
		for try := 0; ; try++ {
			if !given {
				body.Name = container.RandomName(rand.IntN, try)
			}
			spec, err := s.readService(ctx, managers, c, body)
			if err != nil {
				return nil, err
			}
			answer, err := managers.CreateService(ctx, &api.CreateServiceRequest{Spec: spec})
			if given || !isTaken(err) || try == maxNameTries {
				return answer, err
			}
		}
	})
	if err != nil {
		return err
	}
	s.log.Info().Str("service", created.Service.ID).Msg("service created")
	return replyJSON(c, http.StatusCreated, &types.ServiceCreated{ID: created.Service.ID})
}

func (s *server) updateService(c *route.Call) error {
	changed, err := askManagers(s, c, func(ctx context.Context, managers api.ControlClient) (*api.UpdateServiceResponse, error) {
		version, err := readVersion(c)
		if err != nil {
			return nil, err
		}
		body := &types.ServiceSpec{}
		if err := decodeBody(c, body); err != nil {
			return nil, err
		}
		service, err := findService(ctx, managers, c.Param("id"))
		if err != nil {
			return nil, err
		}
		if body.Name == "" {
			body.Name = service.Spec.Annotations.Name
		}
		spec, err := s.readService(ctx, managers, c, body)
		if err != nil {
			return nil, err
		}
		if now := service.Spec.Task.GetContainer(); now != nil && spec.Task.GetContainer().PullOptions == nil {
			spec.Task.GetContainer().PullOptions = now.PullOptions // the credentials that there are
		}
		return managers.UpdateService(ctx, &api.UpdateServiceRequest{ServiceID: service.ID, ServiceVersion: version, Spec: spec})
	})
	if err != nil {
		return err
	}
	s.log.Info().Str("service", changed.Service.ID).Msg("service updated")
	return replyJSON(c, http.StatusOK, &types.ServiceUpdated{})
}

func (s *server) removeService(c *route.Call) error {
	id, err := askManagers(s, c, func(ctx context.Context, managers api.ControlClient) (string, error) {
		service, err := findService(ctx, managers, c.Param("id"))
		if err != nil {
			return "", err
		}
		_, err = managers.RemoveService(ctx, &api.RemoveServiceRequest{ServiceID: service.ID})
		return service.ID, err
	})
	if err == nil {
		s.log.Info().Str("service", id).Msg("service removed")
	}
	return c.Empty(err)
}

// readService turns a body into SwarmKit's specification, with the ids of networks and the credentials of the call.
func (s *server) readService(
	ctx context.Context, managers api.ControlClient, c *route.Call, body *types.ServiceSpec,
) (*api.ServiceSpec, error) {
	spec, err := object.ToServiceSpec(body)
	if err != nil {
		return nil, err
	}
	credentials := c.Header(compat.RegistryAuth)
	if err := checkCredentials(credentials); err != nil {
		return nil, err
	}
	if credentials != "" {
		spec.Task.GetContainer().PullOptions = &api.ContainerSpec_PullOptions{RegistryAuth: credentials}
	}
	if err := s.resolveNetworks(ctx, managers, spec); err != nil {
		return nil, err
	}
	return spec, checkSize(spec.Size())
}

// checkCredentials refuses what no node could pull an image with. The text is a secret, and in no error.
func checkCredentials(text string) error {
	raw, err := wire.DecodeBase64(text)
	if err == nil && text != "" {
		err = json.Unmarshal(raw, &types.AuthConfig{})
	}
	if err != nil {
		return fault.Invalid("%s: want base64 of a JSON object with credentials", compat.RegistryAuth)
	}
	return nil
}

// maxSpec bounds a specification in bytes. A change of one writes the old and the new one into the managers' log at once, which
// takes 1.5 MiB.
const maxSpec = 512 << 10

func checkSize(size int) error {
	if size > maxSpec {
		return fault.Invalid("the body is too long: SwarmKit's form of it has %d bytes, more than %d", size, maxSpec)
	}
	return nil
}
