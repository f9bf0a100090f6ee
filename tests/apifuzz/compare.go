package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// inventory is what the engine's lists show.
type inventory struct {
	containers map[string]seenBox // by name
	images     map[string]string  // ids by name
	imageIDs   map[string]bool
	volumes    map[string]bool
	networks   map[string]string // ids by name
}

// seenBox is a container as the list shows it.
type seenBox struct {
	id, owner, state string
}

// ask makes a call of 1.24 that must succeed and decodes its answer.
func (w *worker) ask(name string, into any, query ...string) bool {
	method, path, _ := strings.Cut(name, " ")
	c := (&call{method: method, route: name, version: "1.24", path: path, keep: true}).with(query...)
	a, right := w.want(c, "a list", ok)
	if !right {
		return false
	}
	if err := json.Unmarshal(a.body, into); err != nil {
		w.report.found(w.number, "%s: %v in %.500q", name, err, a.body)
		return false
	}
	return true
}

// look asks the lists for all that is there, nil when that fails.
func (w *worker) takeInventory() *inventory {
	var boxes []struct {
		ID     string `json:"Id"`
		Names  []string
		Labels map[string]string
		State  string
	}
	var images []struct {
		ID       string `json:"Id"`
		RepoTags []string
	}
	var volumes struct{ Volumes []struct{ Name string } }
	var networks []struct {
		ID   string `json:"Id"`
		Name string
	}
	if !w.ask("GET /containers/json", &boxes, "all", "1") || !w.ask("GET /images/json", &images) ||
		!w.ask("GET /volumes", &volumes) || !w.ask("GET /networks", &networks) {
		return nil
	}
	inv := &inventory{
		containers: map[string]seenBox{}, images: map[string]string{}, imageIDs: map[string]bool{}, volumes: map[string]bool{}, networks: map[string]string{},
	}
	for _, b := range boxes {
		for _, name := range b.Names {
			inv.containers[strings.TrimPrefix(name, "/")] = seenBox{b.ID, b.Labels["fuzz"], b.State}
		}
	}
	for _, i := range images {
		inv.imageIDs[i.ID] = true
		for _, name := range i.RepoTags {
			inv.images[name] = i.ID
		}
	}
	for _, v := range volumes.Volumes {
		inv.volumes[v.Name] = true
	}
	for _, n := range networks {
		inv.networks[n.Name] = n.ID
	}
	return inv
}

// check compares a worker's world with what the engine shows. Nothing else of the worker may be under way.
func (w *worker) check(inv *inventory) {
	for _, b := range w.world.boxes {
		seen, there := inv.containers[b.name]
		is := b.states()
		switch {
		case !w.knows(b):
			continue
		case !there && is&absent == 0:
			w.report.found(w.number, "the list lacks %s", b)
		case !there:
			b.is = absent
		case is&stateOf(seen.state) == 0:
			w.report.found(w.number, "the list shows %s as %q", b, seen.state)
		case b.id == "":
			b.id = seen.id
		}
	}
	w.same("image", inv.images, func(name string) bool { return w.world.imageNamed(name) != nil })
	w.same("network", inv.networks, func(name string) bool { return w.world.networks[name] != "" })
	w.same("volume", inv.volumes, func(name string) bool { return slices.Contains(w.world.volumes, name) })
	w.same("container", inv.containers, func(name string) bool {
		return len(w.world.users(func(b *box) bool { return b.name == name })) > 0
	})
	w.lacks(inv)
}

// same tells of what the engine has and the worker's world has not. What may have come of a call that was broken off is
// removed.
func (w *worker) same(kind string, have any, known func(name string) bool) {
	var names []string
	switch m := have.(type) {
	case map[string]string:
		names = sortedKeys(m)
	case map[string]bool:
		names = sortedKeys(m)
	case map[string]seenBox:
		names = sortedKeys(m)
	}
	for _, name := range names {
		own := strings.HasPrefix(name, w.label()+"-") || strings.HasPrefix(name, w.label()+"/")
		switch {
		case !own || known(name):
		case w.world.ghosts[kind+" "+name]:
			w.removeAny(kind, name)
		default:
			w.report.found(w.number, "there is a %s %s that nobody made", kind, name)
		}
	}
}

// lacks tells of images, networks and volumes of the world that the engine does not show.
func (w *worker) lacks(inv *inventory) {
	for _, i := range w.world.images {
		for _, name := range i.names {
			if id := inv.images[name]; id != i.id {
				w.report.found(w.number, "the image %s of %s is %q", name, i.id, id)
			}
		}
	}
	for _, v := range w.world.volumes {
		if !inv.volumes[v] {
			w.report.found(w.number, "the list lacks the volume %s", v)
		}
	}
	for name, id := range w.world.networks {
		if inv.networks[name] != id {
			w.report.found(w.number, "the network %s is %q and not %q", name, inv.networks[name], id)
		}
	}
}

// removals are how things go, by kind.
var removals = map[string]struct{ route, query string }{
	"container": {"DELETE /containers/:id", "force=1&v=1"},
	"image":     {"DELETE /images/:name", "force=1"},
	"volume":    {"DELETE /volumes/:name", ""},
	"network":   {"DELETE /networks/:id", ""},
}

// removeAny removes a thing. It may be gone already, or in use until something else is.
func (w *worker) removeAny(kind, name string) {
	how := removals[kind]
	r := w.table.byName[how.route][0]
	c := &call{method: r.Method, route: how.route, version: "1.24", path: fill(r.Path, []string{name}), query: how.query}
	w.want(c, fmt.Sprintf("the %s goes", kind), ok, done, missing, conflict)
}
