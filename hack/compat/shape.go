package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"moss/api/apiver"
	"moss/api/types"
)

// servedVersions lists all that moss serves. The specification describes five of them; what 1.19 and 1.23 have is
// moss's decision, which the ranges of the list state as well.
func servedVersions() []apiver.Version {
	var all []apiver.Version
	for v := apiver.Min; v <= apiver.Max; v++ {
		all = append(all, v)
	}
	return all
}

// shape is a wire struct that carries the items of one prefix.
type shape struct {
	prefix string
	of     reflect.Type
	since  apiver.Range // of the place where the struct is used; zero: every version
}

func allShapes() []shape {
	archives, volumes := apiver.Range{Since: apiver.New(1, 20)}, apiver.Range{Since: apiver.New(1, 21)}
	networks, updates := volumes, apiver.Range{Since: apiver.New(1, 22)}
	return append(swarmShapes(), []shape{
		{prefix: "list.", of: reflect.TypeFor[types.ContainerSummary]()},
		{prefix: "endpoint.", of: reflect.TypeFor[types.EndpointSettings](), since: networks},
		{prefix: "mount.", of: reflect.TypeFor[types.MountPoint](), since: archives},
		{prefix: "create.", of: reflect.TypeFor[types.ContainerCreate]()},
		{prefix: "created.", of: reflect.TypeFor[types.ContainerCreated]()},
		{prefix: "host.", of: reflect.TypeFor[types.HostConfig]()},
		{prefix: "update.", of: reflect.TypeFor[types.ContainerUpdate](), since: updates},
		{prefix: "updated.", of: reflect.TypeFor[types.ContainerUpdated](), since: updates},
		{prefix: "inspect.", of: reflect.TypeFor[types.ContainerInspect]()},
		{prefix: "top.", of: reflect.TypeFor[types.Top]()},
		{prefix: "changes.", of: reflect.TypeFor[types.ContainerChange]()},
		{prefix: "copy.", of: reflect.TypeFor[types.CopySource]()},
		{prefix: "pathstat.", of: reflect.TypeFor[types.PathStat](), since: archives},
		{prefix: "wait.", of: reflect.TypeFor[types.ContainerWaited]()},
		{prefix: "stats.cpu_stats.", of: reflect.TypeFor[types.StatsCPU]()},
		{prefix: "stats.networks.", of: reflect.TypeFor[types.StatsNetwork]()},
		{prefix: "stats.blkio_stats.entry.", of: reflect.TypeFor[types.StatsIO]()},
		{prefix: "stats.", of: reflect.TypeFor[types.Stats]()},
		{prefix: "exec.create.", of: reflect.TypeFor[types.ExecCreate]()},
		{prefix: "exec.created.", of: reflect.TypeFor[types.ExecCreated]()},
		{prefix: "exec.start.", of: reflect.TypeFor[types.ExecStart]()},
		{prefix: "exec.inspect.", of: reflect.TypeFor[types.ExecInspect]()},
		{prefix: "committed.", of: reflect.TypeFor[types.ImageCommitted]()},
		{prefix: "volume.", of: reflect.TypeFor[types.Volume](), since: volumes},
		{prefix: "volumes.", of: reflect.TypeFor[types.VolumeList](), since: volumes},
		{prefix: "volumecreate.", of: reflect.TypeFor[types.VolumeCreate](), since: volumes},
		{prefix: "network.", of: reflect.TypeFor[types.Network](), since: networks},
		{prefix: "networkcreate.", of: reflect.TypeFor[types.NetworkCreate](), since: networks},
		{prefix: "networkcreated.", of: reflect.TypeFor[types.NetworkCreated](), since: networks},
		{prefix: "networkconnect.", of: reflect.TypeFor[types.NetworkConnect](), since: networks},
		{prefix: "networkdisconnect.", of: reflect.TypeFor[types.NetworkDisconnect](), since: networks},
		{prefix: "images.", of: reflect.TypeFor[types.ImageSummary]()},
		{prefix: "image.", of: reflect.TypeFor[types.ImageInspect]()},
		{prefix: "history.", of: reflect.TypeFor[types.ImageHistory]()},
		{prefix: "distribution.", of: reflect.TypeFor[types.DistributionInspect]()},
		{prefix: "search.", of: reflect.TypeFor[types.SearchResult]()},
		{prefix: "removed.", of: reflect.TypeFor[types.ImageRemoved]()},
		{prefix: "progress.", of: reflect.TypeFor[types.Progress]()},
		{prefix: "auth.", of: reflect.TypeFor[types.AuthConfig]()},
		{prefix: "login.", of: reflect.TypeFor[types.Login]()},
		{prefix: "info.", of: reflect.TypeFor[types.Info]()},
		{prefix: "version.", of: reflect.TypeFor[types.Version]()},
		{prefix: "message.", of: reflect.TypeFor[types.Event]()},
		{prefix: "df.", of: reflect.TypeFor[types.DiskUsage]()},
		{prefix: "pruned.images.", of: reflect.TypeFor[types.ImagesPruned]()},
		{prefix: "pruned.containers.", of: reflect.TypeFor[types.ContainersPruned]()},
		{prefix: "pruned.volumes.", of: reflect.TypeFor[types.VolumesPruned]()},
		{prefix: "pruned.networks.", of: reflect.TypeFor[types.NetworksPruned]()},
		{prefix: "pruned.builds.", of: reflect.TypeFor[types.BuildsPruned]()},
	}...)
}

