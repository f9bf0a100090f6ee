package main

import (
	"encoding/json"
	"slices"
)

// The most networks and volumes of a worker.
const (
	maxNetworks = 2
	maxVolumes  = 4
)

func (w *worker) networkActs() []act {
	return []act{
		{"network create", 2, w.createNetwork},
		{"network inspect", 2, w.inspectNetwork},
		{"network list", 1, w.listNetworks},
		{"connect", 4, w.connectNetwork},
		{"disconnect", 3, w.disconnectNetwork},
		{"network remove", 2, w.removeNetwork},
		{"network prune", 1, w.pruneNetworks},
	}
}

func (w *worker) createNetwork() {
	name, body := w.newName("n"), map[string]any{"CheckDuplicate": true, "Driver": "bridge"}
	codes := []int{made}
	if have := sortedKeys(w.world.networks); len(have) >= maxNetworks {
		name, codes = oneOf(w.rng, have), []int{conflict}
	}
	body["Name"] = name
	c := w.newCall("POST /networks/create")
	if c.minorVersion() >= withObjects {
		body["Labels"] = map[string]string{"fuzz": w.ownLabel()}
	}
	if c.minorVersion() >= 22 {
		body["Internal"] = chance(w.rng, 20)
	}
	c.withJSON(body)
	if codes[0] == made && w.spoilCall(c) {
		w.world.ghosts["network "+name] = true
		w.tryCall(c)
		return
	}
	if a, right := w.wantStatus(c, "a network", codes...); right && a.status == made {
		w.world.networks[name] = a.fieldText("Id")
	}
}

// pickNetwork returns one at random with what it is called by, empty when there is none.
func (w *worker) pickNetwork() (name, ref string) {
	name = oneOf(w.rng, sortedKeys(w.world.networks))
	if chance(w.rng, 30) {
		return name, w.world.networks[name]
	}
	return name, name
}

func (w *worker) inspectNetwork() {
	if name, ref := w.pickNetwork(); name != "" {
		w.wantStatus(w.newCall("GET /networks/:id", ref), "an own network", ok)
		return
	}
	w.wantStatus(w.newCall("GET /networks/:id", w.newName("never")), "no such network", missing)
}

func (w *worker) listNetworks() {
	c := w.newCall("GET /networks").withQuery("filters", oneOf(w.rng, []string{"", `{"name":["` + w.ownLabel() + `"]}`}))
	w.wantStatus(c, "a list", ok)
}

// surelyIn reports whether a box's states are sure to be among some.
func (w *worker) surelyIn(b *box, states state) bool {
	return w.knows(b) && b.possibleStates()&^states == 0
}

func (w *worker) connectNetwork() {
	b := w.pickBox()
	name, ref := w.pickNetwork()
	if b == nil || name == "" {
		return
	}
	c := w.newCall("POST /networks/:id/connect", ref).withJSON(map[string]any{"Container": w.refOf(b)})
	var codes []int
	switch {
	case !w.knows(b) || b.is&absent != 0 && b.is != absent:
		codes = []int{ok, missing, conflict, forbidden, bad}
	case b.is == absent:
		codes = []int{missing}
	case b.noNet:
		codes = []int{conflict, forbidden, bad}
	case b.networks[name]:
		codes = []int{forbidden}
	default:
		codes = []int{ok}
	}
	if a, right := w.wantStatus(c, b.String(), codes...); right && a.status == ok {
		b.networks[name] = true
	}
}

func (w *worker) disconnectNetwork() {
	b := w.pickBox()
	name, ref := w.pickNetwork()
	if b == nil || name == "" {
		return
	}
	c := w.newCall("POST /networks/:id/disconnect", ref).withJSON(map[string]any{"Container": w.refOf(b)})
	var codes []int
	switch {
	case !w.knows(b) || b.is&absent != 0 && b.is != absent:
		codes = []int{ok, missing, conflict, forbidden, bad}
	case b.is == absent || !b.networks[name]:
		codes = []int{missing}
	default:
		codes = []int{ok}
	}
	if a, right := w.wantStatus(c, b.String(), codes...); right && a.status == ok {
		delete(b.networks, name)
	}
}

func (w *worker) removeNetwork() {
	name, ref := w.pickNetwork()
	if name == "" {
		w.wantStatus(w.newCall("DELETE /networks/:id", oneOf(w.rng, []string{"bridge", "host", "none"})), "a predefined network", forbidden)
		return
	}
	members := w.world.boxesWhere(func(b *box) bool { return b.networks[name] })
	c := w.newCall("DELETE /networks/:id", ref)
	switch {
	case len(members) == 0:
		code := ok
		if c.minorVersion() >= withoutBody {
			code = done
		}
		if _, gone := w.wantStatus(c, "an own network without containers", code); gone {
			delete(w.world.networks, name)
		}
	case slices.ContainsFunc(members, func(b *box) bool { return !b.ends && w.surelyIn(b, running|paused) }):
		w.wantStatus(c, "a container runs in it", conflict, forbidden)
	}
}

