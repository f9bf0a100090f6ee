package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"moss/api/types"
	"moss/cmd/moss/arg"
)

// changeSpec puts what the flags say into a service's specification, which is empty for a service that is made. What no flag
// names stays.
func (f *serviceFlags) changeSpec(spec *types.ServiceSpec, around surroundings) error {
	for _, part := range []func(*types.ServiceSpec, surroundings) error{
		f.changeMode, f.changeProcess, f.changeVariables, f.changeLabels, f.changeMounts, f.changeNames, f.changeHealth,
		f.changeResources, f.changeRestart, f.changeUpdates, f.changePlacement, f.changeLog, f.changeEndpoint,
	} {
		if err := part(spec, around); err != nil {
			return err
		}
	}
	if f.force {
		spec.TaskTemplate.ForceUpdate++
	}
	return nil
}

func (f *serviceFlags) changeMode(spec *types.ServiceSpec, around surroundings) error {
	switch f.mode {
	case "": // service update keeps it
	case "replicated":
		spec.Mode.Replicated = &types.ReplicatedMode{Replicas: &f.replicas}
	case "global":
		spec.Mode.Global = &struct{}{}
	default:
		return fmt.Errorf("mode %q: want replicated or global", f.mode)
	}
	if !around.given("replicas") {
		return nil
	}
	return setReplicas(spec, f.replicas)
}

func setReplicas(spec *types.ServiceSpec, replicas uint64) error {
	if spec.Mode.Global != nil {
		return errors.New("a global service has one task on each node: replicas are for replicated ones")
	}
	spec.Mode.Replicated = &types.ReplicatedMode{Replicas: &replicas}
	return nil
}

func (f *serviceFlags) changeProcess(spec *types.ServiceSpec, around surroundings) error {
	to := &spec.TaskTemplate.ContainerSpec
	for flag, set := range map[string]func() error{
		"image":             func() error { to.Image = f.image; return nil },
		"user":              func() error { to.User = f.user; return nil },
		"workdir":           func() error { to.Dir = f.workDir; return nil },
		"hostname":          func() error { to.Hostname = f.hostname; return nil },
		"stop-signal":       func() error { to.StopSignal = f.stopSignal; return nil },
		"tty":               func() error { to.TTY = f.tty; return nil },
		"read-only":         func() error { to.ReadOnly = f.readOnly; return nil },
		"stop-grace-period": func() error { to.StopGracePeriod = &f.stopGrace; return nil },
		"entrypoint":        func() error { return setWords(&to.Command, "entrypoint", f.entrypoint) },
		"args":              func() error { return setWords(&to.Args, "args", f.args) },
	} {
		if around.given(flag) {
			if err := set(); err != nil {
				return err
			}
		}
	}
	to.Groups = f.groups.applyTo(to.Groups, wholeItem)
	return nil
}

func setWords(target *[]string, flag, text string) error {
	words, err := arg.Words(text)
	if err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	*target = words
	return nil
}

func (f *serviceFlags) changeVariables(spec *types.ServiceSpec, around surroundings) error {
	change := listChange{remove: f.env.remove}
	var err error
	if change.add, err = readVariables(f.envFiles, f.env.add, around.lookup); err != nil {
		return err
	}
	to := &spec.TaskTemplate.ContainerSpec
	to.Env = change.applyTo(to.Env, variableName)
	return nil
}

func variableName(entry string) string {
	name, _, _ := strings.Cut(entry, "=")
	return name
}

func wholeItem(item string) string { return item }

