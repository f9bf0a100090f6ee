package dockerfile

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/image"
)

const (
	// defaultPath is what a stage begins with if its image says nothing, as in Docker.
	defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	// maxConfig bounds what instructions make of a config, in bytes: values may be put into values again and again. It
	// is half of what an image's config may have.
	maxConfig = 4 << 20
)

// State is what instructions of a stage change without running anything.
type State struct {
	Config image.Config
	Author string

	cmdSet bool // a CMD came in this stage: ENTRYPOINT leaves it alone
}

// Begin returns the state of a new stage on top of an image (the zero Config: scratch), and the image's ONBUILD
// instructions, which the stage's own config no longer has.
func Begin(c image.Config, author string) (State, []string) {
	s := State{Config: cloneConfig(c), Author: author}
	triggers := s.Config.OnBuild
	s.Config.OnBuild = nil
	if !slices.ContainsFunc(s.Config.Env, func(entry string) bool { return strings.HasPrefix(entry, "PATH=") }) {
		s.Config.Env = append(s.Config.Env, defaultPath)
	}
	return s, triggers
}

// Edit returns the state after an instruction other than FROM, RUN, COPY, ADD and leaves s alone. ARG changes nothing.
// Variables are expanded already. Errors are fault.Invalid.
func (s State) Edit(cmd instructions.Command) (State, error) {
	s.Config = cloneConfig(s.Config)
	if err := s.editInPlace(cmd); err != nil {
		return State{}, err
	}
	if n := configSize(s.Config); n > maxConfig {
		return State{}, fault.Invalid("%s: the image's config grows beyond %d bytes", keywordOf(cmd), maxConfig)
	}
	return s, nil
}

// keywordOf returns the name of an instruction.
func keywordOf(cmd instructions.Command) string { return strings.ToUpper(cmd.Name()) }

// editInPlace applies an instruction to the state itself.
func (s *State) editInPlace(cmd instructions.Command) error {
	c := &s.Config
	switch cmd := cmd.(type) {
	case *instructions.ArgCommand:
	case *instructions.MaintainerCommand:
		s.Author = cmd.Maintainer
	case *instructions.EnvCommand:
		return setEnv(c, cmd.Env)
	case *instructions.LabelCommand:
		return setLabels(c, cmd.Labels)
	case *instructions.CmdCommand:
		c.Cmd = commandWords(cmd.ShellDependantCmdLine, c.Shell)
		s.cmdSet = true
	case *instructions.EntrypointCommand:
		c.Entrypoint = commandWords(cmd.ShellDependantCmdLine, c.Shell)
		if !s.cmdSet {
			c.Cmd = nil // it was meant for the entry point before
		}
	case *instructions.ExposeCommand:
		return addPorts(c, cmd.Ports)
	case *instructions.UserCommand:
		if len(strings.Fields(cmd.User)) != 1 {
			return fault.Invalid("USER requires exactly one argument")
		}
		c.User = strings.TrimSpace(cmd.User)
	case *instructions.VolumeCommand:
		return setVolumes(c, cmd.Volumes)
	case *instructions.WorkdirCommand:
		return setWorkdir(c, cmd.Path)
	case *instructions.StopSignalCommand:
		return setStopSignal(c, cmd.Signal)
	case *instructions.OnbuildCommand:
		c.OnBuild = append(c.OnBuild, cmd.Expression)
	case *instructions.HealthCheckCommand:
		c.Healthcheck = &image.Healthcheck{
			Test: slices.Clone(cmd.Health.Test), Interval: cmd.Health.Interval, Timeout: cmd.Health.Timeout,
			StartPeriod: cmd.Health.StartPeriod, StartInterval: cmd.Health.StartInterval, Retries: cmd.Health.Retries,
		}
	case *instructions.ShellCommand:
		c.Shell = slices.Clone(cmd.Shell)
	default:
		return fault.Internal("%s does not change a config", keywordOf(cmd))
	}
	return nil
}

