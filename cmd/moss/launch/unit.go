package launch

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// unitState says what systemd's user manager has to do with the engine.
type unitState int

const (
	unitNone    unitState = iota // no manager, or no unit that is active or enabled
	unitActive                   // a unit is active or becoming so
	unitEnabled                  // a unit is enabled and stands
)

// unit asks the user manager for moss.service and moss.socket. Without a manager it costs one stat.
func (s *Starter) unit(ctx context.Context) unitState {
	manager := filepath.Join(filepath.Dir(s.Place.RunDir), "systemd", "private")
	if _, err := os.Stat(manager); err != nil {
		return unitNone
	}
	ctx, cancel := context.WithTimeout(ctx, unitTimeout)
	defer cancel()
	ask := exec.CommandContext(ctx, "systemctl", "--user", "show", "--property=ActiveState,UnitFileState",
		"moss.service", "moss.socket")
	out, err := ask.Output()
	if err != nil {
		return unitNone
	}
	return unitStateOf(string(out))
}

func unitStateOf(text string) unitState {
	state := unitNone
	for line := range strings.Lines(text) {
		switch strings.TrimSpace(line) {
		case "ActiveState=active", "ActiveState=activating", "ActiveState=reloading":
			return unitActive
		case "UnitFileState=enabled", "UnitFileState=enabled-runtime":
			state = unitEnabled
		}
	}
	return state
}

// leaveToUnit waits for a unit that is in charge; a second engine beside it would be refused.
func (s *Starter) leaveToUnit(ctx context.Context, state unitState) error {
	if state == unitEnabled {
		return errors.New("moss.service is enabled but stands; start it with 'systemctl --user start moss.socket moss.service'")
	}
	never := make(chan error)
	return s.await(ctx, never, func() string { return "see 'systemctl --user status moss.service'" })
}
