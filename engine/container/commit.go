package container

import (
	"slices"
	"strings"

	"moss/engine/image"
)

// CommitOptions says what image to make of a container (API document 2, 4.2: commit).
type CommitOptions struct {
	Repo, Tag       string
	Author, Comment string
	Pause           bool     // freeze the container's processes while its files are read
	Changes         []string // build instructions
	Config          *Config  // laid over the container's; nil: nothing
}

// Committed returns what an image made of the container sets for those made of it: the container's configuration with
// over laid over it, as clients expect of commit. A command of over's goes with an entrypoint of over's only. What of over
// create would refuse is fault.Invalid: no container could be made of the image.
func (c *Config) Committed(over *Config) (image.Config, error) {
	merged := image.Config{
		User: c.User, ExposedPorts: c.ExposedPorts, Env: c.Env, Entrypoint: c.Entrypoint, Cmd: c.Cmd, Volumes: c.Volumes,
		WorkingDir: c.WorkingDir, Labels: c.Labels, StopSignal: c.StopSignal, OnBuild: c.OnBuild, Shell: c.Shell,
		Healthcheck: c.Healthcheck,
	}
	if over == nil {
		return merged, nil
	}
	d := &draft{Spec: Spec{Config: *over}}
	for _, check := range []func(*draft) error{checkUser, checkHealth, checkStop, checkPorts, checkMounts} {
		if err := check(d); err != nil {
			return image.Config{}, err
		}
	}
	over = &d.Config
	setIf(&merged.User, over.User)
	setIf(&merged.WorkingDir, over.WorkingDir)
	setIf(&merged.StopSignal, over.StopSignal)
	if len(over.Entrypoint) > 0 {
		merged.Entrypoint, merged.Cmd = slices.Clone(over.Entrypoint), slices.Clone(over.Cmd)
	} else if len(over.Cmd) > 0 {
		merged.Cmd = slices.Clone(over.Cmd)
	}
	if over.Entrypoint != nil && len(over.Entrypoint) == 0 { // how clients spell "none"
		merged.Entrypoint = nil
	}
	if len(over.OnBuild) > 0 {
		merged.OnBuild = slices.Clone(over.OnBuild)
	}
	if len(over.Shell) > 0 {
		merged.Shell = slices.Clone(over.Shell)
	}
	if over.Healthcheck != nil {
		merged.Healthcheck = over.Healthcheck
	}
	names := make([]string, 0, len(over.Env))
	for _, entry := range over.Env {
		name, _, _ := strings.Cut(entry, "=")
		names = append(names, name)
	}
	merged.Env = image.EnvFirst(LayEnv(c.Env, over.Env), names)
	merged.ExposedPorts = mergeMaps(c.ExposedPorts, over.ExposedPorts)
	merged.Volumes = mergeMaps(c.Volumes, over.Volumes)
	merged.Labels = mergeMaps(c.Labels, over.Labels)
	return merged, nil
}

func setIf(to *string, text string) {
	if text != "" {
		*to = text
	}
}
