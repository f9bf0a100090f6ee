package stats

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"moss/engine/fault"
	"moss/engine/stats/proc"
)

const ctrID = "4fa6e0f0c6786287e131c3852c58a2e01cc697a68231826813597e4994f1d6e2"

// plant writes files below a folder; a text that begins with -> makes a symbolic link.
func plant(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if target, link := strings.CutPrefix(text, "->"); err == nil && link {
			err = os.Symlink(target, path)
		} else if err == nil {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// machine is a proc with two CPUs and one process, 42, and another, 43, below it.
func machine() map[string]string {
	stat := func(pid, times string) string {
		return pid + " (sh) S 1 1 1 0 -1 0 100 10 2 1 " + times + " 20 0 3 0 5 1000 10 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0\n"
	}
	return map[string]string{
		"stat": "cpu  100 0 0 900 0 0 0 0\ncpu0 1 0 0 0\ncpu2 1 0 0 0\nbtime 1448064000\n", "meminfo": "MemTotal:  1048576 kB\n",
		"self/ns/net": "->net:[1]", "42/ns/net": "->net:[2]", "42/cgroup": "0::/user\n",
		"42/net/dev": "head\nlo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\neth0: 10 2 1 3 0 0 0 0 20 4 5 6 0 0 0 0\n",
		"42/stat":    stat("42", "5 6 70 80"), "43/stat": stat("43", "1 2 0 0"),
		"42/smaps_rollup": "Pss_Anon: 100 kB\nPss_File: 20 kB\nPss_Shmem: 4 kB\n", "43/smaps_rollup": "Pss_Anon: 10 kB\n",
		"42/io": "read_bytes: 4096\nwrite_bytes: 1\n", "43/io": "read_bytes: 1\nwrite_bytes: 2\n",
	}
}

// read takes a reading of process 42 with what the trees hold.
func read(t *testing.T, procs, cgroups map[string]string, pids []int, pidsErr error) (*Sample, error) {
	t.Helper()
	procDir, cgroupDir := t.TempDir(), t.TempDir()
	plant(t, procDir, procs)
	plant(t, cgroupDir, cgroups)
	r := &reading{
		proc: proc.Dir(procDir), cgroups: cgroupDir, pid: 42, id: ctrID, pids: func() ([]int, error) { return pids, pidsErr },
	}
	return r.readSample()
}

const gib = 1 << 30

func TestReadProcesses(t *testing.T) {
	got, err := read(t, machine(), nil, []int{42, 43, 44}, nil) // 44 has just ended
	if err != nil {
		t.Fatal(err)
	}
	tick := uint64(proc.Tick)
	faults := map[string]uint64{"rss": 110 << 10, "mapped_file": 24 << 10, "pgfault": 2 * 113, "pgmajfault": 2 * 3}
	for name, n := range maps.Clone(faults) {
		faults["total_"+name] = n
	}
	want := &Sample{
		Read: got.Read,
		CPU: CPU{
			Total: (5 + 6 + 70 + 80 + 3) * tick, User: (5 + 70 + 1) * tick, Kernel: (6 + 80 + 2) * tick,
			PerCPU: []uint64{0, 0}, Online: 2, System: 1000 * tick,
		},
		Memory: Memory{Usage: 134 << 10, Limit: gib, Details: faults}, Tasks: Tasks{Count: 6},
		BlockIO:  BlockIO{Bytes: []IO{{Op: "Read", Value: 4097}, {Op: "Write", Value: 3}}},
		Networks: map[string]Interface{"eth0": {RxBytes: 10, RxPackets: 2, RxErrors: 1, RxDropped: 3, TxBytes: 20, TxPackets: 4, TxErrors: 5, TxDropped: 6}},
	}
	if !reflect.DeepEqual(got, want) || time.Since(got.Read) > time.Minute {
		t.Errorf("take = %+v\nwant %+v", got, want)
	}
}

func TestReadUnreadableProcess(t *testing.T) {
	procs := machine()
	procs["42/smaps_rollup"], procs["42/io"] = "Pss_Anon: x\n", "read_bytes: x\n"
	got, err := read(t, procs, nil, []int{42}, nil)
	if want := uint64(10 * os.Getpagesize()); err != nil || got.Memory.Usage != want || got.BlockIO.Bytes[0].Value != 0 {
		t.Errorf("take = %+v, %v, want the resident %d bytes and no I/O", got, err, want)
	}
}

func TestReadWithoutNetwork(t *testing.T) {
	host, none := machine(), machine()
	host["42/ns/net"] = "->net:[1]"
	none["42/net/dev"] = "head\nlo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n"
	for name, procs := range map[string]map[string]string{"host": host, "none": none} {
		if got, err := read(t, procs, nil, []int{42}, nil); err != nil || len(got.Networks) != 0 {
			t.Errorf("%s: networks = %v, %v, want none", name, got, err)
		}
	}
}

func TestReadFails(t *testing.T) {
	broken := func(file, text string) map[string]string {
		procs := machine()
		procs[file] = text
		return procs
	}
	for name, procs := range map[string]map[string]string{
		"stat": broken("stat", "cpu x\n"), "meminfo": broken("meminfo", "none\n"), "cgroup": broken("42/cgroup", "x\n"),
		"process": broken("42/stat", "x\n"), "network": broken("42/net/dev", "eth0: 1\n"),
	} {
		if got, err := read(t, procs, nil, []int{42}, nil); err == nil {
			t.Errorf("%s: take = %+v, want an error", name, got)
		}
	}
	if _, err := read(t, machine(), nil, nil, fault.Unavailable("no shim")); !fault.Is(err, fault.Unavailable) {
		t.Errorf("take without pids = %v, want what asking for them gave", err)
	}
}

// TestReadLegacy has the process deeper than the container's own cgroup, and no blkio hierarchy: that part is added up
// from the processes.
func TestReadLegacy(t *testing.T) {
	procs := machine()
	own := "/user/moss-1/" + ctrID
	procs["42/cgroup"] = "5:memory:" + own + "/init\n4:cpu:" + own + "\n3:cpuacct:" + own + "\n2:pids:" + own + "\n1:blkio:/\n0::/\n"
	own = own[1:]
	cgroups := map[string]string{
		"cpuacct/" + own + "/cpuacct.usage": "5001\n", "cpuacct/" + own + "/cpuacct.stat": "user 3\nsystem 4\n",
		"cpuacct/" + own + "/cpuacct.usage_percpu": "1000 0 4000 \n",
		"cpu/" + own + "/cpu.stat":                 "nr_periods 7\nnr_throttled 2\nthrottled_time 900\n",
		"memory/" + own + "/memory.usage_in_bytes": "4096\n", "memory/" + own + "/memory.max_usage_in_bytes": "8192\n",
		"memory/" + own + "/memory.limit_in_bytes": "33554432\n", "memory/" + own + "/memory.failcnt": "3\n",
		"memory/" + own + "/memory.stat": "cache 5\ntotal_inactive_file 6\n", "pids/" + own + "/pids.current": "9\n",
	}
	got, err := read(t, procs, cgroups, []int{42}, nil)
	if err != nil {
		t.Fatal(err)
	}
	wantCPU := CPU{
		Total: 5000, User: 3 * uint64(proc.Tick), Kernel: 4 * uint64(proc.Tick), PerCPU: []uint64{1000, 4000}, System: 1000 * uint64(proc.Tick),
		Online: 2, Periods: 7, ThrottledPeriods: 2, ThrottledTime: 900,
	}
	wantMemory := Memory{Usage: 4096, MaxUsage: 8192, Limit: 32 << 20, Failures: 3, Details: map[string]uint64{"cache": 5, "total_inactive_file": 6}}
	if !reflect.DeepEqual(got.CPU, wantCPU) || !reflect.DeepEqual(got.Memory, wantMemory) || got.Tasks.Count != 9 {
		t.Errorf("take = %+v\nwant %+v, %+v, 9 tasks", got, wantCPU, wantMemory)
	}
	if want := (BlockIO{Bytes: []IO{{Op: "Read", Value: 4096}, {Op: "Write", Value: 1}}}); !reflect.DeepEqual(got.BlockIO, want) {
		t.Errorf("block I/O = %+v, want %+v", got.BlockIO, want)
	}
	cgroups["memory/"+own+"/memory.limit_in_bytes"] = "9223372036854771712\n"
	if got, err := read(t, procs, cgroups, []int{42}, nil); err != nil || got.Memory.Limit != gib {
		t.Errorf("no limit = %+v, %v, want the machine's memory", got, err)
	}
}

func TestReadLegacyBlockIO(t *testing.T) {
	procs := machine()
	procs["42/cgroup"] = "1:blkio:/" + ctrID + "\n"
	dir := "blkio/" + ctrID + "/"
	got, err := read(t, procs, map[string]string{
		dir + "blkio.throttle.io_service_bytes_recursive": "8:0 Read 4096\n8:0 Write 8192\n8:0 Total 12288\nTotal 12288\n",
		dir + "blkio.throttle.io_serviced":                "8:0 Read 1\n",
		dir + "blkio.bfq.time_recursive":                  "8:0 77\n", dir + "blkio.bfq.sectors_recursive": "", dir + "blkio.bfq.io_queued_recursive": "253:1 Async 2\n",
	}, []int{42}, nil)
	want := BlockIO{
		Bytes:      []IO{{8, 0, "Read", 4096}, {8, 0, "Write", 8192}, {8, 0, "Total", 12288}},
		Operations: []IO{{8, 0, "Read", 1}}, Time: []IO{{8, 0, "", 77}}, Queued: []IO{{253, 1, "Async", 2}},
	}
	if err != nil || !reflect.DeepEqual(got.BlockIO, want) {
		t.Errorf("block I/O = %+v, %v, want %+v", got.BlockIO, err, want)
	}
}

// TestReadLegacyBlockIOSilent has the files, but the kernel counts nothing in them.
func TestReadLegacyBlockIOSilent(t *testing.T) {
	procs := machine()
	procs["42/cgroup"] = "1:blkio:/" + ctrID + "\n"
	got, err := read(t, procs, map[string]string{"blkio/" + ctrID + "/blkio.throttle.io_service_bytes": "Total 0\n"}, []int{42}, nil)
	if want := []IO{{Op: "Read", Value: 4096}, {Op: "Write", Value: 1}}; err != nil || !reflect.DeepEqual(got.BlockIO.Bytes, want) {
		t.Errorf("block I/O = %+v, %v, want the process's %+v", got.BlockIO, err, want)
	}
}

func TestReadUnified(t *testing.T) {
	procs := machine()
	own := "user.slice/moss-1/" + ctrID
	procs["42/cgroup"] = "0::/" + own + "\n"
	files := map[string]string{
		"cpu.stat":       "usage_usec 50\nuser_usec 30\nsystem_usec 20\nnr_periods 7\nnr_throttled 2\nthrottled_usec 9\nnice_usec 0\n",
		"memory.current": "4096\n", "memory.peak": "8192\n", "memory.max": "max\n", "memory.events": "low 0\nmax 3\noom 1\n",
		"memory.stat":  "anon 1000\nfile 2000\nkernel 5\ninactive_file 300\nfile_mapped 7\nanon_thp 8\nfile_writeback 9\npgfault 10\n",
		"pids.current": "5\n", "io.stat": "8:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=3 dios=4 cost.usage=5\n253:0 \n",
	}
	at := func(files map[string]string) map[string]string {
		all := map[string]string{}
		for name, text := range files {
			all[own+"/"+name] = text
		}
		return all
	}
	got, err := read(t, procs, at(files), nil, errors.New("nobody needs the processes"))
	if err != nil {
		t.Fatal(err)
	}
	wantCPU := CPU{
		Total: 50000, User: 30000, Kernel: 20000, PerCPU: []uint64{0, 0}, System: 1000 * uint64(proc.Tick), Online: 2,
		Periods: 7, ThrottledPeriods: 2, ThrottledTime: 9000,
	}
	if !reflect.DeepEqual(got.CPU, wantCPU) || got.Tasks.Count != 5 {
		t.Errorf("take = %+v, want %+v and 5 tasks", got, wantCPU)
	}
	m := got.Memory
	if m.Usage != 4096 || m.MaxUsage != 8192 || m.Limit != gib || m.Failures != 3 {
		t.Errorf("memory = %+v", m)
	}
	for name, want := range map[string]uint64{
		"anon": 1000, "rss": 1000, "total_rss": 1000, "file": 2000, "cache": 2000, "inactive_file": 300, "total_inactive_file": 300,
		"mapped_file": 7, "rss_huge": 8, "writeback": 9, "pgfault": 10, "hierarchical_memory_limit": gib, "kernel": 5,
	} {
		if n, ok := m.Details[name]; n != want || !ok {
			t.Errorf("memory detail %s = %d, %v, want %d", name, n, ok, want)
		}
	}
	wantIO := BlockIO{
		Bytes:      []IO{{8, 0, "Read", 4096}, {8, 0, "Write", 8192}, {8, 0, "Discard", 3}},
		Operations: []IO{{8, 0, "Read", 1}, {8, 0, "Write", 2}, {8, 0, "Discard", 4}},
	}
	if !reflect.DeepEqual(got.BlockIO, wantIO) {
		t.Errorf("block I/O = %+v, want %+v", got.BlockIO, wantIO)
	}

	files["memory.max"] = "33554432\n"
	delete(files, "pids.current") // that controller was not handed down
	if got, err := read(t, procs, at(files), []int{42}, nil); err != nil || got.Memory.Limit != 32<<20 || got.Tasks.Count != 3 {
		t.Errorf("with a limit = %+v, %v, want it, and the threads counted", got, err)
	}
}

func TestReadBrokenCgroup(t *testing.T) {
	procs := machine()
	procs["42/cgroup"] = "2:memory:/" + ctrID + "\n1:blkio:/" + ctrID + "\n0::/" + ctrID + "\n"
	for name, cgroups := range map[string]map[string]string{
		"usage": {"memory/" + ctrID + "/memory.usage_in_bytes": "x\n"}, "stat": {ctrID + "/cpu.stat": "usage_usec\n"},
		"blkio": {"blkio/" + ctrID + "/blkio.throttle.io_service_bytes": "8 Read 1\n"},
		"io":    {ctrID + "/io.stat": "8:0 rbytes=x\n"}, "limit": {ctrID + "/memory.current": "1\n", ctrID + "/memory.max": "some\n"},
	} {
		if got, err := read(t, procs, cgroups, []int{42}, nil); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), ctrID) {
			t.Errorf("%s: take = %+v, %v, want fault.Invalid with the file's name", name, got, err)
		}
	}
}

