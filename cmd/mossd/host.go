package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"moss/engine/config"
	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/ocispec"
	"moss/engine/system"
	"moss/engine/task"
	"moss/rootless"
)

// ociRuntime is the runtime that this engine calls.
type ociRuntime struct {
	name  string // crun or runc
	call  task.Runtime
	stamp string // changes when the binary does
}

// runtimes in the order of preference: crun starts containers in less than half of runc's time.
var runtimes = []string{"crun", "runc"} //nolint:gochecknoglobals // a constant list

// findRuntime resolves the configured runtime, or the first that is installed.
func findRuntime(want string, facts rootless.Facts) (ociRuntime, error) {
	candidates := runtimes
	if want != "" {
		candidates = []string{want}
	}
	for _, name := range candidates {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if path, err = filepath.Abs(path); err != nil {
			return ociRuntime{}, err
		}
		info, err := os.Stat(path)
		if err != nil {
			return ociRuntime{}, err
		}
		rt := ociRuntime{
			name:  filepath.Base(path),
			call:  task.Runtime{Path: path, Root: filepath.Join(facts.RunDir, "runtime")},
			stamp: fmt.Sprintf("%s %d %d", path, info.Size(), info.ModTime().UnixNano()),
		}
		if rt.name == "crun" {
			manager := "disabled"
			if facts.Cgroups.Delegated() {
				manager = "cgroupfs"
			}
			rt.call.GlobalArgs = []string{"--cgroup-manager=" + manager}
		}
		return rt, os.MkdirAll(rt.call.Root, 0o700)
	}
	return ociRuntime{}, fault.NotFound("no OCI runtime found: install %s", strings.Join(candidates, " or "))
}

// showCgroups prepares what the runtime sees of the host's cgroups and takes out of facts what it cannot use.
func showCgroups(runtime ociRuntime, facts *rootless.Facts, log zerolog.Logger) error {
	groups := &facts.Cgroups
	if runtime.name != "crun" && groups.Delegated() && groups.Partial {
		// runc wants a cgroup in every v1 hierarchy that is mounted; crun takes those that it finds.
		log.Warn().Str("runtime", runtime.name).Strs("controllers", groups.Controllers).
			Msg("only some cgroup hierarchies are delegated, which this runtime cannot use: no limits; install crun")
		*groups = rootless.Cgroups{Kind: groups.Kind}
	}
	if err := rootless.ShowCgroups(*groups); err != nil {
		return fmt.Errorf("show the runtime its cgroups: %w", err)
	}
	return nil
}

// controllersOf returns the limits that this runtime can give to containers.
func controllersOf(c rootless.Cgroups, runtime ociRuntime) container.Controllers {
	if !c.Delegated() {
		return container.Controllers{}
	}
	has := func(name string) bool { return slices.Contains(c.Controllers, name) }
	swap := "/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes"
	if c.Kind == rootless.CgroupPure {
		swap = filepath.Join("/sys/fs/cgroup", c.Parent, "memory.swap.max")
	}
	_, err := os.Stat(swap)
	limits := container.Controllers{
		Memory: has("memory"), Swap: has("memory") && err == nil, CPU: has("cpu"), Cpuset: has("cpuset"),
		Pids: has("pids"), Unified: c.Kind == rootless.CgroupPure,
	}
	if has("io") {
		blockIO(&limits, c, runtime.name == "runc")
	}
	return limits
}

// blockIO finds out which files of the controller io, or blkio, the kernel has and the runtime writes. crun (1.8)
// does not know those that the scheduler BFQ has in v1.
func blockIO(limits *container.Controllers, c rootless.Cgroups, runc bool) {
	dir := filepath.Join("/sys/fs/cgroup", c.Parent)
	if !limits.Unified {
		dir = filepath.Join("/sys/fs/cgroup/blkio", c.Parent)
	}
	has := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	switch {
	case limits.Unified:
		limits.Blkio = has("io.max")
		limits.BlkioWeight = has("io.bfq.weight") || has("io.weight")
		limits.BlkioWeightDevice = has("io.bfq.weight") // neither writes a device into io.weight
	case runc:
		limits.Blkio = has("blkio.throttle.read_bps_device")
		limits.BlkioWeight = has("blkio.weight") || has("blkio.bfq.weight")
		limits.BlkioWeightDevice = has("blkio.weight_device") || has("blkio.bfq.weight_device")
	default:
		limits.Blkio = has("blkio.throttle.read_bps_device")
		limits.BlkioWeight = has("blkio.weight")
		limits.BlkioWeightDevice = has("blkio.weight_device") && has("blkio.leaf_weight_device")
	}
}

