package server

import (
	"context"
	"os"

	"golang.org/x/sys/unix"
)

// FromOwner tells of a request's context whether it came over a unix socket from a process of the engine's own user. All
// others are no owner: a member of the group that may use the socket, TCP whatever its certificate, and a connection that
// says nothing.
func FromOwner(ctx context.Context) bool {
	t, ok := ctx.Value(clientKey{}).(*tracked)
	if !ok || t.LocalAddr().Network() != "unix" {
		return false
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return false
	}
	// The kernel noted these when the client connected. In the engine's user namespace its user is 0, one that the namespace
	// does not know is the overflow uid, which is never the engine's.
	var peer *unix.Ucred
	var asked error
	if err := raw.Control(func(fd uintptr) {
		peer, asked = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil || asked != nil {
		return false
	}
	return int(peer.Uid) == os.Geteuid()
}
