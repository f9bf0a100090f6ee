package main

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"moss/api/types"
	"moss/cmd/moss/show"
)

func (a *app) listNodes(ctx context.Context, filters map[string][]string, flags swarmListFlags) error {
	engine, err := a.engineClient()
	if err != nil {
		return err
	}
	list, err := engine.NodeList(ctx, filters)
	if err != nil {
		return err
	}
	self := ""
	if !flags.quiet {
		info, err := swarmInfo(ctx, engine)
		if err != nil {
			return err
		}
		self = info.NodeID
	}
	slices.SortStableFunc(list, func(a, b types.Node) int { return strings.Compare(a.Description.Hostname, b.Description.Hostname) })
	rows := make([]show.Row, 0, len(list))
	for _, node := range list {
		row := nodeRow(node)
		row["Self"] = strconv.FormatBool(node.ID == self)
		if node.ID == self && flags.format == "" {
			row["ID"] += " *"
		}
		rows = append(rows, row)
	}
	columns := []show.Column{
		{Field: "ID", Title: "ID", Keep: true},
		{Field: "Hostname", Title: "HOSTNAME", Keep: true},
		{Field: "Status", Title: "STATUS"},
		{Field: "Availability", Title: "AVAILABILITY"},
		{Field: "ManagerStatus", Title: "MANAGER STATUS"},
		{Field: "EngineVersion", Title: "ENGINE VERSION"},
	}
	titles := map[string]string{"Self": "SELF", "Address": "ADDRESS", "Role": "ROLE", "Labels": "LABELS"}
	return a.tableView(false).Table(a.stdout, flags.rowFormat(), columns, titles, rows)
}

func nodeRow(node types.Node) show.Row {
	manager := ""
	if status := node.ManagerStatus; status != nil {
		manager = firstUpper(status.Reachability)
		if status.Leader {
			manager = "Leader"
		}
	}
	row := show.Row{
		"ID": node.ID, "Hostname": node.Description.Hostname, "Status": firstUpper(node.Status.State),
		"Availability": firstUpper(node.Spec.Availability), "ManagerStatus": manager,
		"EngineVersion": node.Description.Engine.EngineVersion, "Address": node.Status.Addr, "Role": node.Spec.Role,
		"Labels": pairText(node.Spec.Labels),
	}
	row.SetLabels(node.Spec.Labels)
	switch node.Status.State {
	case nodeDown:
		row.SetColour("Status", show.Red)
	case "ready":
		row.SetColour("Status", show.Green)
	}
	return row
}
