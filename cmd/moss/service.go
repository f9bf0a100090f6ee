package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"moss/api/client"
	"moss/api/types"
)

func (a *app) serviceCommand() *cobra.Command {
	return newGroupCommand("service", "Manage services: containers that a swarm keeps running",
		"  moss service create --name web --replicas 3 busybox httpd -f\n  moss service ps web\n  moss service scale web=5",
		a.serviceCreateCommand(), a.serviceListCommand(), a.serviceTasksCommand(), a.serviceInspectCommand(), a.serviceUpdateCommand(),
		a.serviceScaleCommand(), a.serviceLogsCommand(), a.serviceRemoveCommand())
}

func (a *app) serviceCreateCommand() *cobra.Command {
	var flags serviceFlags
	cmd := &cobra.Command{
		Use:   "create [flags] IMAGE [COMMAND] [ARG...]",
		Short: "Create a service",
		Long: "Create a service, and wait until its tasks run. Ctrl-C ends the wait, not the service.\n" +
			"Every node gets the image from its registry, and uses the one that it has if the registry does not answer.",
		Example: "  moss service create --name web --replicas 3 --limit-memory 64m busybox httpd -f\n" +
			"  moss service create --name job --restart-condition none --constraint node.labels.gpu==yes localhost:5000/train\n" +
			"  moss service create --name web --network inner --publish 8080:80 busybox httpd -f",
		Args:              requireArgs(1, -1),
		ValidArgsFunction: a.completeImages(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			spec := types.ServiceSpec{Annotations: types.Annotations{Name: flags.name}}
			spec.TaskTemplate.ContainerSpec.Image, spec.TaskTemplate.ContainerSpec.Args = args[0], args[1:]
			around, err := a.serviceSurroundings(cmd)
			if err == nil {
				err = flags.changeSpec(&spec, around)
			}
			if err != nil {
				return usageError(cmd, err)
			}
			return a.createService(cmd.Context(), spec, flags)
		},
	}
	cmd.Flags().SetInterspersed(false)
	flags.registerCreate(cmd.Flags())
	a.completeServiceFlags(cmd)
	return cmd
}

func (a *app) serviceSurroundings(cmd *cobra.Command) (surroundings, error) {
	dir, err := os.Getwd()
	return surroundings{given: cmd.Flags().Changed, lookup: a.lookup, dir: dir}, err
}

// serviceAuth returns the credentials for an image that the nodes are given; nil: none are sent.
func (a *app) serviceAuth(ctx context.Context, image string, send bool) *types.AuthConfig {
	if !send {
		return nil
	}
	repo, _ := splitName(image)
	return new(a.authOfImage(ctx, repo))
}

func (a *app) createService(ctx context.Context, spec types.ServiceSpec, flags serviceFlags) error {
	engine, err := a.engineClient()
	if err != nil {
		return err
	}
	made, err := engine.ServiceCreate(ctx, spec, a.serviceAuth(ctx, spec.TaskTemplate.ContainerSpec.Image, flags.auth))
	if err != nil {
		return err
	}
	if err := a.printLine(made.ID); err != nil || flags.wait.detach {
		return err
	}
	return a.awaitService(ctx, engine, made.ID, flags.wait.quiet)
}

// inspectService returns the record of a service.
func inspectService(ctx context.Context, engine *client.Client, ref string) (types.Service, error) {
	var service types.Service
	raw, err := engine.ServiceInspect(ctx, ref)
	if err != nil {
		return service, err
	}
	if err := json.Unmarshal(raw, &service); err != nil {
		return service, fmt.Errorf("decode service %s: %w", ref, err)
	}
	return service, nil
}

func (a *app) serviceUpdateCommand() *cobra.Command {
	var flags serviceFlags
	cmd := &cobra.Command{
		Use:   "update [flags] SERVICE",
		Short: "Update a service",
		Long: "Update a service, and wait until its tasks are replaced as far as need be.\n" +
			"Flags that end in -add and -rm change lists; what no flag names stays as it is.",
		Example: "  moss service update --image localhost:5000/web:v2 --env-add LEVEL=debug web\n" +
			"  moss service update --force web",
		Args:              requireArgs(1, 1),
		ValidArgsFunction: a.completeServices(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			around, err := a.serviceSurroundings(cmd)
			if err != nil {
				return err
			}
			if err := flags.changeSpec(&types.ServiceSpec{}, around); err != nil {
				return usageError(cmd, err) // whatever the service is like
			}
			change := func(engine *client.Client, spec *types.ServiceSpec) error {
				if err := flags.resolveNetworks(cmd.Context(), engine); err != nil {
					return err
				}
				return flags.changeSpec(spec, around)
			}
			return a.updateService(cmd.Context(), args[0], flags.auth, flags.wait, change)
		},
	}
	flags.registerUpdate(cmd.Flags())
	a.completeServiceFlags(cmd)
	return cmd
}

