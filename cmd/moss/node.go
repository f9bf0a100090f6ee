package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"moss/api/client"
	"moss/api/types"
	"moss/cmd/moss/arg"
)

// selfNode names the node of the engine that is asked.
const selfNode = "self"

// What the API says of nodes (document 2, 4.6: "not shown").
const (
	nodeDown    = "down"
	roleManager = "manager"
	roleWorker  = "worker"
)

// What flags of nodes may say.
var (
	nodeRoles      = []string{roleWorker, roleManager}
	availabilities = []string{"active", "pause", "drain"}
)

func (a *app) nodeCommand() *cobra.Command {
	return newGroupCommand("node", "Manage the nodes of a swarm",
		"  moss node ls\n  moss node update --availability drain laptop\n  moss node promote desktop",
		a.nodeListCommand(), a.nodeTasksCommand(), a.nodeInspectCommand(), a.nodeUpdateCommand(),
		a.nodeRoleCommand("promote", "Make one or more nodes managers", roleManager),
		a.nodeRoleCommand("demote", "Make one or more managers workers", roleWorker), a.nodeRemoveCommand())
}

// findNode returns the id that self stands for, any other name as it is.
func findNode(ctx context.Context, engine *client.Client, ref string) (string, error) {
	if ref != selfNode {
		return ref, nil
	}
	info, err := swarmInfo(ctx, engine)
	if err != nil {
		return "", err
	}
	if info.NodeID == "" {
		return "", errors.New("this node is not part of a swarm")
	}
	return info.NodeID, nil
}

// swarmInfo returns the engine's part in its swarm.
func swarmInfo(ctx context.Context, engine *client.Client) (types.InfoSwarm, error) {
	var info types.Info
	raw, err := engine.Info(ctx)
	if err != nil {
		return info.Swarm, err
	}
	if err := json.Unmarshal(raw, &info); err != nil {
		return info.Swarm, fmt.Errorf("decode info: %w", err)
	}
	return info.Swarm, nil
}

// inspectNode returns the record of a node.
func inspectNode(ctx context.Context, engine *client.Client, ref string) (types.Node, error) {
	var node types.Node
	id, err := findNode(ctx, engine, ref)
	if err != nil {
		return node, err
	}
	raw, err := engine.NodeInspect(ctx, id)
	if err != nil {
		return node, err
	}
	if err := json.Unmarshal(raw, &node); err != nil {
		return node, fmt.Errorf("decode node %s: %w", ref, err)
	}
	return node, nil
}

func (a *app) nodeInspectCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:               "inspect [flags] NODE...",
		Short:             "Show detailed information on nodes",
		Long:              "Show detailed information on nodes. self is the node of this engine.",
		Example:           "  moss node inspect -f '{{.Status.Addr}}' self",
		Args:              requireArgs(1, -1),
		ValidArgsFunction: a.completeNodes(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			engine, err := a.engineClient()
			if err != nil {
				return err
			}
			return a.showEach(args, format, func(ref string) (json.RawMessage, error) {
				id, err := findNode(cmd.Context(), engine, ref)
				if err != nil {
					return nil, err
				}
				return engine.NodeInspect(cmd.Context(), id)
			})
		},
	}
	cmd.Flags().StringVarP(&format, "format", "f", "", "a Go template for each, or json")
	return cmd
}

