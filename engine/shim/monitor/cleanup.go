package monitor

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/oci"
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
	oom := oomKilled(dir)
	if err := oci.New(spec.Runtime, runtimeEnv()).Delete(ctx, spec.ID, true); err != nil && !fault.Is(err, fault.NotFound) {
		return fmt.Errorf("clean up after the shim of %s: %w", spec.ID, err)
	}
	return proto.WriteRecord(dir, proto.Record{Exit: &proto.Exit{
		Code: codeSignal + int(unix.SIGKILL), At: time.Now().UTC(), OOMKilled: oom, Error: "the container's shim was killed",
	}})
}
