package executor

import (
	"testing"

	"github.com/moby/swarmkit/v2/api"
)

func TestIsEndSignal(t *testing.T) {
	for _, tc := range []struct {
		signal, stopSignal string
		want               bool
	}{
		{"15", "", true},
		{"9", "INT", true},
		{"1", "", false},
		{"2", "", false},
		{"2", "INT", true},
		{"2", "sigint", true},
		{"2", "2", true},
		{"3", "2", false},
		{"37", "SIGRTMIN+3", true},
		{"37", "RTMIN+3", true},
		{"1", "RTMIN+3", false},
		{"0", "NONSENSE", false},
		{"", "", false},
	} {
		if got := isEndSignal(tc.signal, tc.stopSignal); got != tc.want {
			t.Errorf("isEndSignal(%q, %q) = %t, want %t", tc.signal, tc.stopSignal, got, tc.want)
		}
	}
}

// TestClosedTaskIsForgotten: its container is left over from then on.
func TestClosedTaskIsForgotten(t *testing.T) {
	r := newRig(t, 0)
	j := r.newJob(nil)
	j.advance(api.TaskStateReady)
	_ = j.ctlr.Close()
	r.x.Volumes()
	r.awaitNames("")
}