func TestOwnGroup(t *testing.T) {
	for _, tc := range []struct{ path, want string }{
		{"/a/" + ctrID, "/h/a/" + ctrID},
		{"/" + ctrID + "/deep/er", "/h/" + ctrID},
		{"/a/x" + ctrID, ""},
		{"/a/" + ctrID + "x", ""},
		{"/", ""},
		{"", ""},
	} {
		if got := ownGroup("/h", tc.path, ctrID); got != tc.want {
			t.Errorf("ownGroup(%q) = %q, want %q", tc.path, got, tc.want)
		}
	}
}

func TestSteady(t *testing.T) {
	var s steady
	start := time.Now()
	for i, tc := range []struct {
		start      time.Time
		read, want uint64
	}{
		{start, 10, 10}, {start, 30, 30}, {start, 5, 30}, {start, 8, 33}, {start, 2, 33}, {start.Add(time.Second), 1, 1},
	} {
		c := CPU{Total: tc.read, User: tc.read}
		if s.makeMonotonic(&c, tc.start); c.Total != tc.want || c.User != tc.want || c.Kernel != 0 {
			t.Errorf("step %d: %d after hold = %+v, want %d", i, tc.read, c, tc.want)
		}
	}
}

func FuzzCgroupFiles(f *testing.F) {
	f.Add("cache 5\nrss 6\n")
	f.Add("8:0 Read 4096\nTotal 5\n")
	f.Add("8:0 rbytes=4096 wios=2\n")
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Count(text, "\n") + 1
		if all, err := parseCounters(text); err == nil && len(all) > lines {
			t.Errorf("parseCounters(%q) = %v", text, all)
		}
		if all, err := parseBlkio(text); err == nil && len(all) > lines {
			t.Errorf("parseBlkio(%q) = %v", text, all)
		}
		if a, b, err := parseIOStat(text); err == nil && len(a)+len(b) > strings.Count(text, "=") {
			t.Errorf("parseIOStat(%q) = %v, %v", text, a, b)
		}
	})
}
