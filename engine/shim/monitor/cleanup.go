package monitor

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/oci"
	"moss/engine/pidfd"
	"moss/engine/shim/proto"
)

// Cleanup does for a shim that was killed what it could not do itself: it ends the container through the runtime and
// writes the record of the end, unless there is one. The container's exit code is lost with the shim; 137 stands for it.
func Cleanup(ctx context.Context, dir string) error {
	if _, err := proto.ReadRecord(dir); err == nil {
		return nil
	}
	spec, err := proto.ReadSpec(dir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, runtimeLimit)
	defer cancel()
	endRuntimeCalls(ctx, dir, spec.ID)
	oom := oomKilled(dir)
	if err := oci.New(spec.Runtime, dir, runtimeEnv()).Delete(ctx, spec.ID, true); err != nil && !fault.Is(err, fault.NotFound) {
		return fmt.Errorf("clean up after the shim of %s: %w", spec.ID, err)
	}
	oci.DropCopies(dir)
	for _, pid := range rootedPids(rootOf(dir), 0) {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	alive, _ := proto.ReadAlive(dir) // a shim of an earlier version has not said which process it is
	return proto.WriteRecord(dir, proto.Record{Exit: &proto.Exit{
		Code: codeSignal + int(unix.SIGKILL), At: time.Now().UTC(), OOMKilled: oom, Error: "the container's shim was killed",
		KilledMonitor: alive.Shim,
	}})
}

// rootedPids lists the processes whose root folder is rootfs and that started at or after since (see stat), but for this
// one. It finds what no pid is known of, such as what a runtime has started that died before it could note so.
func rootedPids(rootfs string, since uint64) []int {
	var want unix.Stat_t
	if rootfs == "" || unix.Stat(rootfs, &want) != nil {
		return nil
	}
	roots, err := filepath.Glob("/proc/[0-9]*/root")
	if err != nil {
		return nil
	}
	var pids []int
	for _, root := range roots {
		var have unix.Stat_t
		if unix.Stat(root, &have) != nil || have.Dev != want.Dev || have.Ino != want.Ino {
			continue // another's, or it has ended
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(root)))
		if err != nil || pid == os.Getpid() {
			continue
		}
		if st, ok := pidfd.ReadStat(pid); ok && st.Start >= since {
			pids = append(pids, pid)
		}
	}
	return pids
}

// rootOf returns the root folder of a bundle; empty if it cannot be read, or is the host's own.
func rootOf(bundle string) string {
	var spec struct {
		Root struct {
			Path string `json:"path"`
		} `json:"root"`
	}
	data, err := os.ReadFile(filepath.Join(bundle, "config.json"))
	if err != nil || json.Unmarshal(data, &spec) != nil || !filepath.IsAbs(spec.Root.Path) || filepath.Clean(spec.Root.Path) == "/" {
		return ""
	}
	return spec.Root.Path
}
