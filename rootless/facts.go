package rootless

import (
	"encoding/json"
	"fmt"
	"os"

	"moss/engine/fault"
	"moss/slirp/uplink"
)

// Facts is what the outer process found out and the engine needs to know.
type Facts struct {
	RunDir         string   // folder of this boot
	Root           string   // data folder
	Hosts          []string // that the outer process opened, as the settings named them
	StateDir       string   // RootlessKit's; holds netns, api.sock and resolv.conf
	Keepalive      string   // FIFO held open by the outer process
	SingleID       bool     // no sub-ids: uid 0 inside is the only id there is
	SingleIDReason string
	Cgroups        Cgroups
	Path           string        // the user's PATH
	Uplink         uplink.Status `json:"-"` // as the engine finds it at its start
}

// EngineFacts reads what the outer process left for the engine and takes it out of the environment. The uplink's status
// was written later, once one of those that are possible here had started.
func EngineFacts() (Facts, error) {
	var f Facts
	if err := json.Unmarshal([]byte(os.Getenv(factsKey)), &f); err != nil {
		return f, fmt.Errorf("read what the outer process found out: %w", err)
	}
	for _, key := range []string{factsKey, engineKey, stateKey} {
		if err := os.Unsetenv(key); err != nil {
			return f, err
		}
	}
	var err error
	// An outer process of an earlier version, which a new engine may find, writes none.
	if f.Uplink, err = uplink.ReadStatus(f.StateDir); err != nil && !fault.Is(err, fault.NotFound) {
		return f, fmt.Errorf("read which uplink there is: %w", err)
	}
	return f, nil
}

func (f Facts) exportToEnv() error {
	raw, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return os.Setenv(factsKey, string(raw))
}
