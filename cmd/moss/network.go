package main

import (
	"encoding/json"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"moss/api/client"
	"moss/api/types"
	"moss/cmd/moss/arg"
)

func (a *app) networkCommand() *cobra.Command {
	return newGroupCommand("network", "Manage networks",
		"  moss network create front\n  moss run -d --name db --network front busybox httpd -f\n  moss run --rm --network front busybox wget -O- http://db",
		a.networkCreateCommand(), a.networkListCommand(), a.networkInspectCommand(), a.networkConnectCommand(),
		a.networkDisconnectCommand(), a.networkRemoveCommand(), a.networkExistsCommand(), a.networkPruneCommand())
}

// The drivers of networks that can be created.
const driverBridge, driverOverlay = "bridge", "overlay"

type networkCreateFlags struct {
	body                         types.NetworkCreate
	pools                        arg.PoolFlags
	options, labels, ipamOptions []string
	ipamDriver, configFrom       string
	ipv4                         bool
}

func (a *app) networkCreateCommand() *cobra.Command {
	var flags networkCreateFlags
	cmd := &cobra.Command{
		Use:   "create [flags] NETWORK",
		Short: "Create a network",
		Long: "Create a network. Containers in it find each other by name, and those of other networks do not reach them.\n" +
			"The engine chooses a free subnet unless --subnet names one; only then may containers ask for addresses in it.\n" +
			"With the driver overlay it is a network of the swarm: tasks of services on all nodes are in it. A manager makes it.",
		Example: "  moss network create front\n  moss network create --internal --subnet 10.7.0.0/24 --gateway 10.7.0.1 back\n" +
			"  moss network create --ipv6 --subnet 10.8.0.0/24 --subnet fd00:8::/64 -o com.docker.network.driver.mtu=1400 both\n" +
			"  moss network create -d overlay inner && moss service create --name web --network inner busybox httpd -f",
		Args: requireArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			body, err := flags.buildBody(args[0], cmd.Flags().Changed)
			if err != nil {
				return usageError(cmd, err)
			}
			engine, err := a.engineClient()
			if err != nil {
				return err
			}
			made, err := engine.NetworkCreate(cmd.Context(), body)
			if err != nil {
				return err
			}
			if made.Warning != "" {
				a.printWarnings([]string{made.Warning})
			}
			return a.printLine(made.ID)
		},
	}
	flags.registerFlags(cmd.Flags())
	drivers := []string{driverBridge, driverOverlay}
	// The flags exist and have no other completion, so this cannot fail.
	_ = cmd.RegisterFlagCompletionFunc("config-from", a.completeNetworks(-1))
	_ = cmd.RegisterFlagCompletionFunc("driver", cobra.FixedCompletions(drivers, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (f *networkCreateFlags) registerFlags(set *pflag.FlagSet) {
	set.StringVarP(&f.body.Driver, "driver", "d", driverBridge, "bridge, or overlay for tasks of the swarm")
	set.StringArrayVar(&f.pools.Subnets, "subnet", nil, "`SUBNET` of the network, such as 10.7.0.0/24; again for one of IPv6")
	set.StringArrayVar(&f.pools.Gateways, "gateway", nil, "`IP` of the gateway in a subnet")
	set.StringArrayVar(&f.pools.Ranges, "ip-range", nil, "`PART` of a subnet that containers get addresses from")
	set.StringArrayVar(&f.pools.Aux, "aux-address", nil, "address that no container gets: `NAME=IP`")
	set.BoolVar(&f.body.Internal, "internal", false, "no connections to the outside")
	set.BoolVar(&f.ipv4, "ipv4", true, "IPv4; --ipv4=false for none")
	set.BoolVar(&f.body.EnableIPv6, "ipv6", false, "IPv6 beside IPv4")
	set.BoolVar(&f.body.Attachable, "attachable", false, "let containers be connected by hand, as they always can to a bridge")
	set.StringVar(&f.body.Scope, "scope", "", "reach of the network: local or swarm (default: the driver's)")
	set.BoolVar(&f.body.ConfigOnly, "config-only", false, "keep the settings for other networks; no container can be in it")
	set.StringVar(&f.configFrom, "config-from", "", "take the settings of a `NETWORK` made with --config-only")
	set.StringArrayVar(&f.labels, "label", nil, "set a label: `KEY=VALUE`")
	set.StringArrayVarP(&f.options, "opt", "o", nil, "set an option of the driver: `KEY=VALUE`")
	set.StringVar(&f.ipamDriver, "ipam-driver", "", "driver that chooses the addresses")
	set.StringArrayVar(&f.ipamOptions, "ipam-opt", nil, "set an option of that driver: `KEY=VALUE`")
}

// buildBody makes the body of the flags; given reports whether a flag was written at all.
func (f *networkCreateFlags) buildBody(name string, given func(flag string) bool) (types.NetworkCreate, error) {
	body := f.body
	body.Name, body.CheckDuplicate = name, true
	if given("ipv4") {
		body.EnableIPv4 = &f.ipv4
	}
	if f.configFrom != "" {
		body.ConfigFrom = &struct{ Network string }{f.configFrom}
	}
	var err error
	if body.Options, err = arg.Pairs("opt", f.options); err != nil {
		return body, err
	}
	for _, text := range f.labels {
		if body.Labels == nil {
			body.Labels = map[string]string{}
		}
		if err := arg.Labels(body.Labels, text); err != nil {
			return body, err
		}
	}
	ipam := types.NetworkIPAM{Driver: f.ipamDriver}
	if ipam.Config, err = f.pools.Pools(); err != nil {
		return body, err
	}
	if ipam.Options, err = arg.Pairs("ipam-opt", f.ipamOptions); err != nil {
		return body, err
	}
	if ipam.Driver != "" || len(ipam.Config) > 0 || ipam.Options != nil {
		body.IPAM = &ipam
	}
	return body, nil
}

func (a *app) networkInspectCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:               "inspect [flags] NETWORK...",
		Short:             "Show detailed information on networks",
		Example:           "  moss network inspect -f '{{range .Containers}}{{.Name}} {{.IPv4Address}}{{println}}{{end}}' front",
		Args:              requireArgs(1, -1),
		ValidArgsFunction: a.completeNetworks(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			engine, err := a.engineClient()
			if err != nil {
				return err
			}
			return a.showEach(args, format, func(ref string) (json.RawMessage, error) {
				return engine.NetworkInspect(cmd.Context(), ref)
			})
		},
	}
	cmd.Flags().StringVarP(&format, "format", "f", "", "a Go template for each, or json")
	return cmd
}

