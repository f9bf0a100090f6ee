package container

import (
	"fmt"
	"time"

	"github.com/docker/go-units"
)

// Status is the sentence that lists show: "Up 3 minutes", "Exited (0) 2 hours ago".
func Status(r *Record, now time.Time) string {
	switch r.State {
	case Created:
		return "Created"
	case Running:
		return "Up " + units.HumanDuration(now.Sub(r.StartedAt)) + healthWord(r.Health) + monitorWord(r)
	case Paused:
		return "Up " + units.HumanDuration(now.Sub(r.StartedAt)) + " (Paused)" + monitorWord(r)
	case Restarting:
		return fmt.Sprintf("Restarting (%d) %s ago", r.ExitCode, units.HumanDuration(now.Sub(r.FinishedAt)))
	case Exited:
		return fmt.Sprintf("Exited (%d) %s ago", r.ExitCode, units.HumanDuration(now.Sub(r.FinishedAt)))
	case Removing:
		return "Removal In Progress"
	case Dead:
		return "Dead"
	default:
		return ""
	}
}

// healthWord is what the sentence says of health; nothing without a health check.
func healthWord(h *Health) string {
	switch {
	case h == nil:
		return ""
	case h.Status == HealthStarting:
		return " (health: starting)"
	default:
		return " (" + h.Status + ")"
	}
}

// monitorWord says that what is shown may be out of date.
func monitorWord(r *Record) string {
	if !r.MonitorSilent {
		return ""
	}
	return " (monitor does not answer)"
}
