package object

import (
	"math"
	"strings"

	"github.com/distribution/reference"
	gogotypes "github.com/gogo/protobuf/types"
	"github.com/moby/swarmkit/v2/api"

	"moss/api/types"
	"moss/engine/container"
	"moss/engine/image"
)

// containerField is the place of a container's specification in the body of a service.
const containerField = taskField + "ContainerSpec."

func toContainerSpec(s *types.ContainerSpec) (*api.ContainerSpec, error) {
	if err := checkContainer(s); err != nil {
		return nil, err
	}
	spec := &api.ContainerSpec{
		Image: s.Image, Labels: s.Labels, Command: s.Command, Args: s.Args, Hostname: s.Hostname, Env: s.Env, Dir: s.Dir,
		User: s.User, Groups: s.Groups, StopSignal: s.StopSignal, TTY: s.TTY, OpenStdin: s.OpenStdin, ReadOnly: s.ReadOnly,
		Hosts: s.Hosts,
	}
	var err error
	if spec.Mounts, err = toMounts(containerField+"Mounts", s.Mounts); err != nil {
		return nil, err
	}
	if spec.StopGracePeriod, err = toDuration(containerField+"StopGracePeriod", s.StopGracePeriod); err != nil {
		return nil, err
	}
	if spec.Healthcheck, err = toHealthcheck(containerField+"Healthcheck", s.Healthcheck); err != nil {
		return nil, err
	}
	spec.DNSConfig, err = toDNS(containerField+"DNSConfig", s.DNSConfig)
	return spec, err
}

// checkContainer refuses what no node could make a container of.
func checkContainer(s *types.ContainerSpec) error {
	for _, check := range []struct {
		field string
		err   error
	}{
		{"Image", checkImage(s.Image)},
		{"Labels", checkKeys(s.Labels)},
		{"Command", container.CheckArgs("argument", s.Command)},
		{"Args", container.CheckArgs("argument", s.Args)},
		{"Hostname", checkHostname(s.Hostname)},
		{"Env", container.CheckEnv(s.Env)},
		{"Dir", checkDir(s.Dir)},
		{"User", checkUser(s.User)},
		{"Groups", checkGroups(s.Groups)},
		{"StopSignal", checkSignal(s.StopSignal)},
		{"Hosts", checkHosts(s.Hosts)},
	} {
		if check.err != nil {
			return refuseField(containerField+check.field, "%v", check.err)
		}
	}
	return checkTemplates(s)
}

func checkImage(name string) error {
	if name == "" {
		return refuseValue("image reference must be provided")
	}
	if _, err := reference.ParseNormalizedNamed(name); err != nil {
		return refuseValue("%q is not a valid repository/tag: %v", name, err)
	}
	return nil
}

func checkHostname(name string) error {
	if isTemplate(name) {
		return nil
	}
	return container.CheckHostname(name)
}

func checkDir(dir string) error {
	_, err := container.ParseWorkingDir(dir)
	return err
}

func checkUser(user string) error {
	_, err := container.ParseUser(user)
	return err
}

func checkGroups(groups []string) error {
	for _, group := range groups {
		if _, err := container.ParseUser(group); err != nil || group == "" || strings.Contains(group, ":") {
			return refuseValue("%q is not a group name or number", group)
		}
	}
	return nil
}

func checkSignal(signal string) error {
	if signal == "" {
		return nil
	}
	_, err := container.ParseSignal(signal)
	return err
}

// hostGateway stands for the address of a container's own host.
const hostGateway = "host-gateway"

func checkHosts(lines []string) error {
	for _, line := range lines {
		words := strings.Fields(line)
		if len(words) < 2 || strings.ContainsAny(line, "#\r\n") || words[0] != hostGateway && !isAddress(words[0]) {
			return refuseValue("%q: want an address and its names, with spaces between them", line)
		}
	}
	return nil
}

func toHealthcheck(field string, h *types.Healthcheck) (*api.HealthConfig, error) {
	if h == nil {
		return nil, nil
	}
	if err := container.CheckHealthcheck((*image.Healthcheck)(h)); err != nil {
		return nil, refuseField(field, "%v", err)
	}
	if h.Retries > math.MaxInt32 {
		return nil, refuseField(field+".Retries", "%d is more than %d", h.Retries, math.MaxInt32)
	}
	return &api.HealthConfig{
		Test: h.Test, Interval: gogotypes.DurationProto(h.Interval), Timeout: gogotypes.DurationProto(h.Timeout),
		StartPeriod: gogotypes.DurationProto(h.StartPeriod), StartInterval: gogotypes.DurationProto(h.StartInterval),
		Retries: int32(h.Retries),
	}, nil
}

func toDNS(field string, d *types.ServiceDNS) (*api.ContainerSpec_DNSConfig, error) {
	if d == nil {
		return nil, nil
	}
	for _, server := range d.Nameservers {
		if !isAddress(server) {
			return nil, refuseField(field+".Nameservers", "%q is not an IP address", server)
		}
	}
	for _, words := range []struct {
		name string
		all  []string
	}{{"Search", d.Search}, {"Options", d.Options}} {
		for _, word := range words.all {
			if len(strings.Fields(word)) != 1 {
				return nil, refuseField(field+"."+words.name, "%q is not one word", word)
			}
		}
	}
	return &api.ContainerSpec_DNSConfig{Nameservers: d.Nameservers, Search: d.Search, Options: d.Options}, nil
}

// NewContainerSpec returns what a task's container runs, without the credentials for its image.
func NewContainerSpec(s *api.ContainerSpec) types.ContainerSpec {
	spec := types.ContainerSpec{
		Image: s.Image, Labels: s.Labels, Command: s.Command, Args: s.Args, Hostname: s.Hostname, Env: s.Env, Dir: s.Dir,
		User: s.User, Groups: s.Groups, StopSignal: s.StopSignal, TTY: s.TTY, OpenStdin: s.OpenStdin, ReadOnly: s.ReadOnly,
		Mounts: convertList(s.Mounts, newMount), StopGracePeriod: newDuration(s.StopGracePeriod), Hosts: s.Hosts,
	}
	if h := s.Healthcheck; h != nil {
		spec.Healthcheck = &types.Healthcheck{
			Test: h.Test, Interval: lengthOf(h.Interval), Timeout: lengthOf(h.Timeout),
			StartPeriod: lengthOf(h.StartPeriod), StartInterval: lengthOf(h.StartInterval), Retries: int(h.Retries),
		}
	}
	if d := s.DNSConfig; d != nil {
		spec.DNSConfig = &types.ServiceDNS{Nameservers: d.Nameservers, Search: d.Search, Options: d.Options}
	}
	return spec
}
