package lifecycle

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// SeccompCache keeps compiled seccomp filters in files: compiling the default profile takes the runtime longer than all
// the rest of a start. It implements what Options.Seccomp asks for.
type SeccompCache struct {
	dir   string
	stamp string // of the runtime: another version may compile another filter

	mu     sync.Mutex // guards loaded
	loaded map[string][]byte
}

// maxFilter bounds a filter that is taken over, in bytes; the kernel's own bound is 4096 instructions of 8 bytes.
const maxFilter = 4096 * 8

// NewSeccompCache keeps filters in dir, which is made. stamp names the runtime and its version.
func NewSeccompCache(dir, stamp string) (*SeccompCache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return &SeccompCache{dir: dir, stamp: stamp, loaded: map[string][]byte{}}, nil
}

func (s *SeccompCache) path(key string) string {
	sum := sha256.Sum256([]byte(s.stamp + "\x00" + key))
	return filepath.Join(s.dir, hex.EncodeToString(sum[:16])+".bpf")
}

// Get returns the filter kept for key.
func (s *SeccompCache) Get(key string) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if bpf, ok := s.loaded[key]; ok {
		return bpf, true
	}
	raw, err := os.ReadFile(s.path(key)) // a few kilobytes, once per profile
	if err != nil || len(raw) < sha256.Size {
		return nil, false
	}
	bpf := raw[sha256.Size:]
	if sum := s.checksum(key, bpf); !isFilter(bpf) || string(sum[:]) != string(raw[:sha256.Size]) {
		return nil, false // damaged: another filter may let everything pass, or keep every container from starting
	}
	s.loaded[key] = bpf
	return bpf, true
}

// Keep takes over the filter that the runtime left in the file path. A filter that is missing or cannot be kept is
// compiled again at the next start: that is no error.
func (s *SeccompCache) Keep(key, path string) {
	bpf, err := os.ReadFile(path)
	if err != nil || !isFilter(bpf) {
		return
	}
	temp, err := os.CreateTemp(s.dir, "new")
	if err != nil {
		return
	}
	sum := s.checksum(key, bpf)
	_, err = temp.Write(append(sum[:], bpf...))
	if closed := temp.Close(); err != nil || closed != nil || s.replace(temp.Name(), s.path(key)) != nil {
		os.Remove(temp.Name()) //nolint:errcheck // a leftover of a full disk
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loaded[key] = bpf
}

// checksum is what a file begins with: it tells whether the rest is the filter of that key.
func (s *SeccompCache) checksum(key string, bpf []byte) [sha256.Size]byte {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%s\x00%s\x00", s.stamp, key) // a hash takes everything
	_, _ = h.Write(bpf)
	return [sha256.Size]byte(h.Sum(nil))
}

// replace puts a file in place of another one, or of whatever is there.
func (s *SeccompCache) replace(from, to string) error {
	err := os.Rename(from, to)
	if err == nil {
		return nil
	}
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	return os.Rename(from, to)
}

func isFilter(bpf []byte) bool {
	return len(bpf) >= 8 && len(bpf)%8 == 0 && len(bpf) <= maxFilter
}
