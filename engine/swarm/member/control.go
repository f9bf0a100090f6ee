package member

import (
	"context"
	"crypto/tls"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/moby/swarmkit/v2/manager/state/raft"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

// noLeader is the answer of a swarm whose managers have lost their quorum.
const noLeader = "The swarm does not have a leader. It's possible that too few managers are online. Make sure more than half " +
	"of the managers are online."

// dialControl reaches the manager of this node by its own socket. A call ends after limit: without a leader it would wait for
// one. The connection is closed by the caller.
func dialControl(path string, limit time.Duration) (*grpc.ClientConn, error) {
	return grpc.NewClient("unix:"+path,
		// The socket is the owner's alone. SwarmKit has TLS on it all the same, with a certificate of the moment.
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})), //nolint:gosec // see above
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)),
		grpc.WithUnaryInterceptor(boundCalls(limit)))
}

// boundCalls ends a call in time and says what it means when there is no leader.
func boundCalls(limit time.Duration) grpc.UnaryClientInterceptor {
	return func(
		ctx context.Context, method string, in, out any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		bounded, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		err := invoke(bounded, method, in, out, conn, opts...)
		if err == nil || ctx.Err() != nil {
			return err
		}
		late := status.Code(err) == codes.DeadlineExceeded // the other end may notice first
		if late || errors.Is(bounded.Err(), context.DeadlineExceeded) || isLeaderless(err) {
			return status.Error(codes.Unavailable, noLeader)
		}
		return err
	}
}

// isLeaderless recognises the errors that SwarmKit has for it, which have no code of their own.
func isLeaderless(err error) bool {
	text := err.Error()
	return strings.Contains(text, "swarm does not have a leader") || strings.Contains(text, raft.ErrNoClusterLeader.Error()) ||
		strings.Contains(text, raft.ErrLostLeadership.Error())
}