// readMachine returns the CPUs that are online and the memory nodes that have memory. The engine may have fewer for itself: what
// it may use changes, and the kernel has the last word.
func readMachine() container.Machine {
	list := func(path string) string {
		raw, _ := os.ReadFile(path) // without the file the list is not known
		return strings.TrimSpace(string(raw))
	}
	return container.Machine{CPUs: list("/sys/devices/system/cpu/online"), Nodes: list("/sys/devices/system/node/has_memory")}
}

func cgroupFacts(c rootless.Cgroups, runtime ociRuntime) system.Cgroup {
	limits := controllersOf(c, runtime)
	facts := system.Cgroup{
		Driver: "none", Memory: limits.Memory, Swap: limits.Swap, OOMKillDisable: limits.Memory && !limits.Unified,
		CPUPeriod: limits.CPU, CPUQuota: limits.CPU, CPUShares: limits.CPU, CPUSet: limits.Cpuset, Pids: limits.Pids,
	}
	switch c.Kind {
	case rootless.CgroupPure:
		facts.Version = "2"
	case rootless.CgroupLegacy, rootless.CgroupHybrid:
		facts.Version = "1"
	case rootless.CgroupNone:
	}
	if c.Delegated() {
		facts.Driver = "cgroupfs"
	}
	return facts
}

// limitWarnings tells, as /info shows it, which limits cannot be applied.
func limitWarnings(facts rootless.Facts, runtime ociRuntime) []string {
	limits := controllersOf(facts.Cgroups, runtime)
	var warnings []string
	for _, l := range []struct {
		have bool
		what string
	}{
		{limits.Memory, "memory limit"},
		{limits.Swap, "swap limit"},
		{limits.CPU, "cpu shares, period and quota"},
		{limits.Cpuset, "cpuset"},
		{limits.Pids, "pids limit"},
		{limits.Blkio, "blkio"},
		{limits.BlkioWeight, "blkio weight"},
	} {
		if !l.have {
			warnings = append(warnings, "WARNING: No "+l.what+" support")
		}
	}
	if !facts.Cgroups.Delegated() {
		warnings = append(warnings, "WARNING: No cgroup is delegated to the user ("+string(facts.Cgroups.Kind)+" layout)")
	}
	return warnings
}

// mostFiles is the limit of open files that images are used to.
const mostFiles = 1 << 20

// raiseFileLimit lets the engine open as many files as it may: each container costs it a few.
func raiseFileLimit() {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil && limit.Cur < limit.Max {
		limit.Cur = limit.Max
		unix.Setrlimit(unix.RLIMIT_NOFILE, &limit) //nolint:errcheck // then the old limit stays
	}
}

func hostOptions(cfg config.Config, facts rootless.Facts, limits container.Controllers) ocispec.Options {
	opt := ocispec.Options{
		Controllers: limits, SingleID: facts.SingleID, EmulateIDs: emulatesIDs(cfg, facts), RecursiveReadOnly: true,
		LastCap: readNumber("/proc/sys/kernel/cap_last_cap"), OomScoreAdj: readNumber("/proc/self/oom_score_adj"),
		HostDevices: hostDevices("/dev"), BlockDevice: blockDevice, IsDir: isDir,
	}
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		opt.Nofile = min(limit.Max, mostFiles)
	}
	return opt
}

// emulatesIDs reports whether containers are to take it that there are other ids than root's, where there are none.
func emulatesIDs(cfg config.Config, facts rootless.Facts) bool {
	return cfg.EmulateIDs && facts.SingleID
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func readNumber(path string) int {
	raw, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		return 0
	}
	return n
}

// hostDevices lists the device files that a privileged container can get: those below /dev that the user may open. What
// is mounted there, such as the terminals of devpts, is not of the hardware.
func hostDevices(dev string) []string {
	var top unix.Stat_t
	if unix.Stat(dev, &top) != nil {
		return nil
	}
	var devices []string
	filepath.WalkDir(dev, func(path string, entry fs.DirEntry, err error) error { //nolint:errcheck // it returns none
		switch {
		case err != nil:
			return nil //nolint:nilerr // a folder of other users has nothing for this one
		case entry.IsDir():
			var st unix.Stat_t
			if unix.Lstat(path, &st) != nil || st.Dev != top.Dev {
				return fs.SkipDir
			}
		case entry.Type()&os.ModeDevice != 0 && unix.Access(path, unix.R_OK|unix.W_OK) == nil:
			devices = append(devices, path)
		}
		return nil
	})
	return devices
}

func blockDevice(path string) (major, minor int64, err error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, 0, fmt.Errorf("block device %s: %w", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return 0, 0, fault.Invalid("%s is not a block device", path)
	}
	return int64(unix.Major(st.Rdev)), int64(unix.Minor(st.Rdev)), nil
}

// bootID names the running boot of the machine.
func bootID() string {
	raw, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(raw))
}
