package container

import (
	"fmt"
	"time"
)

// Status is the sentence that lists show: "Up 3 minutes", "Exited (0) 2 hours ago".
func Status(r *Record, now time.Time) string {
	switch r.State {
	case Created:
		return "Created"
	case Running:
		return "Up " + humanDuration(now.Sub(r.StartedAt)) + healthWord(r.Health) + monitorWord(r)
	case Paused:
		return "Up " + humanDuration(now.Sub(r.StartedAt)) + " (Paused)" + monitorWord(r)
	case Restarting:
		return fmt.Sprintf("Restarting (%d) %s ago", r.ExitCode, humanDuration(now.Sub(r.FinishedAt)))
	case Exited:
		return fmt.Sprintf("Exited (%d) %s ago", r.ExitCode, humanDuration(now.Sub(r.FinishedAt)))
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

// humanDuration says roughly how long d is, in the words that users and scripts know from other engines.
func humanDuration(d time.Duration) string {
	const day, week, month, year = 24, 7 * 24, 30 * 24, 365 * 24 // hours
	hours := int(d.Hours() + 0.5)
	switch {
	case d < time.Second:
		return "Less than a second"
	case d < 2*time.Second:
		return "1 second"
	case d < time.Minute:
		return fmt.Sprintf("%d seconds", int(d.Seconds()))
	case d < 2*time.Minute:
		return "About a minute"
	case d < time.Hour:
		return fmt.Sprintf("%d minutes", int(d.Minutes()))
	case hours == 1:
		return "About an hour"
	case hours < 2*day:
		return fmt.Sprintf("%d hours", hours)
	case hours < 2*week:
		return fmt.Sprintf("%d days", hours/day)
	case hours < 2*month:
		return fmt.Sprintf("%d weeks", hours/week)
	case hours < 2*year:
		return fmt.Sprintf("%d months", hours/month)
	default:
		return fmt.Sprintf("%d years", hours/year)
	}
}
