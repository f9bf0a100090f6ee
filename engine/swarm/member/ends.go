package member

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"github.com/moby/swarmkit/v2/ca"
	"github.com/moby/swarmkit/v2/node"
	"google.golang.org/grpc/status"
)

// The ends of a node after which only a person can help.
var (
	errLocked = errors.New( //nolint:staticcheck // clients' text
		//nolint:revive // the same
		`Swarm is encrypted and needs to be unlocked before it can be used. Please use "swarm unlock" to unlock it.`)
	errExpired = errors.New( //nolint:staticcheck // clients' text
		//nolint:revive // the same
		"Swarm certificates have expired. To replace them, leave the swarm and join again.")
)

// classifyEnd says what the end of a node means.
func classifyEnd(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, node.ErrInvalidUnlockKey) {
		return errLocked
	}
	if e, ok := errors.AsType[x509.CertificateInvalidError](err); ok && e.Reason == x509.Expired {
		return errExpired
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
