package proc

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

const self = Dir("/proc")

// tree makes a proc of the given files below a new folder.
func tree(t *testing.T, files map[string]string) Dir {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Dir(dir)
}

const statLine = "4242 (a) R 1 (b\n) S 17 4242 4000 34817 4242 4194304 120 60 7 8 250 50 1000 2000 20 0 3 0 987654 2322432 380 " +
	"18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0\n"

func TestParseStat(t *testing.T) {
	got, err := parseStat([]byte(statLine))
	want := Stat{
		Pid: 4242, Command: "a) R 1 (b\n", State: 'S', Parent: 17, Group: 4242, Session: 4000, TTY: 34817, Foreground: 4242,
		MinorFaults: 120, ChildMinor: 60, MajorFaults: 7, ChildMajor: 8, User: 250, System: 50, ChildUser: 1000, ChildSystem: 2000,
		Priority: 20, Threads: 3, Start: 987654, Virtual: 2322432, Resident: 380, Processor: 1,
	}
	if err != nil || got != want {
		t.Errorf("parseStat = %+v, %v, want %+v", got, err, want)
	}
	for _, bad := range []string{
		"", "4242", "x (a) S", "4242 (a", strings.Replace(statLine, "S 17", "S x", 1), strings.Replace(statLine, " 250 ", " -1 ", 1),
		strings.Replace(statLine, " 1000 ", " x ", 1), strings.Replace(statLine, ") S ", ") SS ", 1), strings.Replace(statLine, "4242 (", "x (", 1),
	} {
		if got, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("parseStat(%q) = %+v, want an error", bad, got)
		}
	}
}

// TestSelf reads this test's own process: the kernel's formats are what the parsers take them for.
func TestSelf(t *testing.T) {
	pid := os.Getpid()
	s, err := self.Stat(pid)
	if err != nil || s.Pid != pid || s.Parent != os.Getppid() || s.Threads < 1 || s.Resident == 0 {
		t.Errorf("Stat = %+v, %v", s, err)
	}
	if args, err := self.Args(pid); err != nil || !reflect.DeepEqual(args, os.Args) {
		t.Errorf("Args = %q, %v, want %q", args, err, os.Args)
	}
	if s, err := self.Status(pid); err != nil || s.User != os.Geteuid() || s.RealGroup != os.Getgid() || s.Resident == 0 {
		t.Errorf("Status = %+v, %v", s, err)
	}
	if m, err := self.Memory(pid); err != nil || m.Anonymous == 0 || m.File == 0 {
		t.Errorf("Memory = %+v, %v", m, err)
	}
	if _, _, err := self.IO(pid); err != nil {
		t.Errorf("IO: %v", err)
	}
	if paths, err := self.Cgroups(pid); err != nil || len(paths) == 0 {
		t.Errorf("Cgroups = %v, %v", paths, err)
	}
	if same, err := self.SharesNetwork(pid); err != nil || !same {
		t.Errorf("SharesNetwork = %v, %v, want true", same, err)
	}
	if all, err := self.Network(pid); err != nil || len(all) == 0 {
		t.Errorf("Network = %v, %v", all, err)
	}
	machine, err := self.Machine()
	if err != nil || len(machine.Online) == 0 || machine.CPU == 0 {
		t.Errorf("Machine = %+v, %v", machine, err)
	}
	uptime, err := self.Uptime()
	if age := uptime - time.Duration(s.Start)*Tick; err != nil || age < 0 || age > time.Hour {
		t.Errorf("this process is %v old, %v", age, err)
	}
	if total, err := self.MemTotal(); err != nil || total < 64<<20 {
		t.Errorf("MemTotal = %d, %v", total, err)
	}
}

func TestZombie(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait() //nolint:errcheck // It ends by itself.
	pid := cmd.Process.Pid
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if s, err := self.Stat(pid); err == nil && s.State == 'Z' {
			break
		}
		if time.Now().After(end) {
			t.Fatal("no zombie")
		}
	}
	if args, err := self.Args(pid); err != nil || len(args) != 0 {
		t.Errorf("Args of a zombie = %q, %v, want none", args, err)
	}
	if _, err := self.Status(pid); err != nil {
		t.Errorf("Status of a zombie: %v", err)
	}
}

func TestMemory(t *testing.T) {
	d := tree(t, map[string]string{
		"1/smaps_rollup": "5-7 ---p 0 0:0 0 [rollup]\nRss:  1664 kB\nPss:  320 kB\nPss_Anon:  116 kB\nPss_File:  200 kB\nPss_Shmem:  4 kB\n",
		"2/smaps_rollup": "", "3/smaps_rollup": "Pss_Anon:\n", "4/smaps_rollup": "Pss_Anon: 99999999999999999999 kB\n",
		"5/smaps_rollup": "Pss_Anon: 18446744073709551615 kB\n",
	})
	if got, err := d.Memory(1); err != nil || got != (Memory{Anonymous: 116 << 10, File: 200 << 10, Shared: 4 << 10}) {
		t.Errorf("Memory = %+v, %v", got, err)
	}
	if got, err := d.Memory(2); err != nil || got != (Memory{}) {
		t.Errorf("Memory of a kernel thread = %+v, %v, want zero", got, err)
	}
	for _, pid := range []int{3, 4, 5, 6} {
		if got, err := d.Memory(pid); err == nil {
			t.Errorf("Memory(%d) = %+v, want an error", pid, got)
		}
	}
}

