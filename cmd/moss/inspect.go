package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"moss/api/client"
	"moss/cmd/moss/show"
)

// Statuses of the API that commands act on (API document 3, section 7).
const (
	statusNotFound       = 404
	statusConflict       = 409
	statusNotImplemented = 501
)

func (a *app) inspectCommand() *cobra.Command {
	var format, kind string
	var size bool
	cmd := &cobra.Command{
		Use:     "inspect [flags] NAME...",
		Short:   "Show all that is known of containers and images",
		Example: "  moss inspect --format '{{.State.Status}}' web",
		Args:    arguments(1, -1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			names, _ := a.completeContainers(true, -1)(cmd, args, prefix)
			images, directive := a.completeImages(-1)(cmd, args, prefix)
			return append(names, images...), directive
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if kind != "" && kind != "container" && kind != "image" {
				return usage(cmd, fmt.Errorf("type %q: want container or image", kind))
			}
			engine, err := a.client()
			if err != nil {
				return err
			}
			return a.inspect(cmd.Context(), engine, args, inspection{kind: kind, size: size, format: format})
		},
	}
	cmd.Flags().StringVarP(&format, "format", "f", "", "a Go template for each, or json")
	cmd.Flags().StringVar(&kind, "type", "", "look for a container or an image only")
	cmd.Flags().BoolVarP(&size, "size", "s", false, "show a container's sizes on disk")
	return cmd
}

type inspection struct {
	kind, format string
	size         bool
}

func (a *app) inspect(ctx context.Context, engine *client.Client, refs []string, how inspection) error {
	var records []json.RawMessage
	var failed []error
	for _, ref := range refs {
		raw, err := lookUp(ctx, engine, ref, how)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		records = append(records, raw)
	}
	if err := show.Records(a.stdout, how.format, records); err != nil {
		return err
	}
	for _, err := range failed {
		a.complain(err)
	}
	if len(failed) > 0 {
		return &exit{code: exitFailed}
	}
	return nil
}

// lookUp returns the record of a container or, if there is none of that name, of an image.
func lookUp(ctx context.Context, engine *client.Client, ref string, how inspection) (json.RawMessage, error) {
	if how.kind != "image" {
		ctr, err := engine.ContainerInspect(ctx, ref, how.size)
		if err == nil || how.kind == "container" || client.StatusOf(err) != statusNotFound {
			return ctr.Raw, err
		}
	}
	raw, err := engine.ImageInspect(ctx, ref)
	if how.kind == "" && client.StatusOf(err) == statusNotFound {
		return nil, fmt.Errorf("no container or image is named %s", ref)
	}
	return raw, err
}
