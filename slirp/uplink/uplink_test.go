package uplink

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rootless-containers/rootlesskit/v3/pkg/messages"

	"moss/engine/fault"
)

func TestConfigIsChecked(t *testing.T) {
	for _, tc := range []struct {
		name string
		cfg  Config
		want string // in the error; empty: none
	}{
		{"defaults", Config{StateDir: "/s"}, ""},
		{"unknown driver", Config{Driver: "vpnkit", StateDir: "/s"}, `network driver "vpnkit" is unknown`},
		{"small MTU", Config{MTU: 575, StateDir: "/s"}, "576 to 65521"},
		{"large MTU", Config{MTU: 65522, StateDir: "/s"}, "576 to 65521"},
		{"relative directory", Config{StateDir: "s"}, "must be absolute"},
	} {
		got, err := tc.cfg.resolved()
		if tc.want != "" {
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: resolved() = %v, want an Invalid fault with %q", tc.name, err, tc.want)
			}
			if _, _, err := Child(tc.cfg, io.Discard); !fault.Is(err, fault.Invalid) {
				t.Errorf("%s: Child() = %v, want an Invalid fault", tc.name, err)
			}
			continue
		}
		if err != nil || got.Driver != Slirp4netns || got.MTU != DefaultMTU {
			t.Errorf("%s: resolved() = %+v, %v", tc.name, got, err)
		}
	}
}

func TestParentNamesThePackageThatIsMissing(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	add := func(name string) {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct{ driver, pkg, then string }{
		{Slirp4netns, "iproute2", "ip"},
		{Slirp4netns, "util-linux", "nsenter"},
		{Slirp4netns, "package slirp4netns", ""},
		{Pasta, "package passt", ""},
	} {
		_, _, err := Parent(Config{Driver: step.driver, StateDir: t.TempDir()}, io.Discard)
		if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), step.pkg) {
			t.Errorf("Parent(%s) = %v, want an Unavailable fault that names %s", step.driver, err, step.pkg)
		}
		if step.then != "" {
			add(step.then)
		}
	}
	if nd, pd, err := Parent(Config{Driver: None, StateDir: t.TempDir()}, io.Discard); err != nil || nd == nil || pd == nil {
		t.Errorf("Parent(none) = %v, %v, %v; it needs nothing more", nd, pd, err)
	}
	nd, _, err := Parent(Config{Driver: Auto, StateDir: t.TempDir()}, io.Discard)
	if n, ok := nd.(noted); err != nil || !ok || n.status.Driver != Gvisor || !strings.Contains(n.status.Reason, "package passt") {
		t.Errorf("Parent(auto) without any program = %+v, %v; want %s and why", nd, err, Gvisor)
	}
	add("slirp4netns") // one that does not know its own options
	if _, _, err := Parent(Config{StateDir: t.TempDir()}, io.Discard); !fault.Is(err, fault.Unavailable) {
		t.Errorf("Parent with a strange slirp4netns = %v, want an Unavailable fault", err)
	}
	add("pasta") // which says yes to everything, as a new one does
	nd, _, err = Parent(Config{Driver: Auto, StateDir: t.TempDir()}, io.Discard)
	if s, ok := nd.(*supervisor); err != nil || !ok || len(s.programs) != 1 || s.programs[0].name != Pasta || s.programs[0].send != 0 {
		t.Errorf("Parent(auto) with pasta = %+v, %v; want it alone", nd, err)
	}
}

func TestWithoutTunThereIsNoUplink(t *testing.T) {
	bin, missing := t.TempDir(), filepath.Join(t.TempDir(), "tun")
	t.Setenv("PATH", bin)
	for _, name := range []string{"ip", "nsenter"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, driver := range []string{"", Auto} {
		nd, _, err := Parent(Config{Driver: driver, StateDir: t.TempDir(), tun: missing}, io.Discard)
		if n, ok := nd.(noted); err != nil || !ok || n.status.Driver != None || !strings.Contains(n.status.Reason, missing) {
			t.Errorf("Parent(%q) without %s = %+v, %v; want %s and why", driver, missing, nd, err, None)
		}
		child, _, err := Child(Config{Driver: driver, StateDir: t.TempDir()}, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		dev, err := child.ConfigureNetworkChild(&messages.ParentInitNetworkDriverCompleted{}, "")
		info, infoErr := child.ChildDriverInfo()
		if dev != "" || err != nil || infoErr != nil || !info.ConfiguresInterface {
			t.Errorf("Child(%q) without an uplink: %q, %v, %+v, %v", driver, dev, err, info, infoErr)
		}
	}
	for _, driver := range []string{Slirp4netns, Pasta, Gvisor} {
		if _, _, err := Parent(Config{Driver: driver, StateDir: t.TempDir(), tun: missing}, io.Discard); !fault.Is(err, fault.Unavailable) {
			t.Errorf("Parent(%s), named, without %s = %v, want an Unavailable fault", driver, missing, err)
		}
	}
}

func TestCheckTun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tun")
	err := checkTun(path)
	if !fault.Is(err, fault.Unavailable) || !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "modprobe tun") {
		t.Errorf("checkTun of a missing device = %v, want an Unavailable fault with the remedy", err)
	}
	if err := checkTun(os.DevNull); err != nil {
		t.Errorf("checkTun of a device that opens = %v", err)
	}
}