func swarmShapes() []shape {
	swarms := apiver.Range{Since: apiver.New(1, 24)}
	return []shape{
		{prefix: "service.", of: reflect.TypeFor[types.Service](), since: swarms},
		{prefix: "servicespec.", of: reflect.TypeFor[types.ServiceSpec](), since: swarms},
		{prefix: "endpointspec.", of: reflect.TypeFor[types.EndpointSpec](), since: swarms},
		{prefix: "servicecreated.", of: reflect.TypeFor[types.ServiceCreated](), since: swarms},
		{prefix: "serviceupdated.", of: reflect.TypeFor[types.ServiceUpdated](), since: swarms},
		{prefix: "task.", of: reflect.TypeFor[types.Task](), since: swarms},
		{prefix: "taskspec.", of: reflect.TypeFor[types.TaskSpec](), since: swarms},
		{prefix: "node.", of: reflect.TypeFor[types.Node](), since: swarms},
		{prefix: "nodespec.", of: reflect.TypeFor[types.NodeSpec](), since: swarms},
		{prefix: "swarm.", of: reflect.TypeFor[types.Swarm](), since: swarms},
		{prefix: "swarmspec.", of: reflect.TypeFor[types.SwarmSpec](), since: swarms},
		{prefix: "swarminit.", of: reflect.TypeFor[types.SwarmInit](), since: swarms},
		{prefix: "swarmjoin.", of: reflect.TypeFor[types.SwarmJoin](), since: swarms},
		{prefix: "swarmunlock.", of: reflect.TypeFor[types.SwarmUnlock](), since: swarms},
		{prefix: "swarmunlockkey.", of: reflect.TypeFor[types.SwarmUnlockKey](), since: swarms},
	}
}

// prefixesByType returns the prefix of each record's items by its type. A container's configuration is part of the
// create body's.
func prefixesByType() map[reflect.Type]string {
	all := map[reflect.Type]string{reflect.TypeFor[types.Config](): "create."}
	for _, s := range allShapes() {
		all[s.of] = s.prefix
	}
	return all
}

// shapeOf returns the shape that an item's name belongs to, and the name of its field.
func shapeOf(name string) (s shape, field string, ok bool) {
	if strings.Contains(name, " ") { // a rule about a field
		return shape{}, "", false
	}
	for _, s := range allShapes() {
		if field, ok := strings.CutPrefix(name, s.prefix); ok {
			return s, field, true
		}
	}
	return shape{}, "", false
}

// checkShapes says which fields the wire structs lack, or have in another form or in other versions than the list.
func checkShapes(items []item) []string {
	var findings []string
	for _, i := range items {
		s, path, ok := shapeOf(i.name)
		if !ok {
			continue
		}
		last, ranges, found := walkFields(s.of, path)
		if !found && i.note == isNever {
			continue
		}
		if !found {
			findings = append(findings, fmt.Sprintf("%s: %s has no such field", i.name, s.of))
			continue
		}
		if form := formOf(last); form != i.kind && (i.note != wider || !isWider(form, i.kind)) {
			findings = append(findings, fmt.Sprintf("%s: %s has it as %s, listed: %s", i.name, s.of, form, i.kind))
		}
		ranges = append(ranges, s.since)
		for _, v := range servedVersions() {
			if has, want := inAll(ranges, v), i.versions.Has(v); has != want && (!has || i.note != earlierToo) {
				findings = append(findings, fmt.Sprintf("%s: at %s %s has it: %t, listed: %t", i.name, v, s.of, has, want))
			}
		}
	}
	return findings
}

