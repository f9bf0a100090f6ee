package object

import (
	"maps"
	"slices"
	"strings"

	"github.com/moby/swarmkit/v2/api"
	"github.com/moby/swarmkit/v2/template"

	"moss/api/types"
)

// isTemplate reports whether each node makes a text of its own out of this one: what it will be is not known here.
func isTemplate(text string) bool { return strings.Contains(text, "{{") }

// templated is a field that may hold a template.
type templated struct{ field, text string }

// checkTemplates refuses templates that no node can fill in. SwarmKit does so too, but names no field.
func checkTemplates(s *types.ContainerSpec) error {
	context := template.NewContext(
		&api.NodeDescription{Hostname: "node", Platform: &api.Platform{OS: "os", Architecture: "architecture"}},
		&api.Task{
			ID: "task", Slot: 1, NodeID: "node", ServiceID: "service",
			Annotations: api.Annotations{Name: "task"}, ServiceAnnotations: api.Annotations{Name: "service"},
		})
	for _, t := range listTemplates(s) {
		if _, err := context.Expand(t.text); err != nil {
			return refuseField(t.field, "%v", err)
		}
	}
	return nil
}

// listTemplates lists what a node fills in.
func listTemplates(s *types.ContainerSpec) []templated {
	var found []templated
	add := func(field, text string) {
		if isTemplate(text) {
			found = append(found, templated{field, text})
		}
	}
	addMap := func(field string, texts map[string]string) {
		for _, key := range slices.Sorted(maps.Keys(texts)) {
			add(field, texts[key])
		}
	}
	add(containerField+"Hostname", s.Hostname)
	for i, variable := range s.Env {
		_, value, _ := strings.Cut(variable, "=")
		add(indexField(containerField+"Env", i), value)
	}
	for i := range s.Mounts {
		field, mount := indexField(containerField+"Mounts", i)+".", &s.Mounts[i]
		add(field+"Source", mount.Source)
		add(field+"Target", mount.Target)
		if o := mount.VolumeOptions; o != nil {
			addMap(field+"VolumeOptions.Labels", o.Labels)
			if o.DriverConfig != nil {
				addMap(field+"VolumeOptions.DriverConfig.Options", o.DriverConfig.Options)
			}
		}
	}
	return found
}
