package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"moss/api/client"
	"moss/api/types"
	"moss/cmd/moss/tty"
)

// swarmFlags are the settings of a swarm.
type swarmFlags struct {
	autoLock                     bool
	certExpiry, heartbeat        time.Duration
	externalCAs                  []string
	history                      int64
	snapshotInterval, keepOlders uint64
}

func (f *swarmFlags) registerFlags(set *pflag.FlagSet) {
	set.BoolVar(&f.autoLock, "autolock", false, "managers that are started again wait for a key (see moss swarm unlock)")
	set.DurationVar(&f.certExpiry, "cert-expiry", 2160*time.Hour, "time for which the nodes' certificates are valid")
	set.DurationVar(&f.heartbeat, "dispatcher-heartbeat", 5*time.Second, "time between two reports of a node")
	set.StringArrayVar(&f.externalCAs, "external-ca", nil, "a signer of certificates: `protocol=cfssl,url=URL`")
	set.Int64Var(&f.history, "task-history-limit", 5, "ended tasks that are kept of each place of a service")
	set.Uint64Var(&f.snapshotInterval, "snapshot-interval", 10000, "entries of the managers' log between two snapshots")
	set.Uint64Var(&f.keepOlders, "max-snapshots", 0, "further snapshots that are kept")
}

// changeSpec puts the flags that were given into a swarm's specification.
func (f *swarmFlags) changeSpec(spec *types.SwarmSpec, given func(string) bool) error {
	for flag, set := range map[string]func(){
		"autolock":             func() { spec.EncryptionConfig.AutoLockManagers = f.autoLock },
		"cert-expiry":          func() { spec.CAConfig.NodeCertExpiry = f.certExpiry },
		"dispatcher-heartbeat": func() { spec.Dispatcher.HeartbeatPeriod = f.heartbeat },
		"task-history-limit":   func() { spec.Orchestration.TaskHistoryRetentionLimit = &f.history },
		"snapshot-interval":    func() { spec.Raft.SnapshotInterval = f.snapshotInterval },
		"max-snapshots":        func() { spec.Raft.KeepOldSnapshots = &f.keepOlders },
	} {
		if given(flag) {
			set()
		}
	}
	if !given("external-ca") {
		return nil
	}
	spec.CAConfig.ExternalCAs = nil
	for _, text := range f.externalCAs {
		ca, err := readExternalCA(text)
		if err != nil {
			return err
		}
		spec.CAConfig.ExternalCAs = append(spec.CAConfig.ExternalCAs, ca)
	}
	return nil
}

// readExternalCA reads protocol=cfssl,url=URL with options beside them.
func readExternalCA(text string) (types.SwarmExternalCA, error) {
	var ca types.SwarmExternalCA
	for field := range strings.SplitSeq(text, ",") {
		key, value, found := strings.Cut(field, "=")
		switch key = strings.TrimSpace(key); {
		case !found || key == "":
			return ca, fmt.Errorf("external-ca %q: %q: want KEY=VALUE", text, field)
		case key == "protocol":
			ca.Protocol = strings.ToLower(value)
		case key == "url":
			ca.URL = value
		default:
			if ca.Options == nil {
				ca.Options = map[string]string{}
			}
			ca.Options[key] = value
		}
	}
	if at, err := url.Parse(ca.URL); err != nil || ca.Protocol == "" || at.Host == "" {
		return ca, fmt.Errorf("external-ca %q: want protocol=cfssl,url=URL", text)
	}
	return ca, nil
}

func (a *app) swarmUpdateCommand() *cobra.Command {
	var flags swarmFlags
	cmd := &cobra.Command{
		Use:     "update [flags]",
		Short:   "Update the settings of the swarm",
		Example: "  moss swarm update --autolock --task-history-limit 2",
		Args:    requireArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.changeSpec(&types.SwarmSpec{}, cmd.Flags().Changed); err != nil {
				return usageError(cmd, err)
			}
			engine, err := a.engineClient()
			if err != nil {
				return err
			}
			swarm, err := engine.SwarmInspect(cmd.Context())
			if err != nil {
				return err
			}
			locked := swarm.Spec.EncryptionConfig.AutoLockManagers
			if err := flags.changeSpec(&swarm.Spec, cmd.Flags().Changed); err != nil {
				return err
			}
			if err := engine.SwarmUpdate(cmd.Context(), swarm.Version, swarm.Spec, client.SwarmRotation{}); err != nil {
				return err
			}
			if err := a.printLine("Swarm updated."); err != nil || locked || !swarm.Spec.EncryptionConfig.AutoLockManagers {
				return err
			}
			return a.showUnlockKey(cmd.Context(), engine, false)
		},
	}
	flags.registerFlags(cmd.Flags())
	return cmd
}

