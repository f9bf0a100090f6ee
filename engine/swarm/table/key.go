package table

import (
	"encoding/base64"

	"moss/engine/fault"
)

// Key is the public key of a node's tunnel (Curve25519).
type Key [32]byte

// String returns the key in the form that WireGuard's tools use.
func (k Key) String() string { return base64.StdEncoding.EncodeToString(k[:]) }

// MarshalText is String.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads what MarshalText wrote. Anything else is fault.Invalid.
func (k *Key) UnmarshalText(text []byte) error {
	raw, err := base64.StdEncoding.DecodeString(string(text))
	if err != nil || len(raw) != len(k) {
		return fault.Invalid("invalid public key %q: must be %d bytes in base64", text, len(k))
	}
	copy(k[:], raw)
	return nil
}
