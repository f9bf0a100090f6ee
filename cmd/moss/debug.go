package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"moss/api/client"
)

// cpuProfile is the profile of where the engine spends its time.
const cpuProfile = "profile"

// profileNames are what moss debug pprof gets.
func profileNames() []string {
	return []string{cpuProfile, "heap", "allocs", "goroutine", "block", "mutex", "threadcreate"}
}

// profileFlags are those of both commands.
type profileFlags struct{ seconds, output string }

func (a *app) debugCommand() *cobra.Command {
	return newGroupCommand("debug", "Profile and trace the engine",
		"  moss debug pprof heap\n  moss debug trace --seconds 5",
		a.pprofCommand(), a.traceCommand())
}

func (a *app) pprofCommand() *cobra.Command {
	var flags profileFlags
	cmd := &cobra.Command{
		Use:   "pprof [flags] [PROFILE]",
		Short: "Write one of the engine's profiles into a file",
		Long: "Write one of the engine's profiles into a file, for 'go tool pprof'.\n\n" +
			"profile      where it spends its time, while it is measured (the default)\n" +
			"heap         what its memory holds\n" +
			"allocs       what it has allocated since its start\n" +
			"goroutine    what it is doing at this moment\n" +
			"block        where it waits, while it is measured\n" +
			"mutex        which locks are contended, while it is measured\n" +
			"threadcreate where its threads were made\n\n" +
			"The engine gives them to its own user, on its unix socket, and only with its setting debug-profiles.",
		Example: "  moss debug pprof heap\n  moss debug pprof --seconds 10 -o cpu.pprof\n  moss debug pprof heap -o - >heap.pprof",
		Args:    requireArgs(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := cpuProfile
			if len(args) > 0 {
				name = args[0]
			}
			if !slices.Contains(profileNames(), name) {
				return usageError(cmd, fmt.Errorf("unknown profile %q: want one of %s", name, strings.Join(profileNames(), ", ")))
			}
			return a.writeProfile(cmd, name, "moss-"+name+".pprof", "pprof", flags)
		},
		ValidArgsFunction: completeProfiles,
	}
	flags.registerFlags(cmd, "how long to measure, of profile, block and mutex, at most 300 (default 30)", "moss-PROFILE.pprof")
	return cmd
}

// completeProfiles offers names of profiles.
func completeProfiles(_ *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	others := func(name string) bool { return !strings.HasPrefix(name, prefix) }
	return slices.DeleteFunc(profileNames(), others), cobra.ShellCompDirectiveNoFileComp
}

func (a *app) traceCommand() *cobra.Command {
	var flags profileFlags
	cmd := &cobra.Command{
		Use:   "trace [flags]",
		Short: "Write a trace of the engine's goroutines into a file",
		Long: "Write a trace of what the engine's goroutines do into a file, for 'go tool trace'.\n\n" +
			"The engine gives it to its own user, on its unix socket, and only with its setting debug-profiles.",
		Example: "  moss debug trace --seconds 5",
		Args:    requireArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.writeProfile(cmd, client.TraceProfile, "moss.trace", "trace", flags)
		},
	}
	flags.registerFlags(cmd, "how long to trace, at most 300 (default 1)", "moss.trace")
	return cmd
}

// registerFlags declares the flags.
func (f *profileFlags) registerFlags(cmd *cobra.Command, seconds, file string) {
	cmd.Flags().StringVar(&f.seconds, "seconds", "", seconds)
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "write to a `FILE`, - for stdout (default "+file+")")
}

// writeProfile writes a profile where it was asked for, and says where and how to read it.
func (a *app) writeProfile(cmd *cobra.Command, name, file, tool string, flags profileFlags) error {
	if flags.output != "" {
		file = flags.output
	}
	if file == "-" && a.onScreen() {
		return usageError(cmd, errors.New("refusing to write a profile to a terminal; name a file or redirect stdout"))
	}
	engine, err := a.engineClient()
	if err != nil {
		return err
	}
	return runInterruptible(cmd.Context(), func(ctx context.Context) error {
		if file == "-" {
			return engine.Profile(ctx, name, flags.seconds, a.stdout)
		}
		err := writeWhole(file, func(out *os.File) error { return engine.Profile(ctx, name, flags.seconds, out) })
		if err != nil {
			return err
		}
		return a.printLine(fmt.Sprintf("%s: read it with 'go tool %s %s'", file, tool, file))
	})
}