func (a *app) swarmTokenCommand() *cobra.Command {
	var rotate, quiet bool
	cmd := &cobra.Command{
		Use:       "join-token [flags] worker|manager",
		Aliases:   []string{"token"},
		Short:     "Show or rotate the token that lets other nodes join",
		Example:   "  moss swarm join-token worker\n  moss swarm join-token --rotate -q manager",
		ValidArgs: nodeRoles,
		Args:      requireArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkChoice("role", args[0], nodeRoles); err != nil || args[0] == "" {
				return usageError(cmd, fmt.Errorf("role %q: want worker or manager", args[0]))
			}
			engine, err := a.engineClient()
			if err != nil {
				return err
			}
			if rotate {
				swarm, err := engine.SwarmInspect(cmd.Context())
				if err != nil {
					return err
				}
				which := client.SwarmRotation{WorkerToken: args[0] == roleWorker, ManagerToken: args[0] == roleManager}
				if err := engine.SwarmUpdate(cmd.Context(), swarm.Version, swarm.Spec, which); err != nil {
					return err
				}
				if !quiet {
					if err := a.printLine("Successfully rotated " + args[0] + " join token.\n"); err != nil {
						return err
					}
				}
			}
			return a.showToken(cmd.Context(), engine, args[0], quiet)
		},
	}
	cmd.Flags().BoolVar(&rotate, "rotate", false, "make a new token; the old one is of no use from then on")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "show the token only")
	return cmd
}

// showToken shows how a node joins, or the token only.
func (a *app) showToken(ctx context.Context, engine *client.Client, role string, quiet bool) error {
	swarm, err := engine.SwarmInspect(ctx)
	if err != nil {
		return err
	}
	token := swarm.JoinTokens.Worker
	if role == roleManager {
		token = swarm.JoinTokens.Manager
	}
	if quiet {
		return a.printLine(token)
	}
	node, err := inspectNode(ctx, engine, selfNode)
	if err != nil {
		return err
	}
	if node.ManagerStatus == nil || node.ManagerStatus.Addr == "" {
		return errors.New("this manager has no address that others could join at")
	}
	command := "moss swarm join --token " + token + " " + node.ManagerStatus.Addr
	return a.printLine("To add a " + role + " to this swarm, run the following command:\n\n    " + command + "\n")
}

func (a *app) swarmUnlockCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:     "unlock [flags]",
		Short:   "Unlock a manager that was started again",
		Long:    "Unlock a manager that was started again, with the key that 'moss swarm unlock-key' shows on another one.",
		Example: "  moss swarm unlock\n  moss swarm unlock --key-file key",
		Args:    requireArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			engine, err := a.engineClient()
			if err != nil {
				return err
			}
			return runInterruptible(cmd.Context(), func(ctx context.Context) error {
				key, err := a.askUnlockKey(ctx, file)
				if err != nil {
					return fmt.Errorf("read the key: %w", err)
				}
				return engine.SwarmUnlock(ctx, key)
			})
		},
	}
	cmd.Flags().StringVar(&file, "key-file", "", "read the key from a `FILE`; - is stdin")
	return cmd
}

func (a *app) askUnlockKey(ctx context.Context, file string) (string, error) {
	if file == "" && tty.Is(a.stdin) {
		key, err := tty.ReadLine(ctx, a.stdin, tty.Question{Out: a.stderr, Text: "Please enter unlock key: ", Hidden: true})
		_, _ = fmt.Fprintln(a.stderr)
		return strings.TrimSpace(key), err
	}
	if file == "" {
		file = "-"
	}
	return a.readSecretFile(file)
}

func (a *app) swarmUnlockKeyCommand() *cobra.Command {
	var rotate, quiet bool
	cmd := &cobra.Command{
		Use:     "unlock-key [flags]",
		Short:   "Show or rotate the key that unlocks managers",
		Example: "  moss swarm unlock-key -q",
		Args:    requireArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			engine, err := a.engineClient()
			if err != nil {
				return err
			}
			if rotate {
				swarm, err := engine.SwarmInspect(cmd.Context())
				if err != nil {
					return err
				}
				if !swarm.Spec.EncryptionConfig.AutoLockManagers {
					return errors.New("managers are not locked; lock them with 'moss swarm update --autolock'")
				}
				err = engine.SwarmUpdate(cmd.Context(), swarm.Version, swarm.Spec, client.SwarmRotation{UnlockKey: true})
				if err != nil {
					return err
				}
				if !quiet {
					if err := a.printLine("Successfully rotated manager unlock key.\n"); err != nil {
						return err
					}
				}
			}
			return a.showUnlockKey(cmd.Context(), engine, quiet)
		},
	}
	cmd.Flags().BoolVar(&rotate, "rotate", false, "make a new key")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "show the key only")
	return cmd
}

func (a *app) showUnlockKey(ctx context.Context, engine *client.Client, quiet bool) error {
	key, err := engine.SwarmUnlockKey(ctx)
	switch {
	case err != nil:
		return err
	case key == "":
		return errors.New("managers are not locked; lock them with 'moss swarm update --autolock'")
	case quiet:
		return a.printLine(key)
	}
	return a.printLine("To unlock a manager that was started again, run 'moss swarm unlock' there and enter this key:\n\n    " +
		key + "\n\nKeep it in a safe place: without it a manager that was started again stays locked.")
}
