package main

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"moss/engine/logdriver"
)

// serviceFlags are the flags of service create and service update. What a flag means is in service_build.go.
type serviceFlags struct {
	name, image, mode, endpointMode       string
	replicas                              uint64
	entrypoint, args                      string
	user, workDir, hostname, stopSignal   string
	tty, readOnly, force                  bool
	stopGrace                             time.Duration
	limitCPU, limitMemory                 string
	reserveCPU, reserveMemory             string
	restartCondition                      string
	restartDelay, restartWindow           time.Duration
	restartAttempts                       uint64
	updateDelay                           time.Duration
	updateParallelism                     uint64
	updateFailure, logDriver              string
	logOpts, envFiles                     []string
	env, labels, containerLabels, groups  listChange
	mounts, constraints, publish, network listChange
	hosts, dns, dnsOptions, dnsSearch     listChange
	auth                                  bool
	wait                                  waitFlags
	health                                healthFlags
}

// listChange is what becomes of a list: service create adds to an empty one.
type listChange struct{ add, remove []string }

// serviceList is a list that flags change.
type serviceList struct {
	change                *listChange
	name, short           string // of the flag of service create
	about, item, toRemove string // in the help
}

func (f *serviceFlags) allLists() []serviceList {
	return []serviceList{
		{&f.env, "env", "e", "a variable", "NAME=VALUE", "NAME"},
		{&f.labels, "label", "l", "a label of the service", "KEY=VALUE", "KEY"},
		{&f.containerLabels, "container-label", "", "a label of the containers", "KEY=VALUE", "KEY"},
		{&f.groups, "group", "", "a group of the user", "GROUP", "GROUP"},
		{&f.mounts, "mount", "", "a mount: type=bind, volume or tmpfs, src=, dst=, ro, …", "KEY=VALUE,…", "TARGET"},
		{&f.constraints, "constraint", "", "a condition of the nodes, such as node.role==worker", "CONSTRAINT", "CONSTRAINT"},
		{&f.hosts, "host", "", "a line of /etc/hosts", "NAME:IP", "NAME:IP"},
		{&f.dns, "dns", "", "a name server", "IP", "IP"},
		{&f.dnsOptions, "dns-option", "", "an option of the resolver", "OPTION", "OPTION"},
		{&f.dnsSearch, "dns-search", "", "a domain to search", "DOMAIN", "DOMAIN"},
		{&f.publish, "publish", "p", "a port of all nodes that leads to the tasks", "[PUBLISHED:]TARGET[/udp]", "TARGET"},
		{&f.network, "network", "", "a network of the swarm, such as back or name=back,alias=db", "NETWORK", "NETWORK"},
	}
}

// registerCreate adds the flags of service create.
func (f *serviceFlags) registerCreate(set *pflag.FlagSet) {
	set.StringVar(&f.name, "name", "", "the service's name (default: chosen)")
	set.StringVar(&f.mode, "mode", "replicated", "replicated, or global for one task on each node")
	set.StringArrayVar(&f.envFiles, "env-file", nil, "set the variables in a `FILE`, one a line")
	for _, list := range f.allLists() {
		set.StringArrayVarP(&list.change.add, list.name, list.short, nil, "add "+list.about+": `"+list.item+"`")
	}
	f.registerBoth(set)
}

// registerUpdate adds the flags of service update. Lists are changed by flags ending in -add and -rm.
func (f *serviceFlags) registerUpdate(set *pflag.FlagSet) {
	set.StringVar(&f.image, "image", "", "the image")
	set.StringVar(&f.args, "args", "", "the `COMMAND LINE` in place of the image's command, in one argument")
	set.BoolVar(&f.force, "force", false, "replace all tasks even if nothing has changed")
	for _, list := range f.allLists() {
		set.StringArrayVar(&list.change.add, list.name+"-add", nil, "add or replace "+list.about+": `"+list.item+"`")
		set.StringArrayVar(&list.change.remove, list.name+"-rm", nil, "remove "+aboutOf(list.about)+": `"+list.toRemove+"`")
	}
	f.registerBoth(set)
}

// aboutOf leaves out what only one who adds needs.
func aboutOf(about string) string {
	about, _, _ = strings.Cut(about, ":")
	about, _, _ = strings.Cut(about, ", such as")
	return about
}

