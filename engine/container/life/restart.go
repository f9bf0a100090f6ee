package life

import (
	"maps"
	"time"

	"moss/engine/container"
)

// The delays between a container's end and its restart (API document 1, 2.3).
const (
	FirstDelay   = 100 * time.Millisecond // before the first restart; doubles with each quick exit
	longestDelay = time.Minute
	steadyRun    = 10 * time.Second // a run at least as long starts the delays anew
)

// nextDelay returns the delay before the restart that follows a run of that length.
func (l *Life) nextDelay(ran time.Duration) time.Duration {
	if ran >= steadyRun || l.RestartDelay == 0 {
		return FirstDelay
	}
	return min(2*l.RestartDelay, longestDelay)
}

// ShouldRestart is the restart policy itself, for a container that has ended after so many restarts since its last start by a
// user.
func ShouldRestart(r *container.Record, restarts int) bool {
	if r.StoppedByUser {
		return false
	}
	switch policy := r.Host.RestartPolicy; policy.Name {
	case "always", "unless-stopped":
		return true
	case "on-failure":
		return r.ExitCode != 0 && (policy.MaximumRetryCount == 0 || restarts < policy.MaximumRetryCount)
	default:
		return false
	}
}

// StartsWithEngine is the restart policy at the start of an engine. What a user stopped stays so, but for "always".
func StartsWithEngine(r *container.Record) bool {
	if r.State != container.Exited {
		return false // it has never run, or is half removed
	}
	switch r.Host.RestartPolicy.Name {
	case "always":
		return true
	case "unless-stopped":
		return !r.StoppedByUser
	default: // it ran when the last engine ended
		return r.RestartAtStart && ShouldRestart(r, 0)
	}
}

// noteNetworks keeps in the record which networks a container that starts is in: one may have been made anew since.
func noteNetworks(r *container.Record) {
	in := maps.Clone(r.Networks())
	for name, ep := range r.Network.Endpoints {
		e := in[name]
		e.NetworkID = ep.NetworkID
		if in == nil {
			in = map[string]container.EndpointConfig{}
		}
		in[name] = e
	}
	r.Endpoints = in
}
