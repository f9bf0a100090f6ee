package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
)

// identifyMachine returns what tells this machine from others, empty where the file is missing. The id itself is confidential
// (machine-id(5)), so a digest of it with this program's name is kept.
func identifyMachine(path string) string {
	raw, err := os.ReadFile(path)
	raw = bytes.TrimSpace(raw)
	if err != nil || len(raw) < 32 {
		return ""
	}
	sum := sha256.Sum256(append([]byte("moss-swarm "), raw...))
	return hex.EncodeToString(sum[:16])
}
