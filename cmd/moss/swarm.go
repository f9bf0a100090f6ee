package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"moss/api/types"
)

func (a *app) swarmCommand() *cobra.Command {
	return newGroupCommand("swarm", "Make, join and leave a swarm",
		"  moss swarm init --advertise-addr 192.0.2.1\n  moss swarm join-token worker\n  moss swarm leave",
		a.swarmInitCommand(), a.swarmJoinCommand(), a.swarmTokenCommand(), a.swarmUpdateCommand(), a.swarmUnlockCommand(),
		a.swarmUnlockKeyCommand(), a.swarmLeaveCommand())
}

// defaultListen is where a node listens for the others.
const defaultListen = "0.0.0.0:2377"

// nodeFlags are the flags of a node that comes into a swarm.
type nodeFlags struct{ listen, advertise, dataPath, availability string }

func (f *nodeFlags) registerFlags(cmd *cobra.Command) {
	set := cmd.Flags()
	set.StringVar(&f.listen, "listen-addr", defaultListen, "`ADDRESS[:PORT]` to listen on for other nodes, or a device")
	set.StringVar(&f.advertise, "advertise-addr", "",
		"`ADDRESS[:PORT]` that other nodes connect to, or a device (default: the one address that this machine has)")
	set.StringVar(&f.dataPath, "data-path-addr", "",
		"`ADDRESS` of this machine that carries the networks of the swarm, or a device (default: as managers know this node)")
	set.StringVar(&f.availability, "availability", "active", "active, pause or drain")
	// The flag exists and has no other completion, so this cannot fail.
	_ = cmd.RegisterFlagCompletionFunc("availability", cobra.FixedCompletions(availabilities, cobra.ShellCompDirectiveNoFileComp))
}

func (a *app) swarmInitCommand() *cobra.Command {
	var node nodeFlags
	var settings swarmFlags
	var force bool
	cmd := &cobra.Command{
		Use:   "init [flags]",
		Short: "Make a swarm with this node as its manager",
		Long: "Make a swarm with this node as its manager. Other nodes join it with a token, which is shown.\n" +
			"A machine with several addresses must be told which one the others reach.",
		Example: "  moss swarm init\n  moss swarm init --advertise-addr 192.0.2.1 --autolock",
		Args:    requireArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			body := types.SwarmInit{
				ListenAddr: node.listen, AdvertiseAddr: node.advertise, DataPathAddr: node.dataPath, ForceNewCluster: force,
				Availability: node.availability,
			}
			err := errors.Join(settings.changeSpec(&body.Spec, cmd.Flags().Changed),
				checkChoice("availability", node.availability, availabilities))
			if err != nil {
				return usageError(cmd, err)
			}
			body.AutoLockManagers = settings.autoLock
			return a.initSwarm(cmd.Context(), body)
		},
	}
	cmd.Flags().BoolVar(&force, "force-new-cluster", false, "go on alone with the state of a swarm whose other managers are lost")
	node.registerFlags(cmd)
	settings.registerFlags(cmd.Flags())
	return cmd
}

func (a *app) initSwarm(ctx context.Context, body types.SwarmInit) error {
	engine, err := a.engineClient()
	if err != nil {
		return err
	}
	id, err := engine.SwarmInit(ctx, body)
	if err != nil {
		return err
	}
	if err := a.printLine("Swarm initialized: current node (" + id + ") is now a manager.\n"); err != nil {
		return err
	}
	if err := a.showToken(ctx, engine, roleWorker, false); err != nil {
		return err
	}
	const more = "To add a manager to this swarm, run 'moss swarm join-token manager' and follow the instructions."
	if err := a.printLine(more); err != nil {
		return err
	}
	if !body.AutoLockManagers {
		return nil
	}
	return a.showUnlockKey(ctx, engine, false)
}

func (a *app) swarmJoinCommand() *cobra.Command {
	var node nodeFlags
	var token, tokenFile string
	cmd := &cobra.Command{
		Use:   "join [flags] HOST[:PORT]",
		Short: "Join a swarm",
		Long: "Join a swarm. HOST is one of its managers; the token says whether this node becomes a worker or a manager.\n" +
			"Services of the swarm then run containers as you, with the folders that --swarm-host-folder of the engine lists.",
		Example: "  moss swarm join --token SWMTKN-1-… 192.0.2.1:2377\n  moss swarm join --token-file token 192.0.2.1",
		Args:    requireArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (token == "") == (tokenFile == "") {
				return usageError(cmd, errors.New("want one of --token and --token-file"))
			}
			if err := checkChoice("availability", node.availability, availabilities); err != nil {
				return usageError(cmd, err)
			}
			if tokenFile != "" {
				var err error
				if token, err = a.readSecretFile(tokenFile); err != nil {
					return fmt.Errorf("read the token: %w", err)
				}
			}
			engine, err := a.engineClient()
			if err != nil {
				return err
			}
			err = engine.SwarmJoin(cmd.Context(), types.SwarmJoin{
				ListenAddr: node.listen, AdvertiseAddr: node.advertise, DataPathAddr: node.dataPath,
				RemoteAddrs: []string{args[0]}, JoinToken: token, Availability: node.availability,
			})
			if err != nil {
				return err
			}
			info, err := swarmInfo(cmd.Context(), engine)
			if err != nil {
				return err
			}
			role := roleWorker
			if info.ControlAvailable {
				role = roleManager
			}
			return a.printLine("This node joined a swarm as a " + role + ".")
		},
	}
	cmd.Flags().StringVar(&token, "token", "", "the swarm's token for workers or for managers; others on this machine may see it")
	cmd.Flags().StringVar(&tokenFile, "token-file", "", "read the token from a `FILE`; - is stdin")
	node.registerFlags(cmd)
	return cmd
}

// maxSecret bounds what is read as a token or a key, in bytes.
const maxSecret = 4 << 10

// readSecretFile reads a token or a key from a file; - is stdin.
func (a *app) readSecretFile(path string) (string, error) {
	in := io.Reader(a.stdin)
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return "", err
		}
		defer func() { _ = file.Close() }()
		in = file
	}
	raw, err := io.ReadAll(io.LimitReader(in, maxSecret))
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(raw))
	if text == "" {
		return "", errors.New("nothing is in it")
	}
	return text, nil
}

func (a *app) swarmLeaveCommand() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "leave [flags]",
		Short: "Leave the swarm",
		Long: "Leave the swarm. The containers of its services end. A manager leaves only with --force: the swarm of the last\n" +
			"one is gone, and one that loses more than half of its managers cannot be changed any more.",
		Example: "  moss swarm leave",
		Args:    requireArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			engine, err := a.engineClient()
			if err != nil {
				return err
			}
			if err := engine.SwarmLeave(cmd.Context(), force); err != nil {
				return err
			}
			return a.printLine("Node left the swarm.")
		},
	}
	cmd.Flags().BoolVarP(&force, "force", "f", false, "also as a manager, whatever the swarm loses with it")
	return cmd
}
