package member

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/moby/swarmkit/v2/ca"
	"github.com/moby/swarmkit/v2/node"
	"google.golang.org/grpc/status"
)

// The ends of a node after which only a person can help. errEarly may pass by itself: a clock is set once there is a network.
var (
	errLocked = errors.New( //nolint:staticcheck // clients' text
		//nolint:revive // the same
		`Swarm is encrypted and needs to be unlocked before it can be used. Please use "swarm unlock" to unlock it.`)
	errExpired = errors.New( //nolint:staticcheck // clients' text
		//nolint:revive // the same
		"Swarm certificates have expired. To replace them, leave the swarm and join again.")
	errEarly = errors.New("the clock of this machine is behind: the certificate of this node in its swarm is not valid yet")
)

// classifyEnd says what the end of a node means.
func classifyEnd(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, node.ErrInvalidUnlockKey) {
		return errLocked
	}
	if e, ok := errors.AsType[x509.CertificateInvalidError](err); ok && e.Reason == x509.Expired { // "expired or not yet valid"
		if e.Cert != nil && time.Now().Before(e.Cert.NotBefore) {
			return errEarly
		}
		return errExpired
	}
	if strings.Contains(err.Error(), "WAL error cannot be repaired") { // the repair begins with a copy of the log's last file
		return fmt.Errorf("%w. The disk may be full: the repair wants 64 MB on it", err)
	}
	return err
}

// explainError takes gRPC's words off an error.
func explainError(err error) error {
	if s, ok := status.FromError(err); ok && err != nil {
		return errors.New(s.Message())
	}
	return err
}

// isRefusal reports whether the managers have refused this node for its token.
func isRefusal(err error) bool {
	text := err.Error()
	for _, words := range []string{"join token", "remote CA does not match fingerprint", "x509:", ca.ErrNoValidSigner.Error()} {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}

// prefixError puts what was tried before an error.
func prefixError(what string, err error) error { return fmt.Errorf("%s: %w", what, explainError(err)) }
