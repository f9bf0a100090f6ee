package member

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/moby/swarmkit/v2/api"
	"github.com/moby/swarmkit/v2/ca"
	"github.com/moby/swarmkit/v2/connectionbroker"
	"github.com/moby/swarmkit/v2/manager"
	"github.com/moby/swarmkit/v2/node"
	"github.com/moby/swarmkit/v2/remotes"
)

// certificatePause is the time between two requests for a certificate.
const certificatePause = 100 * time.Millisecond

// fetchCertificate asks a manager for the certificate of a node that joins. SwarmKit's node would ask five times, two seconds
// apart, whatever the answer is; here a refusal ends it at once. It asks until ctx ends otherwise. A node that has a
// certificate asks for none. The key unlocks the certificate of a manager in a locked swarm, and is nil elsewhere.
func (k *keeper) fetchCertificate(
	ctx context.Context, r *membership, availability api.NodeSpec_Availability,
) (key []byte, err error) {
	paths := ca.NewConfigPaths(filepath.Join(k.dir, "certificates"))
	if _, err := os.Stat(paths.Node.Cert); err == nil {
		return nil, nil
	}
	token, err := ca.ParseJoinToken(r.Token)
	if err != nil {
		return nil, err
	}
	if token.FIPS {
		return nil, node.ErrMandatoryFIPS
	}
	broker := connectionbroker.New(remotes.NewRemotes(api.Peer{Addr: r.RemoteAddr}))
	request := ca.CertificateRequestConfig{
		Token: r.Token, Availability: availability, ConnBroker: broker, RetryInterval: certificatePause,
	}
	for {
		root, err := ca.GetRemoteCA(ctx, token.RootDigest, broker)
		if err == nil {
			key, err = saveCertificate(ctx, root, paths, request)
		}
		if err == nil || isRefusal(err) {
			return key, err
		}
		k.changeRunning(func(now *running) { now.said = hideSecrets(explainError(err).Error()) })
		select {
		case <-time.After(certificatePause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// errKeyRead ends a look at a key that changes nothing.
var errKeyRead = errors.New("the key was read")

// saveCertificate asks a few times, which is over in a second where the manager answers, and writes what SwarmKit's node reads
// when it starts.
func saveCertificate(
	ctx context.Context, root ca.RootCA, paths *ca.SecurityConfigPaths, request ca.CertificateRequestConfig,
) (key []byte, err error) {
	keys := ca.NewKeyReadWriter(paths.Node, nil, &manager.RaftDEKData{})
	if err := ca.SaveRootCA(root, paths.RootCA); err != nil {
		return nil, err
	}
	if _, _, err := root.RequestAndSaveNewCertificates(ctx, keys, request); err != nil {
		return nil, err
	}
	err = keys.ViewAndRotateKEK(func(now ca.KEKData, headers ca.PEMKeyHeaders) (ca.KEKData, ca.PEMKeyHeaders, error) {
		key = now.KEK
		return now, headers, errKeyRead
	})
	if !errors.Is(err, errKeyRead) {
		return nil, err
	}
	return key, nil
}