func (a *app) nodeUpdateCommand() *cobra.Command {
	var role, availability string
	var labels listChange
	cmd := &cobra.Command{
		Use:   "update [flags] NODE",
		Short: "Update a node",
		Long: "Update a node. One that is drained gets no tasks, and those that it has run elsewhere; one that is paused keeps\n" +
			"its tasks and gets no others.",
		Example:           "  moss node update --availability drain laptop\n  moss node update --label-add gpu=yes desktop",
		Args:              requireArgs(1, 1),
		ValidArgsFunction: a.completeNodes(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := errors.Join(checkChoice("role", role, nodeRoles), checkChoice("availability", availability, availabilities),
				labels.applyToPairs(new(map[string]string{})))
			if err != nil {
				return usageError(cmd, err)
			}
			return a.updateNodes(cmd.Context(), args, func(spec *types.NodeSpec) error {
				if role != "" {
					spec.Role = role
				}
				if availability != "" {
					spec.Availability = availability
				}
				return labels.applyToPairs(&spec.Labels)
			})
		},
	}
	set := cmd.Flags()
	set.StringVar(&role, "role", "", "worker or manager")
	set.StringVar(&availability, "availability", "", "active, pause or drain")
	set.StringArrayVar(&labels.add, "label-add", nil, "set a label: `KEY=VALUE`")
	set.StringArrayVar(&labels.remove, "label-rm", nil, "remove a label: `KEY`")
	// The flags exist and have no other completion, so this cannot fail.
	_ = cmd.RegisterFlagCompletionFunc("role", cobra.FixedCompletions(nodeRoles, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("availability", cobra.FixedCompletions(availabilities, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// updateNodes changes nodes one after the other: each change of a role is a change of the managers among themselves.
func (a *app) updateNodes(ctx context.Context, refs []string, change func(*types.NodeSpec) error) error {
	engine, err := a.engineClient()
	if err != nil {
		return err
	}
	return a.inOrder(refs, func(ref string) error {
		node, err := inspectNode(ctx, engine, ref)
		if err != nil {
			return err
		}
		if err := change(&node.Spec); err != nil {
			return err
		}
		if err := engine.NodeUpdate(ctx, node.ID, node.Version, node.Spec); err != nil {
			return err
		}
		return a.printLine(ref)
	})
}

func (a *app) nodeRoleCommand(name, short, role string) *cobra.Command {
	return &cobra.Command{
		Use:               name + " NODE...",
		Short:             short,
		Example:           "  moss node " + name + " desktop",
		Args:              requireArgs(1, -1),
		ValidArgsFunction: a.completeNodes(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.updateNodes(cmd.Context(), args, func(spec *types.NodeSpec) error {
				spec.Role = role
				return nil
			})
		},
	}
}

func (a *app) nodeRemoveCommand() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:               "rm [flags] NODE...",
		Aliases:           []string{"remove"},
		Short:             "Remove one or more nodes that are down from the swarm",
		Example:           "  moss node rm laptop",
		Args:              requireArgs(1, -1),
		ValidArgsFunction: a.completeNodes(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.applyToContainers(args, func(engine *client.Client, ref string) error {
				id, err := findNode(cmd.Context(), engine, ref)
				if err != nil {
					return err
				}
				return engine.NodeRemove(cmd.Context(), id, force)
			})
		},
	}
	cmd.Flags().BoolVarP(&force, "force", "f", false, "also one that is up")
	return cmd
}

// completeNodes offers host names of nodes.
func (a *app) completeNodes(most int) completer {
	return a.completeNames(most, func(ctx context.Context, engine *client.Client) (names []string, err error) {
		list, err := engine.NodeList(ctx, nil)
		for _, node := range list {
			names = append(names, node.Description.Hostname)
		}
		return append(names, selfNode), err
	})
}

func (a *app) nodeListCommand() *cobra.Command {
	var flags swarmListFlags
	cmd := &cobra.Command{
		Use:     "ls [flags]",
		Aliases: []string{"list"},
		Short:   "List the nodes of the swarm",
		Long:    "List the nodes of the swarm. The node of this engine has a * behind its id.",
		Example: "  moss node ls --filter role=manager",
		Args:    requireArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			filters, err := arg.Filters(flags.filters)
			if err != nil {
				return usageError(cmd, err)
			}
			return a.listNodes(cmd.Context(), filters, flags)
		},
	}
	flags.registerFlags(cmd, "id, label, membership (accepted, pending), name, role (worker, manager)", false)
	return cmd
}
