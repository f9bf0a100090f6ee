package member

import (
	"context"
	"errors"
	"time"

	"github.com/moby/swarmkit/v2/manager/encryption"

	"moss/engine/fault"
)

// unlockWait is how long an unlocked node is watched for: one that has no quorum to return to is unlocked all the same.
const unlockWait = 10 * time.Second

// Unlock starts a locked manager with its key. The errors are fault.NotAcceptable in no swarm, fault.Conflict if nothing is
// locked, and fault.Invalid for a key that does not fit.
func (m *Member) Unlock(ctx context.Context, key string) error {
	end, err := m.beginVerb(ctx)
	if err != nil {
		return err
	}
	defer end()
	_, k, broken := m.viewMembership()
	switch {
	case broken != nil:
		return fault.NotAcceptable("This node's place in its swarm cannot be used: %w", broken)
	case k == nil:
		return errNoSwarm()
	case !errors.Is(k.viewRunning().err, errLocked):
		return fault.Conflict("swarm is not locked")
	}
	raw, err := encryption.ParseHumanReadableKey(key)
	if err != nil {
		return errBadKey()
	}
	<-k.ended                                                         // it has noted its end
	next := m.startKeeper(k.currentRecord(), attempt{key: raw}, true) //nolint:contextcheck // it outlives the request
	m.mu.Lock()
	m.keeper = next
	m.mu.Unlock()
	limit := time.NewTimer(unlockWait)
	defer limit.Stop()
	select {
	case <-next.entered:
	case <-limit.C:
	case <-ctx.Done(): // the node goes on
	case <-next.ended:
		err := next.viewRunning().err
		if errors.Is(err, errLocked) {
			return errBadKey()
		}
		return err
	}
	return nil
}

func errBadKey() error { return fault.Invalid("swarm could not be unlocked: invalid key provided") }
