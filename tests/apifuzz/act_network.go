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
		{"network create", 2, w.networkCreate},
		{"network inspect", 2, w.networkInspect},
		{"network list", 1, w.networkList},
		{"connect", 4, w.connect},
		{"disconnect", 3, w.disconnect},
		{"network remove", 2, w.networkRemove},
		{"network prune", 1, w.networkPrune},
	}
}

func (w *worker) networkCreate() {
	name, body := w.name("n"), map[string]any{"CheckDuplicate": true, "Driver": "bridge"}
	codes := []int{made}
	if have := sortedKeys(w.world.networks); len(have) >= maxNetworks {
		name, codes = one(w.rng, have), []int{conflict}
	}
	body["Name"] = name
	c := w.request("POST /networks/create")
	if c.minor() >= newest || c.version == "" {
		body["Labels"] = map[string]string{"fuzz": w.label()}
	}
	if c.minor() >= 22 {
		body["Internal"] = chance(w.rng, 20)
	}
	c.json(body)
	if codes[0] == made && w.spoil(c) {
		w.world.ghosts["network "+name] = true
		w.try(c)
		return
	}
	if a, right := w.want(c, "a network", codes...); right && a.status == made {
		w.world.networks[name] = a.decoded("Id")
	}
}

// network returns one at random with what it is called by, empty when there is none.
func (w *worker) network() (name, ref string) {
	name = one(w.rng, sortedKeys(w.world.networks))
	if chance(w.rng, 30) {
		return name, w.world.networks[name]
	}
	return name, name
}

func (w *worker) networkInspect() {
	if name, ref := w.network(); name != "" {
		w.want(w.request("GET /networks/:id", ref), "an own network", ok)
		return
	}
	w.want(w.request("GET /networks/:id", w.name("never")), "no such network", missing)
}

func (w *worker) networkList() {
	c := w.request("GET /networks").with("filters", one(w.rng, []string{"", `{"name":["` + w.label() + `"]}`}))
	w.want(c, "a list", ok)
}

// within reports whether a box's states are sure to be among some.
func (w *worker) within(b *box, states state) bool {
	return w.knows(b) && b.states()&^states == 0
}

func (w *worker) connect() {
	b := w.box()
	name, ref := w.network()
	if b == nil || name == "" {
		return
	}
	c := w.request("POST /networks/:id/connect", ref).json(map[string]any{"Container": w.ref(b)})
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
	if a, right := w.want(c, b.String(), codes...); right && a.status == ok {
		b.networks[name] = true
	}
}

func (w *worker) disconnect() {
	b := w.box()
	name, ref := w.network()
	if b == nil || name == "" {
		return
	}
	c := w.request("POST /networks/:id/disconnect", ref).json(map[string]any{"Container": w.ref(b)})
	var codes []int
	switch {
	case !w.knows(b) || b.is&absent != 0 && b.is != absent:
		codes = []int{ok, missing, conflict, forbidden, bad}
	case b.is == absent || !b.networks[name]:
		codes = []int{missing}
	default:
		codes = []int{ok}
	}
	if a, right := w.want(c, b.String(), codes...); right && a.status == ok {
		delete(b.networks, name)
	}
}

func (w *worker) networkRemove() {
	name, ref := w.network()
	if name == "" {
		w.want(w.request("DELETE /networks/:id", one(w.rng, []string{"bridge", "host", "none"})), "a predefined network", forbidden)
		return
	}
	members := w.world.users(func(b *box) bool { return b.networks[name] })
	c := w.request("DELETE /networks/:id", ref)
	switch {
	case len(members) == 0:
		if _, gone := w.want(c, "an own network without containers", ok); gone {
			delete(w.world.networks, name)
		}
	case slices.ContainsFunc(members, func(b *box) bool { return !b.ends && w.within(b, running|paused) }):
		w.want(c, "a container runs in it", conflict, forbidden)
	}
}

func (w *worker) networkPrune() {
	c := w.request("POST /networks/prune").with("filters", `{"label":["fuzz=`+w.label()+`"]}`)
	a, pruned := w.want(c, "a prune", ok)
	if !pruned {
		return
	}
	var body struct{ NetworksDeleted []string }
	_ = json.Unmarshal(a.body, &body) // The form has been judged.
	for _, name := range body.NetworksDeleted {
		if len(w.world.users(func(b *box) bool { return b.networks[name] && w.within(b, created|running|paused|exited) })) > 0 {
			w.report.found(w.number, "prune removed the network %s, which is in use", name)
		}
		delete(w.world.networks, name)
	}
}