func TestIO(t *testing.T) {
	d := tree(t, map[string]string{
		"1/io": "rchar: 5\nwchar: 6\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 1\n", "2/io": "read_bytes: x\n",
	})
	if r, w, err := d.IO(1); r != 4096 || w != 8192 || err != nil {
		t.Errorf("IO = %d, %d, %v", r, w, err)
	}
	if _, _, err := d.IO(2); err == nil {
		t.Error("IO of garbage is no error")
	}
}

func TestCgroups(t *testing.T) {
	d := tree(t, map[string]string{"1/cgroup": "9:name=systemd:/a\n3:cpu,cpuacct:/b:c\n0::/u\n", "2/cgroup": "nonsense\n"})
	want := map[string]string{"systemd": "/a", "cpu": "/b:c", "cpuacct": "/b:c", "": "/u"}
	if got, err := d.Cgroups(1); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Cgroups = %v, %v, want %v", got, err, want)
	}
	if _, err := d.Cgroups(2); err == nil {
		t.Error("Cgroups of garbage is no error")
	}
}

const netDev = "Inter-|   Receive | Transmit\n face |bytes packets\n" +
	"    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\neth0:18446744073709551615 2 0 0 0 0 0 0 7 0 0 0 0 0 0 0\n"

func TestParseNetwork(t *testing.T) {
	want := map[string]Interface{
		"lo":   {RxBytes: 1, RxPackets: 2, RxErrors: 3, RxDropped: 4, TxBytes: 9, TxPackets: 10, TxErrors: 11, TxDropped: 12},
		"eth0": {RxBytes: math.MaxUint64, RxPackets: 2, TxBytes: 7},
	}
	if got, err := parseNetwork(netDev); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("parseNetwork = %v, %v, want %v", got, err, want)
	}
	for _, bad := range []string{"eth0: 1 2\n", strings.Replace(netDev, " 9 ", " x ", 1)} {
		if _, err := parseNetwork(bad); err == nil {
			t.Errorf("parseNetwork(%q) is no error", bad)
		}
	}
}

const machineStat = "cpu  100 1 20 3000 4 0 5 600 0 0\ncpu0 50 1 10 1500 2 0 3 300 0 0\ncpu2 50 0 10 1500 2 0 2 300 0 0\n" +
	"intr 5\nctxt 7\nbtime 1448064000\nprocesses 9\n"

func TestParseMachine(t *testing.T) {
	const ticks = 100 + 1 + 20 + 3000 + 4 + 0 + 5
	want := Machine{CPU: ticks * uint64(Tick), Online: []int{0, 2}, Boot: time.Unix(1448064000, 0)}
	if got, err := parseMachine(machineStat); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("parseMachine = %+v, %v, want %+v", got, err, want)
	}
	for _, bad := range []string{"cpu x\n", "cpux 1\n", "btime x\n"} {
		if _, err := parseMachine(bad); err == nil {
			t.Errorf("parseMachine(%q) is no error", bad)
		}
	}
}

func TestUptime(t *testing.T) {
	for text, want := range map[string]time.Duration{"3600.25 7000.00\n": 3600250 * time.Millisecond, "0.00 0\n": 0, "x": -1, "-1 0": -1, "1e30 0": -1, "NaN 0": -1} {
		got, err := tree(t, map[string]string{"uptime": text}).Uptime()
		if (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("Uptime of %q = %v, %v, want %v", text, got, err, want)
		}
	}
}

func FuzzStat(f *testing.F) {
	f.Add([]byte(statLine))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := parseStat(raw)
		if err == nil && !strings.Contains(string(raw), "("+s.Command+")") {
			t.Errorf("parseStat(%q) has the command %q", raw, s.Command)
		}
	})
}

func FuzzNetwork(f *testing.F) {
	f.Add(netDev)
	f.Fuzz(func(t *testing.T, text string) {
		if all, err := parseNetwork(text); err == nil && len(all) > strings.Count(text, ":") {
			t.Errorf("parseNetwork(%q) = %v", text, all)
		}
	})
}

func FuzzMachine(f *testing.F) {
	f.Add(machineStat)
	f.Fuzz(func(t *testing.T, text string) {
		if m, err := parseMachine(text); err == nil && len(m.Online) > strings.Count(text, "cpu") {
			t.Errorf("parseMachine(%q) = %+v", text, m)
		}
	})
}
