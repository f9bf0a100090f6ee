package launch

import (
	"context"
	"errors"
	"fmt"
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

// queryUnitState asks the user manager for moss.service and moss.socket. Without a manager it costs one stat.
func (s *Starter) queryUnitState(ctx context.Context) unitState {
	return unitStateOf(s.showUnits(ctx, "ActiveState,UnitFileState", service, socket))
}

// The units of systemd's user manager.
const (
	service = "moss.service"
	socket  = "moss.socket"
)

// showUnits asks the user manager for properties of units; the answer is empty without a manager, which costs one stat.
func (s *Starter) showUnits(ctx context.Context, properties string, units ...string) string {
	manager := filepath.Join(filepath.Dir(s.Place.RunDir), "systemd", "private")
	if _, err := os.Stat(manager); err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, unitTimeout)
	defer cancel()
	ask := exec.CommandContext(ctx, "systemctl", append([]string{"--user", "show", "--property=" + properties}, units...)...)
	out, err := ask.Output()
	if err != nil {
		return ""
	}
	return string(out)
}

// Unit returns what the user manager says of moss.service, such as "active, enabled"; empty if it knows no such unit.
func (s *Starter) Unit(ctx context.Context) string {
	known := map[string]string{}
	for line := range strings.Lines(s.showUnits(ctx, "LoadState,ActiveState,UnitFileState", service)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		known[key] = value
	}
	if known["LoadState"] != "loaded" {
		return ""
	}
	return strings.TrimSuffix(known["ActiveState"]+", "+known["UnitFileState"], ", ")
}

// Waits reports whether systemd listens at the socket, and starts an engine for whoever connects.
func (s *Starter) Waits(ctx context.Context) bool { return s.inCharge(ctx, socket) }

// inCharge reports whether a unit is active.
func (s *Starter) inCharge(ctx context.Context, unit string) bool {
	return unitStateOf(s.showUnits(ctx, "ActiveState", unit)) == unitActive
}

// runSystemctl has the user manager do something with units, and waits until it is done.
func runSystemctl(ctx context.Context, verb string, units ...string) error {
	out, err := exec.CommandContext(ctx, "systemctl", append([]string{"--user", verb}, units...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("systemctl --user %s %s: %w: %s", verb, strings.Join(units, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
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
		return errors.New("moss.service is enabled but not running; start it with 'moss system start'")
	}
	never := make(chan error)
	return s.awaitAnswer(ctx, never, func() string { return "see 'systemctl --user status moss.service'" })
}
