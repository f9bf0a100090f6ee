package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Groups of commands in the help text.
const (
	groupContainer = "container"
	groupImage     = "image"
	groupNetwork   = "network"
	groupVolume    = "volume"
	groupSwarm     = "swarm"
	groupEngine    = "engine"
)

// rootCommand returns the root command with the one that the arguments name, or with all when they name none of them.
func (a *app) rootCommand(args []string) *cobra.Command {
	root := &cobra.Command{
		Use:   "moss",
		Short: "Run containers without root",
		Long: "moss runs containers as you, without root. Its engine starts by itself at the first command.\n\n" +
			"The engine is found by --host, MOSS_HOST, DOCKER_HOST or the default socket of this user.",
		Example:       "  moss pull busybox\n  moss run --rm -it busybox sh",
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noSuchCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetVersionTemplate("moss {{.Version}}\n")
	root.SetFlagErrorFunc(usageError)
	root.PersistentFlags().StringVarP(&a.host, "host", "H", "", "engine to talk to: unix:///path or tcp://host:port")
	a.tlsFlags(root.PersistentFlags())
	root.AddGroup(
		&cobra.Group{ID: groupContainer, Title: "Containers:"},
		&cobra.Group{ID: groupImage, Title: "Images:"},
		&cobra.Group{ID: groupNetwork, Title: "Networks:"},
		&cobra.Group{ID: groupVolume, Title: "Volumes:"},
		&cobra.Group{ID: groupSwarm, Title: "Swarm:"},
		&cobra.Group{ID: groupEngine, Title: "Engine:"},
	)
	root.SetHelpCommandGroupID(groupEngine)
	root.SetCompletionCommandGroupID(groupEngine)
	wanted := commandName(args)
	commands := a.allCommands()
	one := slices.ContainsFunc(commands, func(c command) bool { return c.name == wanted })
	for _, c := range commands {
		if one && c.name != wanted {
			continue
		}
		made := c.make()
		made.GroupID = c.group
		root.AddCommand(made)
	}
	return root
}

// command is a command that may be made: its flags cost more time than many a call of it takes.
type command struct {
	group, name string
	make        func() *cobra.Command
}

func (a *app) allCommands() []command {
	return []command{
		{groupContainer, "run", a.runCommand},
		{groupContainer, "create", a.createCommand},
		{groupContainer, "start", a.startCommand},
		{groupContainer, "stop", a.stopCommand},
		{groupContainer, "restart", a.restartCommand},
		{groupContainer, "kill", a.killCommand},
		{groupContainer, "rm", a.removeCommand},
		{groupContainer, "rename", a.renameCommand},
		{groupContainer, "wait", a.waitCommand},
		{groupContainer, "attach", a.attachCommand},
		{groupContainer, "exec", a.execCommand},
		{groupContainer, "cp", a.copyCommand},
		{groupContainer, "logs", a.logsCommand},
		{groupContainer, "ps", a.listCommand},
		{groupContainer, "inspect", a.inspectCommand},
		{groupContainer, "top", a.topCommand},
		{groupContainer, "stats", a.statsCommand},
		{groupContainer, "diff", a.diffCommand},
		{groupContainer, "export", a.exportCommand},
		{groupContainer, "commit", a.commitCommand},
		{groupContainer, "update", a.updateCommand},
		{groupContainer, "pause", a.pauseCommand},
		{groupContainer, "unpause", a.unpauseCommand},
		{groupContainer, "port", a.portCommand},
		{groupContainer, "container", a.containerCommand},
		{groupImage, "images", a.imagesCommand},
		{groupImage, "build", a.buildCommand},
		{groupImage, "pull", a.pullCommand},
		{groupImage, "push", a.pushCommand},
		{groupImage, "tag", a.tagCommand},
		{groupImage, "rmi", a.imageRemoveCommand},
		{groupImage, "history", a.historyCommand},
		{groupImage, "save", a.saveCommand},
		{groupImage, "load", a.loadCommand},
		{groupImage, "import", a.importCommand},
		{groupImage, "search", a.searchCommand},
		{groupImage, "login", a.loginCommand},
		{groupImage, "logout", a.logoutCommand},
		{groupImage, "image", a.imageCommand},
		{groupImage, "builder", a.builderCommand},
		{groupNetwork, "network", a.networkCommand},
		{groupVolume, "volume", a.volumeCommand},
		{groupSwarm, "node", a.nodeCommand},
		{groupSwarm, "service", a.serviceCommand},
		{groupSwarm, "swarm", a.swarmCommand},
		{groupEngine, "debug", a.debugCommand},
		{groupEngine, "events", a.eventsCommand},
		{groupEngine, "info", a.infoCommand},
		{groupEngine, "system", a.systemCommand},
		{groupEngine, "version", a.versionCommand},
	}
}

// takeHost takes the engine's address out of what stands in front of the command: commands may use -H and --host for something
// else. A flag without its value is left to be complained of.
func (a *app) takeHost(args []string) []string {
	left := []string{}
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		left, args = append(left, args[0]), args[1:] // the command line that is to be completed follows
	}
	for i := 0; i < len(args); i++ {
		short, isShort := strings.CutPrefix(args[i], "-H")
		long, isLong := strings.CutPrefix(args[i], "--host=")
		switch {
		case (args[i] == "--host" || args[i] == "-H") && i+1 < len(args):
			i++
			a.host = args[i]
		case isLong:
			a.host = long
		case isShort && short != "":
			a.host = strings.TrimPrefix(short, "=")
		case rootValue(args[i]) && i+1 < len(args):
			left = append(left, args[i], args[i+1])
			i++
		case !strings.HasPrefix(args[i], "-"):
			return append(left, args[i:]...)
		default:
			left = append(left, args[i])
		}
	}
	return left
}

// tlsFlags are docker's, for hosts of tcp://.
func (a *app) tlsFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&a.tls.On, "tls", false, "use TLS with a tcp host, without verifying its certificate")
	flags.BoolVar(&a.tls.Verify, "tlsverify", false, "use TLS with a tcp host and verify its certificate")
	flags.StringVar(&a.tls.CACert, "tlscacert", "", "CA certificate to verify the engine's with (default ca.pem in DOCKER_CERT_PATH or ~/.docker)")
	flags.StringVar(&a.tls.Cert, "tlscert", "", "client certificate (default cert.pem there)")
	flags.StringVar(&a.tls.Key, "tlskey", "", "key of the client certificate (default key.pem there)")
}

// rootValue reports whether an argument is a long flag of the root command that takes the next one as its value.
func rootValue(arg string) bool {
	return slices.Contains([]string{"--host", "--tlscacert", "--tlscert", "--tlskey"}, arg)
}

// commandName returns the first argument that is no flag of the root command and no flag's value.
func commandName(args []string) string {
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "-H" || rootValue(args[i]):
			i++
		case !strings.HasPrefix(args[i], "-"):
			return args[i]
		}
	}
	return ""
}
