package main

import (
	"fmt"
	"reflect"
	"strings"

	"moss/api/apiver"
	"moss/api/handler"
	"moss/api/wire"
)

// described are the versions that the specification describes. What lies between them it leaves open.
func described() []apiver.Version {
	return []apiver.Version{
		apiver.New(1, 18), apiver.New(1, 20), apiver.New(1, 21), apiver.New(1, 22), apiver.New(1, 24),
	}
}

// shape is a wire struct that carries the items of one prefix.
type shape struct {
	prefix string
	of     reflect.Type
	since  apiver.Range // of the place where the struct is used; zero: every version
}

func shapes() []shape {
	networks := apiver.Range{Since: apiver.New(1, 21)}
	return []shape{
		{prefix: "list.", of: reflect.TypeFor[wire.ContainerSummary]()},
		{prefix: "endpoint.", of: reflect.TypeFor[wire.EndpointSettings](), since: apiver.Range{Since: apiver.New(1, 21)}},
		{prefix: "mount.", of: reflect.TypeFor[wire.MountPoint](), since: apiver.Range{Since: apiver.New(1, 20)}},
		{prefix: "create.", of: reflect.TypeFor[wire.ContainerCreate]()},
		{prefix: "host.", of: reflect.TypeFor[wire.HostConfig]()},
		{prefix: "inspect.", of: reflect.TypeFor[wire.ContainerInspect]()},
		{prefix: "wait.", of: reflect.TypeFor[wire.ContainerWaited]()},
		{prefix: "network.", of: reflect.TypeFor[wire.Network](), since: networks},
		{prefix: "networkcreate.", of: reflect.TypeFor[wire.NetworkCreate](), since: networks},
		{prefix: "networkcreated.", of: reflect.TypeFor[wire.NetworkCreated](), since: networks},
		{prefix: "networkconnect.", of: reflect.TypeFor[wire.NetworkConnect](), since: networks},
		{prefix: "networkdisconnect.", of: reflect.TypeFor[wire.NetworkDisconnect](), since: networks},
		{prefix: "images.", of: reflect.TypeFor[wire.ImageSummary]()},
		{prefix: "image.", of: reflect.TypeFor[wire.ImageInspect]()},
		{prefix: "history.", of: reflect.TypeFor[wire.ImageHistory]()},
		{prefix: "search.", of: reflect.TypeFor[wire.SearchResult]()},
		{prefix: "removed.", of: reflect.TypeFor[wire.ImageRemoved]()},
		{prefix: "progress.", of: reflect.TypeFor[wire.Progress]()},
		{prefix: "auth.", of: reflect.TypeFor[wire.AuthConfig]()},
		{prefix: "login.", of: reflect.TypeFor[wire.Login]()},
		{prefix: "info.", of: reflect.TypeFor[wire.Info]()},
		{prefix: "df.", of: reflect.TypeFor[wire.DiskUsage]()},
	}
}

// checkShapes says which fields the wire structs lack, or have in other versions than the list.
func checkShapes(items []item) []string {
	var findings []string
	for _, i := range items {
		for _, s := range shapes() {
			path, ok := strings.CutPrefix(i.name, s.prefix)
			if !ok {
				continue
			}
			ranges, found := walk(s.of, strings.Split(path, "."))
			if !found {
				findings = append(findings, fmt.Sprintf("%s: %s has no such field", i.name, s.of))
				continue
			}
			ranges = append(ranges, s.since)
			for _, v := range described() {
				if has, want := inAll(ranges, v), i.versions.Has(v); has != want && (!has || !i.earlier) {
					findings = append(findings, fmt.Sprintf("%s: at %s %s has it: %t, listed: %t", i.name, v, s.of, has, want))
				}
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

// walk follows the names of JSON fields through structs, pointers, lists and maps, and collects the fields' versions.
func walk(t reflect.Type, path []string) (ranges []apiver.Range, found bool) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if len(path) == 0 {
		return nil, true
	}
	if t.Kind() != reflect.Struct {
		return nil, false
	}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			if ranges, found := walk(f.Type, path); found {
				return ranges, true
			}
			continue
		}
		if name == "" {
			name = f.Name
		}
		if name != path[0] {
			continue
		}
		own, err := apiver.ParseRange(f.Tag.Get("api"))
		if err != nil {
			return nil, false
		}
		below, found := walk(f.Type, path[1:])
		return append(below, own), found
	}
	return nil, false
}

// checkRoutes says which endpoints of the list have no handler in a version that has them.
func checkRoutes(items []item) []string {
	var findings []string
	routes := handler.New(handler.Services{}).Routes()
	for _, i := range items {
		method, rest, ok := strings.Cut(i.name, " ")
		if !ok || strings.ToUpper(method) != method || !strings.HasPrefix(rest, "/") {
			continue
		}
		path, _, _ := strings.Cut(rest, " ") // without a parameter or a status
		path = strings.NewReplacer("{", ":", "}", "").Replace(path)
		for _, v := range described() {
			served := false
			for _, r := range routes {
				served = served || r.Method == method && r.Path == path && r.Do != nil && r.Versions.Has(v)
			}
			if i.versions.Has(v) && !served {
				findings = append(findings, fmt.Sprintf("%s: not served at %s", i.name, v))
			}
		}
	}
	return findings
}