func (f *serviceFlags) registerBoth(set *pflag.FlagSet) {
	set.Uint64Var(&f.replicas, "replicas", 1, "number of tasks")
	set.StringVar(&f.entrypoint, "entrypoint", "", "the `COMMAND LINE` in place of the image's entrypoint, in one argument")
	set.StringVarP(&f.user, "user", "u", "", "run as `USER[:GROUP]`, names or numbers")
	set.StringVarP(&f.workDir, "workdir", "w", "", "folder to run in")
	set.StringVar(&f.hostname, "hostname", "", "the containers' host name")
	set.StringVar(&f.stopSignal, "stop-signal", "", "signal that ends the containers")
	set.BoolVarP(&f.tty, "tty", "t", false, "give the containers a terminal")
	set.BoolVar(&f.readOnly, "read-only", false, "mount the root file system read-only")
	set.DurationVar(&f.stopGrace, "stop-grace-period", 0, "time to wait before killing a container (default 10s)")
	set.StringVar(&f.limitCPU, "limit-cpu", "", "limit of CPUs, such as 1.5")
	set.StringVar(&f.limitMemory, "limit-memory", "", "limit of memory, such as 512m")
	set.StringVar(&f.reserveCPU, "reserve-cpu", "", "CPUs that a node must have left, such as 0.5")
	set.StringVar(&f.reserveMemory, "reserve-memory", "", "memory that a node must have left")
	set.StringVar(&f.restartCondition, "restart-condition", "", "when a task is replaced: none, on-failure or any (default any)")
	set.DurationVar(&f.restartDelay, "restart-delay", 0, "time before a task is replaced (default 5s)")
	set.Uint64Var(&f.restartAttempts, "restart-max-attempts", 0, "how often a task is replaced; 0: always")
	set.DurationVar(&f.restartWindow, "restart-window", 0, "time in which the attempts are counted")
	set.DurationVar(&f.updateDelay, "update-delay", 0, "time between the tasks of an update")
	set.Uint64Var(&f.updateParallelism, "update-parallelism", 1, "tasks that are replaced at once; 0: all")
	set.StringVar(&f.updateFailure, "update-failure-action", "", "what follows a failed task: pause or continue (default pause)")
	drivers := strings.Join(logdriver.Names(), ", ")
	set.StringVar(&f.logDriver, "log-driver", "", "log driver: "+drivers+" (default: the swarm's, or the node's)")
	set.StringArrayVar(&f.logOpts, "log-opt", nil, "set an option of the log driver: `KEY=VALUE`")
	set.StringVar(&f.endpointMode, "endpoint-mode", "", "how the service is reached: vip or dnsrr (default vip)")
	set.BoolVar(&f.auth, "with-registry-auth", false, "send your credentials for the image's registry to the nodes")
	f.wait.registerFlags(set)
	f.health.registerFlags(set)
}

// completeServiceFlags offers values of the flags of service create and service update.
func (a *app) completeServiceFlags(cmd *cobra.Command) {
	fixed := func(flag string, values ...string) {
		if cmd.Flags().Lookup(flag) != nil {
			// The flag exists and has no other completion, so this cannot fail.
			_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
		}
	}
	fixed("mode", "replicated", "global")
	fixed("endpoint-mode", "vip", "dnsrr")
	fixed("restart-condition", "none", "on-failure", "any")
	fixed("update-failure-action", "pause", "continue")
	fixed("log-driver", logdriver.Names()...)
	_ = cmd.RegisterFlagCompletionFunc("log-opt", completeLogOptions)
	networks := a.completeServiceNetworks()
	for flag, complete := range map[string]completer{
		"constraint": a.completeConstraints, "constraint-add": a.completeConstraints, "image": a.completeImages(-1),
		"network": networks, "network-add": networks, "network-rm": networks,
	} {
		if cmd.Flags().Lookup(flag) != nil {
			_ = cmd.RegisterFlagCompletionFunc(flag, complete)
		}
	}
}

// completeConstraints offers the beginnings of constraints, with the values that go without asking and the nodes' names.
func (a *app) completeConstraints(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	const byName = "node.hostname=="
	if name, ok := strings.CutPrefix(prefix, byName); ok {
		names, directive := a.completeNodes(-1)(cmd, args, name)
		for i := range names {
			names[i] = byName + names[i]
		}
		return names, directive
	}
	all := []string{
		byName, "node.id==", "node.labels.", "node.platform.arch==", "node.platform.os==linux",
		"node.role==manager", "node.role==worker",
	}
	all = slices.DeleteFunc(all, func(text string) bool { return !strings.HasPrefix(text, prefix) })
	return all, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
