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

// fetchJSON makes a call of 1.24 that must succeed and decodes its answer.
func (w *worker) fetchJSON(name string, into any, query ...string) bool {
	method, path, _ := strings.Cut(name, " ")
	c := (&call{method: method, route: name, version: "1.24", path: path, keep: true}).withQuery(query...)
	a, right := w.wantStatus(c, "a list", ok)
	if !right {
		return false
	}
	if err := json.Unmarshal(a.body, into); err != nil {
		w.report.addFinding(w.number, "%s: %v in %.500q", name, err, a.body)
		return false
	}
	return true
}

// takeInventory asks the lists for all that is there, nil when that fails.
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
	if !w.fetchJSON("GET /containers/json", &boxes, "all", "1") || !w.fetchJSON("GET /images/json", &images) ||
		!w.fetchJSON("GET /volumes", &volumes) || !w.fetchJSON("GET /networks", &networks) {
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

// checkInventory compares a worker's world with what the engine shows. Nothing else of the worker may be under way.
func (w *worker) checkInventory(inv *inventory) {
	for _, b := range w.world.boxes {
		seen, there := inv.containers[b.name]
		is := b.possibleStates()
		switch {
		case !w.knows(b):
			continue
		case !there && is&absent == 0:
			w.report.addFinding(w.number, "the list lacks %s", b)
		case !there:
			b.is = absent
		case is&stateOf(seen.state) == 0:
			w.report.addFinding(w.number, "the list shows %s as %q", b, seen.state)
		case b.id == "":
			b.id = seen.id
		}
	}
	w.reportExtra("image", inv.images, func(name string) bool { return w.world.imageNamed(name) != nil })
	w.reportExtra("network", inv.networks, func(name string) bool { return w.world.networks[name] != "" })
	w.reportExtra("volume", inv.volumes, func(name string) bool { return slices.Contains(w.world.volumes, name) })
	w.reportExtra("container", inv.containers, func(name string) bool {
		return len(w.world.boxesWhere(func(b *box) bool { return b.name == name })) > 0
	})
	w.reportMissing(inv)
}

// reportExtra tells of what the engine has and the worker's world has not. What may have come of a call that was broken
// off is removed.
func (w *worker) reportExtra(kind string, have any, known func(name string) bool) {
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
		own := strings.HasPrefix(name, w.ownLabel()+"-") || strings.HasPrefix(name, w.ownLabel()+"/")
		switch {
		case !own || known(name):
		case w.world.ghosts[kind+" "+name]:
			w.removeAny(kind, name)
		default:
			w.report.addFinding(w.number, "there is a %s %s that nobody made", kind, name)
		}
	}
}

// reportMissing tells of images, networks and volumes of the world that the engine does not show.
func (w *worker) reportMissing(inv *inventory) {
	for _, i := range w.world.images {
		for _, name := range i.names {
			if id := inv.images[name]; id != i.id {
				w.report.addFinding(w.number, "the image %s of %s is %q", name, i.id, id)
			}
		}
	}
	for _, v := range w.world.volumes {
		if !inv.volumes[v] {
			w.report.addFinding(w.number, "the list lacks the volume %s", v)
		}
	}
	for name, id := range w.world.networks {
		if inv.networks[name] != id {
			w.report.addFinding(w.number, "the network %s is %q and not %q", name, inv.networks[name], id)
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
	c := &call{method: r.Method, route: how.route, version: "1.24", path: fillPath(r.Path, []string{name}), query: how.query}
	w.wantStatus(c, fmt.Sprintf("the %s goes", kind), ok, done, missing, conflict)
}
