package main

import (
	"errors"
	"reflect"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"moss/api/types"
	"moss/cmd/moss/arg"
)

// updateFlags are the limits that can change while a container runs.
type updateFlags struct {
	memory, memoryReservation, memorySwap, kernelMemory, cpus, restart string

	pidsLimit int64
	body      types.ContainerUpdate
}

func (a *app) updateCommand() *cobra.Command {
	var flags updateFlags
	cmd := &cobra.Command{
		Use:               "update [flags] CONTAINER...",
		Short:             "Update the limits of one or more containers",
		Example:           "  moss update --memory 512m --cpus 1.5 web",
		Args:              requireArgs(1, -1),
		ValidArgsFunction: a.completeContainers(true, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			body, err := flags.buildBody()
			if err != nil {
				return usageError(cmd, err)
			}
			engine, err := a.engineClient()
			if err != nil {
				return err
			}
			return a.applyToEach(args, func(ref string) (string, error) {
				warnings, err := engine.ContainerUpdate(cmd.Context(), ref, body)
				a.printWarnings(warnings)
				return ref, err
			})
		},
	}
	flags.registerFlags(cmd.Flags())
	return cmd
}

func (f *updateFlags) registerFlags(set *pflag.FlagSet) {
	set.StringVarP(&f.memory, "memory", "m", "", "memory limit, such as 512m")
	set.StringVar(&f.memoryReservation, "memory-reservation", "", "soft limit of memory")
	set.StringVar(&f.memorySwap, "memory-swap", "", "limit of memory and swap together; -1 for no limit of swap")
	set.StringVar(&f.kernelMemory, "kernel-memory", "", "limit of the kernel's memory for it")
	set.StringVar(&f.cpus, "cpus", "", "number of CPUs, such as 1.5")
	set.Int64VarP(&f.body.CPUShares, "cpu-shares", "c", 0, "CPU weight")
	set.Int64Var(&f.body.CPUPeriod, "cpu-period", 0, "CPU period in microseconds")
	set.Int64Var(&f.body.CPUQuota, "cpu-quota", 0, "CPU time in microseconds for each period")
	set.StringVar(&f.body.CpusetCpus, "cpuset-cpus", "", "CPUs to run on, such as 0-2,4")
	set.StringVar(&f.body.CpusetMems, "cpuset-mems", "", "memory nodes to use")
	set.Uint16Var(&f.body.BlkioWeight, "blkio-weight", 0, "weight of block I/O, 10 to 1000")
	set.Int64Var(&f.pidsLimit, "pids-limit", 0, "limit of processes; -1 for none")
	set.StringVar(&f.restart, "restart", "", "restart policy: no, always, unless-stopped or on-failure[:TRIES]")
}

// buildBody makes the body of the flags.
func (f *updateFlags) buildBody() (types.ContainerUpdate, error) {
	body := f.body
	err := errors.Join(
		setSize(&body.Memory, "memory", f.memory, arg.Bytes),
		setSize(&body.MemoryReservation, "memory-reservation", f.memoryReservation, arg.Bytes),
		setSize(&body.MemorySwap, "memory-swap", f.memorySwap, arg.Swap),
		setSize(&body.KernelMemory, "kernel-memory", f.kernelMemory, arg.Bytes),
	)
	if err != nil {
		return types.ContainerUpdate{}, err
	}
	if f.cpus != "" {
		if body.CPUPeriod != 0 || body.CPUQuota != 0 {
			return types.ContainerUpdate{}, errors.New("--cpus cannot be combined with --cpu-period and --cpu-quota")
		}
		if body.NanoCPUs, err = arg.CPUs(f.cpus); err != nil {
			return types.ContainerUpdate{}, err
		}
	}
	if f.pidsLimit != 0 {
		body.PidsLimit = &f.pidsLimit
	}
	if f.restart != "" {
		if body.RestartPolicy, err = arg.Restart(f.restart); err != nil {
			return types.ContainerUpdate{}, err
		}
	}
	if reflect.ValueOf(body).IsZero() {
		return types.ContainerUpdate{}, errors.New("nothing to change: give at least one limit")
	}
	return body, nil
}