// commandWords returns the words of a command: as they are, or a line for the shell.
func commandWords(l instructions.ShellDependantCmdLine, shell []string) []string {
	if !l.PrependShell {
		return slices.Clone(l.CmdLine)
	}
	if len(l.CmdLine) == 0 {
		return nil
	}
	return append(shellOf(shell), strings.Join(l.CmdLine, " "))
}

// shellOf returns the shell of a config, to be appended to.
func shellOf(shell []string) []string {
	if len(shell) == 0 {
		return []string{"/bin/sh", "-c"}
	}
	return slices.Clone(shell)
}

func setEnv(c *image.Config, pairs instructions.KeyValuePairs) error {
	for _, pair := range pairs {
		if pair.Key == "" {
			return fault.Invalid("ENV names can not be blank")
		}
		if strings.Contains(pair.Key, "=") {
			return fault.Invalid("ENV: %q cannot be a variable", pair.Key)
		}
		entry := pair.Key + "=" + pair.Value
		at := slices.IndexFunc(c.Env, func(old string) bool { return strings.HasPrefix(old, pair.Key+"=") })
		if at >= 0 {
			c.Env[at] = entry
		} else {
			c.Env = append(c.Env, entry)
		}
	}
	return nil
}

func setLabels(c *image.Config, pairs instructions.KeyValuePairs) error {
	if c.Labels == nil {
		c.Labels = map[string]string{}
	}
	for _, pair := range pairs {
		if pair.Key == "" {
			return fault.Invalid("LABEL names can not be blank")
		}
		c.Labels[pair.Key] = pair.Value
	}
	return nil
}

func setVolumes(c *image.Config, volumes []string) error {
	if c.Volumes == nil {
		c.Volumes = map[string]struct{}{}
	}
	for _, volume := range volumes {
		if volume = strings.TrimSpace(volume); volume == "" {
			return fault.Invalid("VOLUME specified can not be an empty string")
		}
		c.Volumes[volume] = struct{}{}
	}
	return nil
}

func setWorkdir(c *image.Config, dir string) error {
	if dir == "" {
		return fault.Invalid("WORKDIR: cannot normalize nothing")
	}
	if !path.IsAbs(dir) {
		dir = path.Join("/", c.WorkingDir, dir)
	}
	c.WorkingDir = path.Clean(dir)
	return nil
}

// realTime is the name of a real-time signal, which the kernel's table does not have.
//
//nolint:gochecknoglobals // a constant
var realTime = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(RTMIN(\+([0-9]|[12][0-9]|30))?|RTMAX(-([0-9]|[12][0-9]|30))?)$`)
})

func setStopSignal(c *image.Config, signal string) error {
	number, err := strconv.Atoi(signal)
	name := strings.TrimPrefix(strings.ToUpper(signal), "SIG")
	isName := unix.SignalNum("SIG"+name) != 0 || slices.Contains([]string{"IOT", "POLL", "CLD"}, name) ||
		realTime().MatchString(name)
	if (err != nil || number < 1 || number > 64) && !isName {
		return fault.Invalid("STOPSIGNAL: invalid signal: %s", signal)
	}
	c.StopSignal = signal
	return nil
}

func cloneConfig(c image.Config) image.Config {
	c.ExposedPorts, c.Volumes, c.Labels = maps.Clone(c.ExposedPorts), maps.Clone(c.Volumes), maps.Clone(c.Labels)
	c.Env, c.Entrypoint, c.Cmd = slices.Clone(c.Env), slices.Clone(c.Entrypoint), slices.Clone(c.Cmd)
	c.OnBuild, c.Shell = slices.Clone(c.OnBuild), slices.Clone(c.Shell)
	if c.Healthcheck != nil {
		h := *c.Healthcheck
		c.Healthcheck = &h
	}
	return c
}

// configSize returns about how many bytes a config has.
func configSize(c image.Config) int {
	n := len(c.User) + len(c.WorkingDir)
	for _, list := range [][]string{c.Env, c.Entrypoint, c.Cmd, c.OnBuild, c.Shell} {
		for _, s := range list {
			n += len(s)
		}
	}
	for name, value := range c.Labels {
		n += len(name) + len(value)
	}
	for volume := range c.Volumes {
		n += len(volume)
	}
	return n
}
