package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"moss/api/client"
	"moss/cmd/moss/arg"
	"moss/cmd/moss/show"
)

// Statuses of the API that commands act on (API document 3, section 7).
const (
	statusNotFound    = 404
	statusConflict    = 409
	statusUnavailable = 503
)

// What inspect --type can name.
const (
	kindContainer = "container"
	kindImage     = "image"
	kindVolume    = "volume"
	kindNetwork   = "network"
)

func (a *app) inspectCommand() *cobra.Command {
	var format, kind string
	var size bool
	cmd := &cobra.Command{
		Use:     "inspect [flags] NAME...",
		Short:   "Show detailed information on containers, images, volumes and networks",
		Example: "  moss inspect --format '{{.State.Status}}' web",
		Args:    requireArgs(1, -1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, of := range []struct {
				kind  string
				names completer
			}{
				{kindContainer, a.completeContainers(true, -1)},
				{kindImage, a.completeImages(-1)},
				{kindVolume, a.completeVolumes(-1)},
				{kindNetwork, a.completeNetworks(-1)},
			} {
				if kind == "" || kind == of.kind {
					found, _ := of.names(cmd, args, prefix)
					names = append(names, found...)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch kind {
			case "", kindContainer, kindImage, kindVolume, kindNetwork:
			default:
				return usageError(cmd, fmt.Errorf("type %q: want container, image, volume or network", kind))
			}
			engine, err := a.engineClient()
			if err != nil {
				return err
			}
			return a.inspectObjects(cmd.Context(), engine, args, inspection{kind: kind, size: size, format: format})
		},
	}
	cmd.Flags().StringVarP(&format, "format", "f", "", "a Go template for each, or json")
	cmd.Flags().StringVar(&kind, "type", "", "look for one kind only: container, image, volume or network")
	cmd.Flags().BoolVarP(&size, "size", "s", false, "show a container's sizes on disk")
	return cmd
}

// inspectAs makes the inspect command of one kind, for its group.
func (a *app) inspectAs(kind, use, short, example string) *cobra.Command {
	var format, platform string
	var size bool
	complete := a.completeContainers(true, -1)
	if kind == kindImage {
		complete = a.completeImages(-1)
	}
	cmd := &cobra.Command{
		Use:               use,
		Short:             short,
		Example:           example,
		Args:              requireArgs(1, -1),
		ValidArgsFunction: complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			platforms, err := arg.Platforms(platform)
			if err != nil {
				return usageError(cmd, err)
			}
			engine, err := a.engineClient()
			if err != nil {
				return err
			}
			how := inspection{kind: kind, size: size, format: format, platforms: platforms}
			return a.inspectObjects(cmd.Context(), engine, args, how)
		},
	}
	cmd.Flags().StringVarP(&format, "format", "f", "", "a Go template for each, or json")
	if kind == kindImage {
		addPlatform(cmd.Flags(), &platform)
	}
	if kind == kindContainer {
		cmd.Flags().BoolVarP(&size, "size", "s", false, "show a container's sizes on disk")
	}
	return cmd
}

type inspection struct {
	kind, format string
	size         bool
	platforms    []client.Platform // of images
}

func (a *app) inspectObjects(ctx context.Context, engine *client.Client, refs []string, how inspection) error {
	return a.showEach(refs, how.format, func(ref string) (json.RawMessage, error) { return lookUp(ctx, engine, ref, how) })
}

// showEach shows the records of objects, complains of those that have none and then ends with exit code 1.
func (a *app) showEach(refs []string, format string, find func(ref string) (json.RawMessage, error)) error {
	var records []json.RawMessage
	var failed []error
	for _, ref := range refs {
		raw, err := find(ref)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		records = append(records, raw)
	}
	if err := show.Records(a.stdout, format, records); err != nil {
		return err
	}
	for _, err := range failed {
		a.printError(err)
	}
	if len(failed) > 0 {
		return &exit{code: exitFailed}
	}
	return nil
}

// lookUp returns the record of a container or, if there is none of that name, of an image, a
// volume or a network.
func lookUp(ctx context.Context, engine *client.Client, ref string, how inspection) (json.RawMessage, error) {
	found := []func() (json.RawMessage, error){}
	for _, place := range []struct {
		kind string
		find func() (json.RawMessage, error)
	}{
		{kindContainer, func() (json.RawMessage, error) {
			ctr, err := engine.ContainerInspect(ctx, ref, how.size)
			return ctr.Raw, err
		}},
		{kindImage, func() (json.RawMessage, error) { return engine.ImageInspect(ctx, ref, how.platforms...) }},
		{kindVolume, func() (json.RawMessage, error) { return engine.VolumeInspect(ctx, ref) }},
		{kindNetwork, func() (json.RawMessage, error) { return engine.NetworkInspect(ctx, ref) }},
	} {
		if how.kind == "" || how.kind == place.kind {
			found = append(found, place.find)
		}
	}
	var raw json.RawMessage
	var err error
	for _, find := range found {
		if raw, err = find(); client.StatusOf(err) != statusNotFound {
			return raw, err
		}
	}
	if how.kind == "" {
		return nil, fmt.Errorf("no container, image, volume or network is named %s", ref)
	}
	return raw, err
}