// applyTo changes a list whose items are told apart by what key takes of them: what is added replaces one of its key.
func (c *listChange) applyTo(list []string, key func(string) string) []string {
	list = slices.DeleteFunc(list, func(item string) bool {
		return slices.ContainsFunc(c.remove, func(gone string) bool { return key(gone) == key(item) })
	})
	for _, added := range c.add {
		if i := slices.IndexFunc(list, func(item string) bool { return key(item) == key(added) }); i >= 0 {
			list[i] = added
		} else {
			list = append(list, added)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list
}

func (f *serviceFlags) changeLabels(spec *types.ServiceSpec, _ surroundings) error {
	return errors.Join(f.labels.applyToPairs(&spec.Labels), f.containerLabels.applyToPairs(&spec.TaskTemplate.ContainerSpec.Labels))
}

func (c *listChange) applyToPairs(pairs *map[string]string) error {
	for _, key := range c.remove {
		delete(*pairs, key)
	}
	for _, text := range c.add {
		if *pairs == nil {
			*pairs = map[string]string{}
		}
		if err := arg.Labels(*pairs, text); err != nil {
			return err
		}
	}
	return nil
}

func (f *serviceFlags) changeMounts(spec *types.ServiceSpec, around surroundings) error {
	to := &spec.TaskTemplate.ContainerSpec.Mounts
	*to = slices.DeleteFunc(*to, func(m types.MountConfig) bool { return slices.Contains(f.mounts.remove, m.Target) })
	for _, text := range f.mounts.add {
		mount, err := arg.Mount(text, around.dir)
		if err != nil {
			return err
		}
		*to = append(slices.DeleteFunc(*to, func(m types.MountConfig) bool { return m.Target == mount.Target }), mount)
	}
	return nil
}

func (f *serviceFlags) changeNames(spec *types.ServiceSpec, _ surroundings) error {
	to := &spec.TaskTemplate.ContainerSpec
	added, err := hostLines(f.hosts.add)
	if err != nil {
		return err
	}
	removed, err := hostLines(f.hosts.remove)
	if err != nil {
		return err
	}
	lines := listChange{add: added, remove: removed}
	to.Hosts = lines.applyTo(to.Hosts, wholeItem)
	for _, text := range f.dns.add {
		if err := arg.Address("dns", text); err != nil {
			return err
		}
	}
	dns := types.ServiceDNS{}
	if to.DNSConfig != nil {
		dns = *to.DNSConfig
	}
	dns.Nameservers = f.dns.applyTo(dns.Nameservers, wholeItem)
	dns.Options = f.dnsOptions.applyTo(dns.Options, wholeItem)
	dns.Search = f.dnsSearch.applyTo(dns.Search, wholeItem)
	to.DNSConfig = nil
	if len(dns.Nameservers)+len(dns.Options)+len(dns.Search) > 0 {
		to.DNSConfig = &dns
	}
	return nil
}

func hostLines(hosts []string) ([]string, error) {
	lines := make([]string, 0, len(hosts))
	for _, text := range hosts {
		line, err := arg.HostLine(text)
		if err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	return lines, nil
}

func (f *serviceFlags) changeHealth(spec *types.ServiceSpec, around surroundings) error {
	var body types.ContainerCreate
	if err := f.health.buildHealthcheck(&body, around); err != nil || body.Healthcheck == nil {
		return err
	}
	to := &spec.TaskTemplate.ContainerSpec.Healthcheck
	if old, check := *to, body.Healthcheck; old != nil && !f.health.none {
		if check.Test == nil {
			check.Test = old.Test
		}
		check.Interval, check.Timeout = cmp.Or(check.Interval, old.Interval), cmp.Or(check.Timeout, old.Timeout)
		check.StartPeriod, check.Retries = cmp.Or(check.StartPeriod, old.StartPeriod), cmp.Or(check.Retries, old.Retries)
		check.StartInterval = cmp.Or(check.StartInterval, old.StartInterval)
	}
	*to = body.Healthcheck
	return nil
}

func (f *serviceFlags) changeResources(spec *types.ServiceSpec, around surroundings) error {
	to := &types.ServiceRequirements{}
	if spec.TaskTemplate.Resources != nil {
		to = spec.TaskTemplate.Resources
	}
	for _, part := range []struct {
		cpu, memory         string // flags
		cpuText, memoryText string
		into                **types.ServiceResource
	}{
		{"limit-cpu", "limit-memory", f.limitCPU, f.limitMemory, &to.Limits},
		{"reserve-cpu", "reserve-memory", f.reserveCPU, f.reserveMemory, &to.Reservations},
	} {
		if !around.given(part.cpu) && !around.given(part.memory) {
			continue
		}
		if *part.into == nil {
			*part.into = &types.ServiceResource{}
		}
		err := errors.Join(
			setSize(&(*part.into).NanoCPUs, part.cpu, part.cpuText, arg.NanoCPUs),
			setSize(&(*part.into).MemoryBytes, part.memory, part.memoryText, arg.Bytes),
		)
		if err != nil {
			return err
		}
		spec.TaskTemplate.Resources = to
	}
	return nil
}

func (f *serviceFlags) changeRestart(spec *types.ServiceSpec, around surroundings) error {
	to := &types.ServiceRestart{}
	if spec.TaskTemplate.RestartPolicy != nil {
		to = spec.TaskTemplate.RestartPolicy
	}
	for flag, set := range map[string]func(){
		"restart-condition":    func() { to.Condition = f.restartCondition },
		"restart-delay":        func() { to.Delay = &f.restartDelay },
		"restart-max-attempts": func() { to.MaxAttempts = &f.restartAttempts },
		"restart-window":       func() { to.Window = &f.restartWindow },
	} {
		if around.given(flag) {
			set()
			spec.TaskTemplate.RestartPolicy = to
		}
	}
	return checkChoice("restart-condition", f.restartCondition, []string{"none", "on-failure", "any"})
}

// checkChoice checks a flag's value; an empty one is the default.
func checkChoice(flag, value string, known []string) error {
	if value == "" || slices.Contains(known, value) {
		return nil
	}
	return fmt.Errorf("--%s %q: want %s or %s", flag, value, strings.Join(known[:len(known)-1], ", "), known[len(known)-1])
}

func (f *serviceFlags) changeUpdates(spec *types.ServiceSpec, around surroundings) error {
	to := &types.UpdateConfig{Parallelism: 1}
	if spec.UpdateConfig != nil {
		to = spec.UpdateConfig
	}
	for flag, set := range map[string]func(){
		"update-delay":          func() { to.Delay = f.updateDelay },
		"update-parallelism":    func() { to.Parallelism = f.updateParallelism },
		"update-failure-action": func() { to.FailureAction = f.updateFailure },
	} {
		if around.given(flag) {
			set()
			spec.UpdateConfig = to
		}
	}
	return checkChoice("update-failure-action", f.updateFailure, []string{"pause", "continue"})
}

func (f *serviceFlags) changePlacement(spec *types.ServiceSpec, _ surroundings) error {
	to := types.Placement{}
	if spec.TaskTemplate.Placement != nil {
		to = *spec.TaskTemplate.Placement
	}
	to.Constraints = f.constraints.applyTo(to.Constraints, func(text string) string { return strings.ReplaceAll(text, " ", "") })
	if len(to.Constraints) > 0 || spec.TaskTemplate.Placement != nil {
		spec.TaskTemplate.Placement = &to
	}
	return nil
}

func (f *serviceFlags) changeLog(spec *types.ServiceSpec, around surroundings) error {
	if !around.given("log-driver") && !around.given("log-opt") {
		return nil
	}
	options, err := arg.Pairs("log-opt", f.logOpts)
	if err != nil {
		return err
	}
	to := types.LogDriver{Name: f.logDriver, Options: options}
	if old := spec.TaskTemplate.LogDriver; old != nil && !around.given("log-driver") {
		to.Name = old.Name
	}
	spec.TaskTemplate.LogDriver = &to
	return nil
}
