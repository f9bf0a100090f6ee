package mesh

import (
	"fmt"
	"path/filepath"
	"sync"

	"github.com/rs/zerolog"

	"moss/engine/fault"
	"moss/engine/record"
	"moss/engine/swarm/table"
	"moss/engine/swarm/tunnel"
)

// keyFile holds the secret of this node's tunnel, beside the record of its membership.
const keyFile = "tunnel.key"

// keyring keeps the secret of this node's tunnel. It is safe for concurrent use.
type keyring struct {
	dir string
	log zerolog.Logger

	mu  sync.Mutex // guards key
	key *tunnel.PrivateKey
}

// publicKey returns the public key of this node.
func (k *keyring) publicKey() (table.Key, error) {
	private, err := k.privateKey()
	if err != nil {
		return table.Key{}, err
	}
	return private.Public()
}

// privateKey returns the secret of this node's tunnel, which is drawn when the node comes into a swarm. A damaged one is drawn
// anew: others learn of the new key.
func (k *keyring) privateKey() (tunnel.PrivateKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.key != nil {
		return *k.key, nil
	}
	path := filepath.Join(k.dir, keyFile)
	var raw []byte
	err := record.Get(path, &raw)
	var key tunnel.PrivateKey
	switch {
	case err == nil && len(raw) == len(key):
		copy(key[:], raw)
	case err == nil || !fault.Is(err, fault.NotFound):
		k.log.Warn().Err(err).Str("file", path).Msg("the key for the swarm's networks is damaged, a new one is drawn")
		fallthrough
	default:
		if key, err = tunnel.NewPrivateKey(); err != nil {
			return key, err
		}
		if err := record.Put(path, key[:]); err != nil {
			return key, fmt.Errorf("keep the key for the swarm's networks: %w", err)
		}
	}
	k.key = &key
	return key, nil
}

// removeKey removes the key.
func (k *keyring) removeKey() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.key = nil
	return record.Remove(filepath.Join(k.dir, keyFile))
}
