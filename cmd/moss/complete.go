package main

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"moss/api/client"
	"moss/api/types"
	"moss/engine/logdriver"
)

// completionTimeout bounds what a shell waits for names; completion never starts an engine.
const completionTimeout = time.Second

type completer = func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective)

// completeNames offers the names that an engine has, up to most of them in one command; -1 is no bound. Without an engine there
// are none.
func (a *app) completeNames(most int, names func(context.Context, *client.Client) ([]string, error)) completer {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if most >= 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		engine, err := a.newClient(false)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), cmp.Or(a.completion, completionTimeout))
		defer cancel()
		all, err := names(ctx, engine)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var offered []string
		for _, name := range all {
			if strings.HasPrefix(name, prefix) {
				offered = append(offered, name)
			}
		}
		return offered, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeLogOptions offers the options of the log driver that the command line names, of all drivers if it names none.
func completeLogOptions(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	names := logdriver.Names()
	if named, err := cmd.Flags().GetString("log-driver"); err == nil && named != "" {
		names = []string{named}
	}
	var offered []string
	for _, name := range names {
		driver, _ := logdriver.Find(name) // an unknown one has no options
		for _, option := range driver.AllOptions() {
			if option += "="; strings.HasPrefix(option, prefix) && !slices.Contains(offered, option) {
				offered = append(offered, option)
			}
		}
	}
	return offered, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeContainers offers names of containers, all or only running ones.
func (a *app) completeContainers(all bool, most int) completer {
	return a.completeNames(most, func(ctx context.Context, engine *client.Client) (names []string, err error) {
		list, err := engine.Containers(ctx, client.ContainersOptions{All: all})
		for _, ctr := range list {
			for _, name := range ctr.Names {
				names = append(names, strings.TrimPrefix(name, "/"))
			}
		}
		return names, err
	})
}

// completeImages offers names of images, with and without the tag that goes without saying.
func (a *app) completeImages(most int) completer {
	return a.completeNames(most, func(ctx context.Context, engine *client.Client) (names []string, err error) {
		list, err := engine.Images(ctx, client.ImagesOptions{})
		for _, image := range list {
			for _, tag := range image.RepoTags {
				if tag == noTag {
					continue
				}
				names = append(names, tag)
				if short, ok := strings.CutSuffix(tag, ":latest"); ok {
					names = append(names, short)
				}
			}
		}
		return names, err
	})
}

// completeVolumes offers names of volumes.
func (a *app) completeVolumes(most int) completer {
	return a.completeNames(most, func(ctx context.Context, engine *client.Client) (names []string, err error) {
		list, _, err := engine.Volumes(ctx, nil)
		for _, volume := range list {
			names = append(names, volume.Name)
		}
		return names, err
	})
}

// completeNetworks offers names of networks.
func (a *app) completeNetworks(most int) completer {
	return a.completeNetworksOf(most, func(types.Network) bool { return true })
}

// completeLocalNetworks offers names of networks that containers can be put into.
func (a *app) completeLocalNetworks(most int) completer {
	return a.completeNetworksOf(most, func(n types.Network) bool { return n.Scope == scopeLocal })
}

func (a *app) completeNetworksOf(most int, fits func(types.Network) bool) completer {
	return a.completeNames(most, func(ctx context.Context, engine *client.Client) (names []string, err error) {
		list, err := engine.NetworkList(ctx, nil)
		for _, network := range list {
			if fits(network) {
				names = append(names, network.Name)
			}
		}
		return names, err
	})
}
