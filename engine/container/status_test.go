package container

import (
	"testing"
	"time"
)

func TestStatus(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for _, tc := range []struct {
		record Record
		want   string
	}{
		{Record{State: Created}, "Created"},
		{Record{State: Running, StartedAt: now}, "Up Less than a second"},
		{Record{State: Running, StartedAt: ago(time.Second)}, "Up 1 second"},
		{Record{State: Running, StartedAt: ago(59 * time.Second)}, "Up 59 seconds"},
		{Record{State: Running, StartedAt: ago(time.Minute)}, "Up About a minute"},
		{Record{State: Running, StartedAt: ago(3 * time.Minute)}, "Up 3 minutes"},
		{Record{State: Paused, StartedAt: ago(2 * time.Minute)}, "Up 2 minutes (Paused)"},
		{Record{State: Exited, FinishedAt: ago(time.Hour)}, "Exited (0) About an hour ago"},
		{Record{State: Exited, ExitCode: 137, FinishedAt: ago(47 * time.Hour)}, "Exited (137) 47 hours ago"},
		{Record{State: Exited, FinishedAt: ago(48 * time.Hour)}, "Exited (0) 2 days ago"},
		{Record{State: Exited, FinishedAt: ago(14 * 24 * time.Hour)}, "Exited (0) 2 weeks ago"},
		{Record{State: Exited, FinishedAt: ago(61 * 24 * time.Hour)}, "Exited (0) 2 months ago"},
		{Record{State: Exited, FinishedAt: ago(3 * 365 * 24 * time.Hour)}, "Exited (0) 3 years ago"},
		{Record{State: Restarting, ExitCode: 1, FinishedAt: ago(5 * time.Second)}, "Restarting (1) 5 seconds ago"},
		{Record{State: Removing}, "Removal In Progress"},
		{Record{State: Dead}, "Dead"},
	} {
		if got := Status(&tc.record, now); got != tc.want {
			t.Errorf("Status(%s, %s) = %q, want %q", tc.record.State, now.Sub(tc.record.StartedAt), got, tc.want)
		}
	}
}
