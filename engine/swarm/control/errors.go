package control

import (
	"context"
	"errors"
	"strings"

	"github.com/moby/swarmkit/v2/manager/state/raft"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"moss/engine/fault"
)

// kinds is what the codes of the managers' answers mean. Others are the managers' own trouble.
var kinds = map[codes.Code]fault.Constructor{ //nolint:gochecknoglobals // a constant
	codes.InvalidArgument:    fault.Invalid,
	codes.FailedPrecondition: fault.Invalid,
	codes.OutOfRange:         fault.Invalid,
	codes.NotFound:           fault.NotFound,
	codes.AlreadyExists:      fault.Conflict,
	codes.Aborted:            fault.Conflict,
	codes.PermissionDenied:   fault.Forbidden,
	codes.Unauthenticated:    fault.Forbidden,
	codes.Unimplemented:      fault.Unsupported,
	codes.Unavailable:        fault.Unavailable,
	codes.ResourceExhausted:  fault.Unavailable,
	codes.DeadlineExceeded:   fault.Unavailable,
}

// noLeader begins the text of a swarm whose managers have lost their quorum.
const noLeader = "The swarm does not have a leader."

// leaderless are the texts of errors that SwarmKit passes on without a code while there is no leader.
var leaderless = []string{ //nolint:gochecknoglobals // a constant
	noLeader, raft.ErrNoClusterLeader.Error(), raft.ErrLostLeadership.Error(), raft.ErrNoRaftMember.Error(),
	raft.ErrStopped.Error(), raft.ErrMemberUnknown.Error(),
}

// explainError gives an error of the managers its kind. client is the request's context, and bounded the one that the managers
// were asked with. An error that has a kind keeps it.
func explainError(client, bounded context.Context, err error) error {
	if _, known := errors.AsType[*fault.Error](err); known {
		return err
	}
	if client.Err() != nil {
		return client.Err()
	}
	answer := status.Convert(err)
	if errors.Is(bounded.Err(), context.DeadlineExceeded) {
		return fault.Unavailable(noLeader+" It's possible that too few managers are online: none has answered within %s. "+
			"Make sure more than half of the managers are online.", callLimit)
	}
	for _, text := range leaderless {
		if strings.Contains(answer.Message(), text) {
			return fault.Unavailable("%s", answer.Message())
		}
	}
	if strings.Contains(answer.Message(), raft.ErrRequestTooLarge.Error()) {
		return fault.Invalid("%s", answer.Message())
	}
	if kind, known := kinds[answer.Code()]; known {
		return kind("%s", answer.Message())
	}
	return errors.New(answer.Message()) // a change of an old version too, which clients know as a 500
}

// isMissing reports whether the managers know nothing of an id.
func isMissing(err error) bool { return status.Code(err) == codes.NotFound }

// isTaken reports whether a name is in use.
func isTaken(err error) bool { return status.Code(err) == codes.AlreadyExists }
