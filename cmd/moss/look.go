package main

import (
	"fmt"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"moss/api/client"
	"moss/cmd/moss/show"
)

func (a *app) topCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "top CONTAINER [PS ARGUMENT...]",
		Short:             "List the processes of a container",
		Example:           "  moss top web\n  moss top web -o pid,args",
		Args:              arguments(1, -1),
		ValidArgsFunction: a.completeContainers(false, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			engine, err := a.client()
			if err != nil {
				return err
			}
			list, err := engine.ContainerTop(cmd.Context(), args[0], strings.Join(args[1:], " "))
			if err != nil {
				return err
			}
			return show.Grid(a.stdout, append([][]string{list.Titles}, list.Processes...))
		},
	}
	cmd.Flags().SetInterspersed(false)
	return cmd
}

func (a *app) diffCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "diff CONTAINER",
		Short:             "List the files that differ from the image",
		Long:              "List the files that differ from the image: A added, C changed, D deleted.",
		Example:           "  moss diff web",
		Args:              arguments(1, 1),
		ValidArgsFunction: a.completeContainers(true, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			engine, err := a.client()
			if err != nil {
				return err
			}
			changes, err := engine.ContainerChanges(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			for _, change := range changes {
				if err := a.print(changeText(change)); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func changeText(change client.Change) string {
	letter := "?"
	if kinds := "CAD"; change.Kind >= 0 && change.Kind < len(kinds) {
		letter = kinds[change.Kind : change.Kind+1]
	}
	return letter + " " + show.Plain(change.Path)
}

func (a *app) portCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "port CONTAINER [PORT[/PROTOCOL]]",
		Short:             "List the published ports of a container",
		Example:           "  moss port web\n  moss port web 80/tcp",
		Args:              arguments(1, 2),
		ValidArgsFunction: a.completeContainers(false, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			engine, err := a.client()
			if err != nil {
				return err
			}
			ctr, err := engine.ContainerInspect(cmd.Context(), args[0], false)
			if err != nil {
				return err
			}
			ports := ctr.NetworkSettings.Ports
			if len(args) == 1 {
				return a.showPorts(ports)
			}
			key := strings.ToLower(args[1])
			if !strings.Contains(key, "/") {
				key += "/tcp"
			}
			if len(ports[key]) == 0 {
				return fmt.Errorf("container %s publishes no port %s", args[0], key)
			}
			for _, binding := range ports[key] {
				if err := a.print(net.JoinHostPort(binding.HostIP, binding.HostPort)); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func (a *app) showPorts(ports map[string][]client.PortBinding) error {
	for _, key := range sortedKeys(ports) {
		for _, binding := range ports[key] {
			if err := a.print(key + " -> " + net.JoinHostPort(binding.HostIP, binding.HostPort)); err != nil {
				return err
			}
		}
	}
	return nil
}