// waitFlags say whether and how a command waits until a service is as it shall be.
type waitFlags struct{ detach, quiet bool }

func (f *waitFlags) registerFlags(set *pflag.FlagSet) {
	set.BoolVarP(&f.detach, "detach", "d", false, "do not wait until the tasks run")
	set.BoolVarP(&f.quiet, "quiet", "q", false, "do not show the progress")
}

// updateService changes a service and prints its name.
func (a *app) updateService(
	ctx context.Context, ref string, auth bool, wait waitFlags, change func(*client.Client, *types.ServiceSpec) error,
) error {
	engine, err := a.engineClient()
	if err != nil {
		return err
	}
	service, err := inspectService(ctx, engine, ref)
	if err != nil {
		return err
	}
	if err := change(engine, &service.Spec); err != nil {
		return fmt.Errorf("update %s: %w", ref, err)
	}
	credentials := a.serviceAuth(ctx, service.Spec.TaskTemplate.ContainerSpec.Image, auth)
	if err := engine.ServiceUpdate(ctx, service.ID, service.Version, service.Spec, credentials); err != nil {
		return err
	}
	if err := a.printLine(ref); err != nil || wait.detach {
		return err
	}
	return a.awaitService(ctx, engine, service.ID, wait.quiet)
}

func (a *app) serviceScaleCommand() *cobra.Command {
	var wait waitFlags
	cmd := &cobra.Command{
		Use:               "scale [flags] SERVICE=REPLICAS...",
		Short:             "Scale one or more replicated services",
		Example:           "  moss service scale web=5 worker=0",
		Args:              requireArgs(1, -1),
		ValidArgsFunction: a.completeScales,
		RunE: func(cmd *cobra.Command, args []string) error {
			replicas := make([]uint64, len(args))
			for i, text := range args {
				name, number, _ := strings.Cut(text, "=")
				n, err := strconv.ParseUint(number, 10, 63)
				if name == "" || err != nil {
					return usageError(cmd, fmt.Errorf("scale %q: want SERVICE=REPLICAS", text))
				}
				args[i], replicas[i] = name, n
			}
			left := replicas
			return a.inOrder(args, func(name string) error {
				number := left[0]
				left = left[1:]
				return a.updateService(cmd.Context(), name, false, wait, func(_ *client.Client, spec *types.ServiceSpec) error {
					return setReplicas(spec, number)
				})
			})
		},
	}
	wait.registerFlags(cmd.Flags())
	return cmd
}

func (a *app) serviceInspectCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:               "inspect [flags] SERVICE...",
		Short:             "Show detailed information on services",
		Example:           "  moss service inspect -f '{{.Spec.TaskTemplate.ContainerSpec.Image}}' web",
		Args:              requireArgs(1, -1),
		ValidArgsFunction: a.completeServices(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			engine, err := a.engineClient()
			if err != nil {
				return err
			}
			return a.showEach(args, format, func(ref string) (json.RawMessage, error) {
				return engine.ServiceInspect(cmd.Context(), ref)
			})
		},
	}
	cmd.Flags().StringVarP(&format, "format", "f", "", "a Go template for each, or json")
	return cmd
}

func (a *app) serviceRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "rm SERVICE...",
		Aliases:           []string{"remove"},
		Short:             "Remove one or more services with their tasks",
		Example:           "  moss service rm web",
		Args:              requireArgs(1, -1),
		ValidArgsFunction: a.completeServices(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.applyToContainers(args, func(engine *client.Client, ref string) error {
				return engine.ServiceRemove(cmd.Context(), ref)
			})
		},
	}
}

// completeServices offers names of services.
func (a *app) completeServices(most int) completer {
	return a.completeNames(most, func(ctx context.Context, engine *client.Client) (names []string, err error) {
		list, err := engine.ServiceList(ctx, nil)
		for _, service := range list {
			names = append(names, service.Spec.Name)
		}
		return names, err
	})
}

// completeScales offers what begins an argument of service scale.
func (a *app) completeScales(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	names, directive := a.completeServices(-1)(cmd, args, prefix)
	for i := range names {
		names[i] += "="
	}
	return names, directive | cobra.ShellCompDirectiveNoSpace
}

// errPaused is of an update that has stopped because tasks failed.
var errPaused = errors.New("the update is paused")
