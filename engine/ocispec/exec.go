package ocispec

import (
	"encoding/json"
	"slices"

	"moss/engine/container"
	"moss/engine/fault"
)

// Exec is one more process for a container that runs.
type Exec struct {
	ID         string          // the container's
	Spec       *container.Spec // the container's
	HostName   string          // of the host, for containers that share it
	User       container.UserIDs
	Args       []string
	Env        []string // laid over the container's
	Terminal   bool
	Privileged bool // all capabilities, whatever the container has
}

// Process makes the runtime spec's process object. What the client of an exec cannot choose is the container's: working
// directory, limits, capabilities, no_new_privileges. The seccomp filter stays the container's even for a
// privileged process: the runtimes' exec has no way to leave it out. fault.Unsupported for a user that the host has no id
// for.
func (b *Builder) Process(in Exec) (json.RawMessage, error) {
	// In an id map of its own the only id is the user's, and the runtime refuses any other.
	if b.opt.SingleID && !in.Spec.Host.KeepsID() && (in.User.UID != 0 || in.User.GID != 0) {
		return nil, fault.Unsupported("user %d:%d is not supported: the user has no subordinate ids, and only root exists",
			in.User.UID, in.User.GID)
	}
	spec := *in.Spec
	spec.Args, spec.Config.Tty, spec.Host.ConsoleSize = in.Args, in.Terminal, container.TerminalSize{}
	spec.Env = slices.Concat(spec.Env, in.Env)
	spec.Host.Privileged = spec.Host.Privileged || in.Privileged
	gen := b.newGenerator()
	b.setProcess(gen, &Input{ID: in.ID, Spec: &spec, User: in.User, HostName: in.HostName})
	return json.Marshal(gen.Config.Process)
}
