package launch

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"moss/engine/pidfd"
)

// TestRunning: an engine is known by the lock that it holds open, not by a number that stands in a file.
func TestRunning(t *testing.T) {
	own := fmt.Sprintf("pid %d on x\nunix:///s\n", os.Getpid())
	for _, tc := range []struct {
		name, text, at string
		open, found    bool
	}{
		{"held", own, "data/moss", true, true},
		{"held in the folder of this boot alone", fmt.Sprintf("pid %d on x\n", os.Getpid()), "run", true, true},
		{"left by one that was killed, its number another's", own, "data/moss", false, false},
		{"number of nobody", "pid 4194305 on x\n", "data/moss", true, false},
		{"no number", "hello\n", "data/moss", true, false},
		{"empty", "", "data/moss", true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, tc.at, lockName)
			check(t, os.MkdirAll(filepath.Dir(path), 0o700))
			check(t, os.WriteFile(path, []byte(tc.text), 0o600))
			if tc.open {
				file, err := os.Open(path)
				check(t, err)
				defer file.Close() //nolint:errcheck // only read
			}
			s := &Starter{
				Place: Place{RunDir: filepath.Join(dir, "run")},
				Env:   func(name string) string { return map[string]string{"XDG_DATA_HOME": filepath.Join(dir, "data")}[name] },
			}
			engine, found, err := s.Running()
			check(t, err)
			if found != tc.found || found && engine.Process.Pid != os.Getpid() {
				t.Errorf("Running with %q = %v, %t, want %t", tc.text, engine, found, tc.found)
			}
			if found && strings.Contains(tc.text, "unix://") != slices.Contains(engine.Hosts, "unix:///s") {
				t.Errorf("hosts of %q: %q", tc.text, engine.Hosts)
			}
		})
	}
}

func TestRunningNeedsADataFolder(t *testing.T) {
	s := &Starter{Place: Place{RunDir: t.TempDir()}, Env: func(string) string { return "" }}
	if _, _, err := s.Running(); err == nil || !strings.Contains(err.Error(), "no folder for the engine's data") {
		t.Errorf("Running without a home = %v, want the settings' error", err)
	}
}

func TestRefuseRoot(t *testing.T) {
	for _, tc := range []struct {
		uid        int
		sudo, want string
	}{
		{1000, "", ""},
		{1000, "ann", ""},
		{0, "ann", "run this as ann, without sudo"},
		{0, "root", "useradd"},
		{0, "", "su --login"},
	} {
		err := refuseRoot(tc.uid, func(string) string { return tc.sudo })
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("refuseRoot(%d) with SUDO_USER=%q: %v, want %q", tc.uid, tc.sudo, err, tc.want)
		}
	}
}

// withUnits puts a systemctl into PATH that notes its verbs, and makes a user manager's socket. state is what show says.
func withUnits(t *testing.T, s *Starter, state string) (calls func() string) {
	t.Helper()
	base := filepath.Dir(s.Place.RunDir)
	check(t, os.MkdirAll(filepath.Join(base, "systemd"), 0o700))
	check(t, os.WriteFile(filepath.Join(base, "systemd", "private"), nil, 0o600))
	bin, log := t.TempDir(), filepath.Join(t.TempDir(), "calls")
	script := "#!/bin/sh\ncase $2 in show) printf '" + state + "' ;; *) echo \"$*\" >>" + log + " ;; esac\n"
	check(t, os.WriteFile(filepath.Join(bin, "systemctl"), []byte(script), 0o700)) //nolint:gosec // a program
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	return func() string {
		raw, _ := os.ReadFile(log) // no call, no file
		return string(raw)
	}
}

func TestStopByTheUnit(t *testing.T) {
	for _, tc := range []struct {
		name, state string
		sockets     bool
		calls       string
		stopped     bool
	}{
		{"service alone", `ActiveState=active\n`, false, "--user stop moss.service\n", true},
		{"with its socket", `ActiveState=active\n`, true, "--user stop moss.socket moss.service\n", true},
		{"inactive", `ActiveState=inactive\n`, true, "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := starter(t, "serves")
			env := s.Env
			s.Env = func(name string) string {
				if name == "XDG_DATA_HOME" {
					return s.Place.RunDir
				}
				return env(name)
			}
			calls := withUnits(t, s, tc.state)
			stopped, err := s.Stop(t.Context(), tc.sockets)
			if err != nil || stopped != tc.stopped || calls() != tc.calls {
				t.Errorf("Stop = %t, %v after %q, want %t after %q", stopped, err, calls(), tc.stopped, tc.calls)
			}
		})
	}
}

func TestUnitText(t *testing.T) {
	for state, want := range map[string]string{
		`LoadState=loaded\nActiveState=active\nUnitFileState=enabled\n`:    "active, enabled",
		`LoadState=loaded\nActiveState=inactive\nUnitFileState=\n`:         "inactive",
		`LoadState=not-found\nActiveState=inactive\nUnitFileState=\n`:      "",
		`ActiveState=inactive\nUnitFileState=disabled\nLoadState=masked\n`: "",
	} {
		s := starter(t, "serves")
		withUnits(t, s, state)
		if got := s.Unit(t.Context()); got != want {
			t.Errorf("Unit of %q = %q, want %q", state, got, want)
		}
	}
}

// TestStop ends a process that holds the lock, and waits for its end.
func TestStop(t *testing.T) {
	s := starter(t, "holds")
	env := s.Env
	s.Env = func(name string) string {
		if name == "XDG_DATA_HOME" {
			return filepath.Dir(s.Place.RunDir)
		}
		return env(name)
	}
	check(t, prepareRunDir(s.Place.RunDir))
	if stopped, err := s.Stop(t.Context(), true); err != nil || stopped {
		t.Errorf("Stop without an engine = %t, %v", stopped, err)
	}
	pid := startHolder(t, s)
	process, err := pidfd.Find(pid)
	check(t, err)
	if stopped, err := s.Stop(t.Context(), true); err != nil || !stopped || process.Lives() {
		t.Errorf("Stop = %t, %v, the engine lives: %t", stopped, err, process.Lives())
	}
}

func startHolder(t *testing.T, s *Starter) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), s.Binary, "--run-dir", s.Place.RunDir)
	check(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() })
	for late := time.Now().Add(time.Minute); time.Now().Before(late); time.Sleep(time.Millisecond) {
		if engine, found, err := s.Running(); err == nil && found {
			return engine.Process.Pid
		}
	}
	t.Fatal("the engine does not hold its folder")
	return 0
}
