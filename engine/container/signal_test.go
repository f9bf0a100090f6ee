package container

import (
	"testing"

	"moss/engine/fault"
)

func TestParseSignal(t *testing.T) {
	for s, want := range map[string]int{
		"SIGTERM": 15, "term": 15, "Term": 15, "sigkill": 9, "9": 9, "15": 15, "1": 1, "64": 64, "HUP": 1, "SIGUSR2": 12,
		"SIGWINCH": 28, "RTMIN": 34, "SIGRTMIN+3": 37, "rtmax-1": 63, "SIGRTMAX": 64, "SIGRTMIN+30": 64, "IOT": 6, "POLL": 29,
	} {
		if got, err := ParseSignal(s); err != nil || got != want {
			t.Errorf("ParseSignal(%q) = %d, %v, want %d", s, got, err, want)
		}
	}
	for _, s := range []string{
		"", "0", "65", "-1", "+9", "SIG", "SIGFOO", "SIGRTMIN+", "SIGRTMIN-1", "SIGRTMIN+31", "RTMAX-31", "RTMAX+1", "RTMIN+x",
		"9 ", "256", "SIGSIGTERM", "15.0",
	} {
		if got, err := ParseSignal(s); !fault.Is(err, fault.Invalid) || err.Error() != "Invalid signal: "+s {
			t.Errorf("ParseSignal(%q) = %d, %v, want Invalid signal: %s", s, got, err, s)
		}
	}
}

func FuzzParseSignal(f *testing.F) {
	for _, s := range []string{"SIGTERM", "9", "RTMIN+3", "RTMAX-1", "SIGRTMIN+99999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := ParseSignal(s); err == nil && (n < 1 || n > 64) {
			t.Errorf("ParseSignal(%q) = %d", s, n)
		}
	})
}