func (w *worker) volumeActs() []act {
	return []act{
		{"volume create", 3, w.volumeCreate},
		{"volume inspect", 2, w.volumeInspect},
		{"volume list", 1, w.volumeList},
		{"volume remove", 2, w.volumeRemove},
		{"volume prune", 1, w.volumePrune},
	}
}

func (w *worker) volumeCreate() {
	name := w.name("v")
	if have := w.world.volumes; len(have) >= maxVolumes || len(have) > 0 && chance(w.rng, 20) {
		name = one(w.rng, have) // it is there already: that is no error
	}
	c := w.request("POST /volumes/create")
	body := map[string]any{"Name": name}
	if c.minor() >= newest && !slices.Contains(w.world.volumes, name) {
		body["Labels"] = map[string]string{"fuzz": w.label()}
	}
	c.json(body)
	if !slices.Contains(w.world.volumes, name) && w.spoil(c) {
		w.world.ghosts["volume "+name] = true
		w.try(c)
		return
	}
	if _, right := w.want(c, "a volume", made); right && !slices.Contains(w.world.volumes, name) {
		w.world.volumes = append(w.world.volumes, name)
	}
}

func (w *worker) volumeInspect() {
	if name := one(w.rng, w.world.volumes); name != "" {
		w.want(w.request("GET /volumes/:name", name), "an own volume", ok)
		return
	}
	w.want(w.request("GET /volumes/:name", w.name("never")), "no such volume", missing)
}

func (w *worker) volumeList() {
	w.want(w.request("GET /volumes").with("filters", one(w.rng, []string{"", `{"dangling":["true"]}`, `{"dangling":{"true":true}}`})), "a list", ok)
}

// usersOf returns the boxes that may have a volume, and whether one of them has it for sure.
func (w *worker) usersOf(volume string) (users []*box, sure bool) {
	users = w.world.users(func(b *box) bool { return slices.Contains(b.volumes, volume) })
	return users, slices.ContainsFunc(users, func(b *box) bool { return w.within(b, created|running|paused|exited) })
}

func (w *worker) volumeRemove() {
	name := one(w.rng, w.world.volumes)
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
	if a, right := w.want(w.request("DELETE /volumes/:name", name), "an own volume", codes...); right && a.status == done {
		w.dropVolume(name)
	}
}

func (w *worker) dropVolume(name string) {
	w.world.volumes = slices.DeleteFunc(w.world.volumes, func(v string) bool { return v == name })
}

func (w *worker) volumePrune() {
	a, pruned := w.want(w.request("POST /volumes/prune").with("filters", `{"label":["fuzz=`+w.label()+`"]}`), "a prune", ok)
	if !pruned {
		return
	}
	var body struct{ VolumesDeleted []string }
	_ = json.Unmarshal(a.body, &body) // The form has been judged.
	for _, name := range body.VolumesDeleted {
		if _, sure := w.usersOf(name); sure {
			w.report.found(w.number, "prune removed the volume %s, which is in use", name)
		}
		w.dropVolume(name)
	}
}

func (w *worker) systemActs() []act {
	plain := func(route string) func() {
		return func() { w.want(w.request(route), "it is always there", ok) }
	}
	return []act{
		{"info", 2, plain("GET /info")},
		{"version", 1, plain("GET /version")},
		{"ping", 2, plain("GET /_ping")},
		{"ping head", 1, plain("HEAD /_ping")},
		{"usage", 1, plain("GET /system/df")},
		{"build prune", 1, plain("POST /build/prune")},
		{"swarm", 1, func() {
			route := one(w.rng, []string{"GET /services", "GET /tasks", "GET /nodes", "GET /swarm"})
			w.want(w.request(route), "there is no swarm", 406)
		}},
		{"auth", 1, func() {
			w.want(w.request("POST /auth").json(map[string]string{"username": "u", "password": "p", "serveraddress": "127.0.0.1:1"}), "no registry", broken, 401, 503)
		}},
	}
}