func inAll(ranges []apiver.Range, v apiver.Version) bool {
	for _, r := range ranges {
		if !r.Has(v) {
			return false
		}
	}
	return true
}

// walkFields follows the names of JSON fields, with dots between them and some within them, through structs, pointers, lists
// and maps. It returns the type of the last one and the versions of all.
func walkFields(t reflect.Type, path string) (last reflect.Type, ranges []apiver.Range, found bool) {
	if path == "" {
		return t, nil, true
	}
	keys := t.Kind() == reflect.Map && elementType(t).Kind() != reflect.Struct && !strings.Contains(path, ".")
	if keys { // which can be anything
		return t.Elem(), nil, true
	}
	t = elementType(t)
	if t.Kind() != reflect.Struct {
		return nil, nil, false
	}
	for f := range t.Fields() { // a field of the struct's own hides one of an embedded struct
		name, embedded := jsonName(f)
		if rest, ok := strings.CutPrefix(path+".", name+"."); ok && name != "" && !embedded {
			own, err := apiver.ParseRange(f.Tag.Get("api"))
			if err != nil {
				return nil, nil, false
			}
			if last, below, found := walkFields(f.Type, strings.TrimSuffix(rest, ".")); found {
				return last, append(below, own), true
			}
		}
	}
	for f := range t.Fields() {
		if _, embedded := jsonName(f); embedded {
			if last, ranges, found := walkFields(f.Type, path); found {
				return last, ranges, true
			}
		}
	}
	return nil, nil, false
}

// elementType returns what pointers, lists and maps lead to.
func elementType(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Array || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	return t
}

// jsonName returns the name of a struct's field in JSON, empty for one that is not there, and whether its own fields stand
// in its place.
func jsonName(f reflect.StructField) (name string, embedded bool) {
	name, _, _ = strings.Cut(f.Tag.Get("json"), ",")
	switch {
	case name == "-" || !f.IsExported() && !f.Anonymous:
		return "", false
	case name == "" && f.Anonymous && f.Type.Kind() == reflect.Struct:
		return "", true
	case name == "":
		return f.Name, false
	default:
		return name, false
	}
}

// checkUnlisted says which fields the wire structs have that the list does not. A field that is there in no version that is
// served is none; an object need not be listed if what is in it is.
func checkUnlisted(items []item) []string {
	listed := make(map[string]bool, len(items))
	for _, i := range items {
		listed[i.name] = true
	}
	elsewhere := prefixesByType()
	var findings []string
	for _, s := range allShapes() {
		for _, name := range unlistedFields(s.of, s.prefix, s, elsewhere, listed) {
			findings = append(findings, fmt.Sprintf("%s: %s has it, not in the list", name, s.of))
		}
	}
	return findings
}

// unlistedFields returns the names of the fields of t and below it that are not listed. at is where t stands in the shape s.
func unlistedFields(t reflect.Type, at string, s shape, elsewhere map[reflect.Type]string, listed map[string]bool) []string {
	var missing []string
	for f := range t.Fields() {
		name, embedded := jsonName(f)
		own, err := apiver.ParseRange(f.Tag.Get("api"))
		if name == "" && !embedded || err != nil || !isServed(own) {
			continue
		}
		inner := elementType(f.Type)
		prefix, known := elsewhere[inner]
		apart := known && prefix != s.prefix // its fields are items of another prefix
		switch {
		case embedded && !apart:
			missing = append(missing, unlistedFields(inner, at, s, elsewhere, listed)...)
			continue
		case embedded:
			continue
		}
		_, whole := declaredForms()[f.Type] // its form says all about it
		deep := inner.Kind() == reflect.Struct && formOf(inner) == "object" && !apart && !whole && inner.NumField() > 0
		if !listed[at+name] && (!deep || formOf(f.Type) != "object") {
			missing = append(missing, at+name)
		}
		if deep {
			missing = append(missing, unlistedFields(inner, at+name+".", s, elsewhere, listed)...)
		}
	}
	return missing
}

func isServed(r apiver.Range) bool { return slices.ContainsFunc(servedVersions(), r.Has) }