func cmdline(args ...string) []byte { return []byte(strings.Join(args, "\x00") + "\x00") }

func TestServesState(t *testing.T) {
	for _, tc := range []struct {
		name    string
		cmdline []byte
		want    bool
	}{
		{"ours", cmdline("/usr/bin/pasta", "--mtu=1500", "--netns=/proc/12/root/run/user/1/moss/rootlesskit/netns"), true},
		{"ours, vector variant", cmdline("/usr/bin/pasta.avx2", "--netns=/proc/12/root/run/user/1/moss/rootlesskit/netns"), true},
		{"of another engine", cmdline("pasta", "--netns=/proc/12/root/run/user/1/other/rootlesskit/netns"), false},
		{"of a deeper engine", cmdline("pasta", "--netns=/proc/12/root/x/root/run/user/1/moss/rootlesskit/netns"), false},
		{"no process id", cmdline("pasta", "--netns=/proc/self/root/run/user/1/moss/rootlesskit/netns"), false},
		{"an editor", cmdline("vi", "--netns=/proc/12/root/run/user/1/moss/rootlesskit/netns"), false},
		{"another program", cmdline("pastasauce", "--netns=/proc/12/root/run/user/1/moss/rootlesskit/netns"), false},
		{"podman's", cmdline("pasta", "--netns", "/run/user/1/netns/x"), false},
		{"a kernel thread", nil, false},
	} {
		if got := servesState(tc.cmdline, "/run/user/1/moss/rootlesskit/"); got != tc.want {
			t.Errorf("%s: servesState = %v, want %v", tc.name, got, tc.want)
		}
	}
}

func FuzzServesState(f *testing.F) {
	f.Add(cmdline("pasta", "--netns=/proc/12/root/s/netns"))
	f.Add([]byte("pasta\x00--netns=/proc/\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if servesState(data, "/s") && !strings.Contains(string(data), "/root/s/netns") {
			t.Errorf("servesState(%q) is true", data)
		}
	})
}

func TestEndKillsOnlyOurs(t *testing.T) {
	start := func() *exec.Cmd {
		cmd := exec.Command("sleep", "60")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	ours, other := start(), start()
	defer func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	}()
	// A proc of our own says which of the two is a pasta.
	proc := t.TempDir()
	for cmd, state := range map[*exec.Cmd]string{ours: "/s", other: "/elsewhere"} {
		dir := filepath.Join(proc, strconv.Itoa(cmd.Process.Pid))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		line := cmdline("pasta", "--netns=/proc/12/root"+state+"/netns")
		if err := os.WriteFile(filepath.Join(dir, "cmdline"), line, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	waited := make(chan struct{})
	go func() {
		_ = ours.Wait() // killed
		close(waited)
	}()
	p := orphans{procDir: proc, stateDir: "/s"}
	if err := p.killAll(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-waited:
	case <-time.After(time.Minute):
		t.Fatal("ours still runs")
	}
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the other one: %v", err)
	}
	if err := p.killAll(); err != nil {
		t.Errorf("end again, with a process that is gone: %v", err)
	}
}

func TestExplainPasta(t *testing.T) {
	if err := explainPasta(nil); err != nil {
		t.Errorf("explain(nil) = %v", err)
	}
	said := "pasta failed with exit code 1:\nFailed to send 46 bytes to syslog\nNo external routable interface for IPv4\n"
	err := explainPasta(errors.New(said))
	want := "pasta needs a default IPv4 route on the host: add one, or use --network-driver=slirp4netns: " +
		"pasta failed with exit code 1: No external routable interface for IPv4"
	if !fault.Is(err, fault.Unavailable) || err.Error() != want {
		t.Errorf("explain = %v, want an Unavailable that says %q", err, want)
	}
	said = "a\n\nb\n"
	if err := explainPasta(errors.New(said)); fault.Is(err, fault.Unavailable) || err.Error() != "a; b" {
		t.Errorf("explain of something else = %v, want \"a; b\"", err)
	}
}