func (w *worker) pruneNetworks() {
	c := w.newCall("POST /networks/prune").withQuery("filters", `{"label":["fuzz=`+w.ownLabel()+`"]}`)
	a, pruned := w.wantStatus(c, "a prune", ok)
	if !pruned {
		return
	}
	var body struct{ NetworksDeleted []string }
	_ = json.Unmarshal(a.body, &body) // The form has been judged.
	for _, name := range body.NetworksDeleted {
		if len(w.world.boxesWhere(func(b *box) bool { return b.networks[name] && w.surelyIn(b, created|running|paused|exited) })) > 0 {
			w.report.addFinding(w.number, "prune removed the network %s, which is in use", name)
		}
		delete(w.world.networks, name)
	}
}

func (w *worker) volumeActs() []act {
	return []act{
		{"volume create", 3, w.createVolume},
		{"volume inspect", 2, w.inspectVolume},
		{"volume list", 1, w.listVolumes},
		{"volume remove", 2, w.removeVolume},
		{"volume prune", 1, w.pruneVolumes},
	}
}

func (w *worker) createVolume() {
	name := w.newName("v")
	if have := w.world.volumes; len(have) >= maxVolumes || len(have) > 0 && chance(w.rng, 20) {
		name = oneOf(w.rng, have) // it is there already: that is no error
	}
	c := w.newCall("POST /volumes/create")
	body := map[string]any{"Name": name}
	if c.minorVersion() >= withObjects && !slices.Contains(w.world.volumes, name) {
		body["Labels"] = map[string]string{"fuzz": w.ownLabel()}
	}
	c.withJSON(body)
	if !slices.Contains(w.world.volumes, name) && w.spoilCall(c) {
		w.world.ghosts["volume "+name] = true
		w.tryCall(c)
		return
	}
	if _, right := w.wantStatus(c, "a volume", made); right && !slices.Contains(w.world.volumes, name) {
		w.world.volumes = append(w.world.volumes, name)
	}
}

func (w *worker) inspectVolume() {
	if name := oneOf(w.rng, w.world.volumes); name != "" {
		w.wantStatus(w.newCall("GET /volumes/:name", name), "an own volume", ok)
		return
	}
	w.wantStatus(w.newCall("GET /volumes/:name", w.newName("never")), "no such volume", missing)
}

func (w *worker) listVolumes() {
	w.wantStatus(w.newCall("GET /volumes").withQuery("filters", oneOf(w.rng, []string{"", `{"dangling":["true"]}`, `{"dangling":{"true":true}}`})), "a list", ok)
}

// usersOf returns the boxes that may have a volume, and whether one of them has it for sure.
func (w *worker) usersOf(volume string) (users []*box, sure bool) {
	users = w.world.boxesWhere(func(b *box) bool { return slices.Contains(b.volumes, volume) })
	return users, slices.ContainsFunc(users, func(b *box) bool { return w.surelyIn(b, created|running|paused|exited) })
}

func (w *worker) removeVolume() {
	name := oneOf(w.rng, w.world.volumes)
	if name == "" {
		return
	}
	users, sure := w.usersOf(name)
	codes := []int{done, conflict}
	switch {
	case sure:
		codes = []int{conflict}
	case len(users) == 0:
		codes = []int{done}
	}
	if a, right := w.wantStatus(w.newCall("DELETE /volumes/:name", name), "an own volume", codes...); right && a.status == done {
		w.dropVolume(name)
	}
}

func (w *worker) dropVolume(name string) {
	w.world.volumes = slices.DeleteFunc(w.world.volumes, func(v string) bool { return v == name })
}

func (w *worker) pruneVolumes() {
	a, pruned := w.wantStatus(w.newCall("POST /volumes/prune").withQuery("filters", `{"label":["fuzz=`+w.ownLabel()+`"]}`), "a prune", ok)
	if !pruned {
		return
	}
	var body struct{ VolumesDeleted []string }
	_ = json.Unmarshal(a.body, &body) // The form has been judged.
	for _, name := range body.VolumesDeleted {
		if _, sure := w.usersOf(name); sure {
			w.report.addFinding(w.number, "prune removed the volume %s, which is in use", name)
		}
		w.dropVolume(name)
	}
}

func (w *worker) systemActs() []act {
	plain := func(route string) func() {
		return func() { w.wantStatus(w.newCall(route), "it is always there", ok) }
	}
	return []act{
		{"info", 2, plain("GET /info")},
		{"version", 1, plain("GET /version")},
		{"ping", 2, plain("GET /_ping")},
		{"ping head", 1, plain("HEAD /_ping")},
		{"usage", 1, plain("GET /system/df")},
		{"build prune", 1, plain("POST /build/prune")},
		{"swarm", 1, func() {
			route := oneOf(w.rng, []string{"GET /services", "GET /tasks", "GET /nodes", "GET /swarm"})
			w.wantStatus(w.newCall(route), "there is no swarm", 406)
		}},
		{"auth", 1, func() {
			w.wantStatus(w.newCall("POST /auth").withJSON(map[string]string{"username": "u", "password": "p", "serveraddress": "127.0.0.1:1"}), "no registry", broken, 401, 503)
		}},
	}
}