func (a *app) networkRemoveCommand() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:               "rm [flags] NETWORK...",
		Aliases:           []string{"remove"},
		Short:             "Remove one or more networks that no container uses",
		Example:           "  moss network rm front back",
		Args:              requireArgs(1, -1),
		ValidArgsFunction: a.completeNetworks(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.applyToContainers(args, func(engine *client.Client, ref string) error {
				err := engine.NetworkRemove(cmd.Context(), ref)
				if force && client.StatusOf(err) == statusNotFound {
					return nil // gone is what was asked for
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVarP(&force, "force", "f", false, "a missing network is no error")
	return cmd
}

// networkConnectFlags are what a container asks of the network it joins.
type networkConnectFlags struct {
	ip, ip6               string
	aliases, links, local []string
	gwPriority            int
	driverOpts            []string
}

func (a *app) networkConnectCommand() *cobra.Command {
	var flags networkConnectFlags
	cmd := &cobra.Command{
		Use:               "connect [flags] NETWORK CONTAINER",
		Short:             "Connect a container to a network",
		Example:           "  moss network connect --alias db --ip 10.7.0.9 back postgres",
		Args:              requireArgs(2, 2),
		ValidArgsFunction: a.completeNetworkThenContainer,
		RunE: func(cmd *cobra.Command, args []string) error {
			endpoint, err := flags.buildEndpoint()
			if err != nil {
				return usageError(cmd, err)
			}
			engine, err := a.engineClient()
			if err != nil {
				return err
			}
			return engine.NetworkConnect(cmd.Context(), args[0], args[1], endpoint)
		},
	}
	set := cmd.Flags()
	set.StringVar(&flags.ip, "ip", "", "IPv4 address in the network")
	set.StringVar(&flags.ip6, "ip6", "", "IPv6 address in the network")
	set.StringArrayVar(&flags.links, "link", nil, "link to another container: `CONTAINER[:ALIAS]`")
	set.StringArrayVar(&flags.aliases, "alias", nil, "further `NAME` in the network")
	set.StringArrayVar(&flags.local, "link-local-ip", nil, "link-local `IP` in the network")
	set.StringArrayVar(&flags.driverOpts, "driver-opt", nil, "option of the interface: `KEY=VALUE`")
	set.IntVar(&flags.gwPriority, "gw-priority", 0, "the network with the highest has the default route")
	return cmd
}

// buildEndpoint returns nil when nothing is asked for.
func (f *networkConnectFlags) buildEndpoint() (*types.EndpointConfig, error) {
	ask := createFlags{ip: f.ip, ip6: f.ip6, aliases: f.aliases, links: f.links, linkLocalIPs: f.local}
	endpoint := types.EndpointConfig{GwPriority: f.gwPriority}
	var err error
	if endpoint.DriverOpts, err = arg.Pairs("driver-opt", f.driverOpts); err != nil {
		return nil, err
	}
	if err := ask.fillFirst(&types.ContainerCreate{}, "", &endpoint); err != nil {
		return nil, err
	}
	if emptyEndpoint(&endpoint) {
		return nil, nil //nolint:nilnil // the API has a missing object for it
	}
	return &endpoint, nil
}

func (a *app) networkDisconnectCommand() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:               "disconnect [flags] NETWORK CONTAINER",
		Short:             "Disconnect a container from a network",
		Example:           "  moss network disconnect back postgres",
		Args:              requireArgs(2, 2),
		ValidArgsFunction: a.completeNetworkThenContainer,
		RunE: func(cmd *cobra.Command, args []string) error {
			engine, err := a.engineClient()
			if err != nil {
				return err
			}
			return engine.NetworkDisconnect(cmd.Context(), args[0], args[1], force)
		},
	}
	cmd.Flags().BoolVarP(&force, "force", "f", false, "even if the container is gone or does not answer")
	return cmd
}
