package main

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// maxBoxes is how many containers a worker has at most.
const maxBoxes = 5

func (w *worker) containerActs() []act {
	return []act{
		{"create", 8, w.create},
		{"start", 10, w.start},
		{"stop", 4, func() { w.timed("POST /containers/:id/stop", stop) }},
		{"restart", 2, func() { w.timed("POST /containers/:id/restart", restart) }},
		{"kill", 4, w.kill},
		{"pause", 4, func() { w.plain("POST /containers/:id/pause", pause) }},
		{"unpause", 4, func() { w.plain("POST /containers/:id/unpause", unpause) }},
		{"inspect", 6, w.inspect},
		{"remove", 5, w.remove},
		{"rename", 2, w.rename},
		{"update", 2, w.update},
		{"top", 2, func() { w.plain("GET /containers/:id/top", needsRun) }},
		{"changes", 2, func() { w.plain("GET /containers/:id/changes", look) }},
		{"resize", 2, w.resize},
		{"list", 3, w.list},
		{"wait", 3, w.wait},
		{"prune", 1, w.pruneBoxes},
		{"shared", 6, w.useShared},
	}
}

// box returns a container of the world, one that is gone now and then, nil when there is none.
func (w *worker) box() *box {
	if chance(w.rng, 3) {
		name := w.name("never")
		return &box{name: name, id: name, is: absent}
	}
	return one(w.rng, w.world.boxes)
}

// ref names a container in one of the ways that clients do.
func (w *worker) ref(b *box) string {
	if b.id == "" {
		return b.name
	}
	switch w.rng.IntN(4) {
	case 0:
		return b.id
	case 1:
		return b.id[:min(12, len(b.id))]
	default:
		return b.name
	}
}

// apply makes a call that is a verb about a box, judges its status by the box's states and notes what they are then. It
// reports whether the verb was done.
func (w *worker) apply(b *box, v verb, c *call) (*answer, bool) {
	before := b.states()
	if w.spoil(c) {
		a := w.try(c)
		if v < look {
			w.shake(b) // what was begun may still go on, and meet what comes next
		}
		return a, false
	}
	a := w.try(c)
	if a.status == 0 {
		w.shake(b)
		return a, false
	}
	next, codes := v.after(before, a.status)
	if next == 0 && (a.cut || a.status == conflict && !w.knows(b)) { // or it meets what goes on of a call that was broken off
		return a, false
	}
	if next == 0 {
		w.report.found(w.number, "%s %s of %s: status %d, want one of %v\nanswer: %.2000q", c.method, c.target(), b, a.status, codes, a.body)
		b.is = anyState
		return a, false
	}
	if b.ends && a.status == conflict {
		next |= before & (running | paused) // it is known to have ended a moment before its state says so
	}
	if w.knows(b) {
		b.is = next
	}
	return a, a.status < same
}

// plain makes a call without parameters.
func (w *worker) plain(route string, v verb) {
	if b := w.box(); b != nil {
		w.apply(b, v, w.request(route, w.ref(b)))
	}
}

func (w *worker) create() {
	if len(w.world.boxes) >= maxBoxes {
		w.inspect()
		return
	}
	b := &box{name: w.name("c"), is: created, networks: map[string]bool{}, image: w.base}
	if i := one(w.rng, w.world.images); i != nil && len(i.names) > 0 && !i.bare && chance(w.rng, 20) {
		b.image = i.names[0]
	}
	c := w.request("POST /containers/create").with("name", b.name)
	c.json(w.settings(b, c.minor()))
	if w.spoil(c) {
		w.try(c)
		w.shake(b)
		w.world.boxes = append(w.world.boxes, b)
		w.world.ghosts["container "+b.name] = true
		return
	}
	a, made := w.want(c, "a container that can be", made)
	if !made {
		w.shake(b)
	}
	b.id = a.decoded("Id")
	w.world.boxes = append(w.world.boxes, b)
	if chance(w.rng, 70) {
		w.apply(b, start, w.request("POST /containers/:id/start", w.ref(b)))
		b.ran++
	}
}

// settings returns the body of a create and notes in b what matters of it.
func (w *worker) settings(b *box, minor int) map[string]any {
	body := map[string]any{"Image": b.image, "Labels": map[string]string{"fuzz": w.label()}}
	host := map[string]any{}
	switch w.rng.IntN(5) {
	case 0:
		b.ends = true
		body["Cmd"] = one(w.rng, [][]string{{"true"}, {"sh", "-c", "echo out; echo err >&2; exit 3"}, {"false"}})
	case 1:
		b.stdin, b.tty = true, chance(w.rng, 40)
		body["Cmd"], body["OpenStdin"], body["Tty"] = []string{"cat"}, true, b.tty
	case 2:
		b.entry = true
		body["Entrypoint"], body["Cmd"] = []string{"sleep"}, []string{"100000"}
	default:
		body["Cmd"] = []string{"sleep", "100000"}
	}
	if minor >= 21 && chance(w.rng, 70) {
		b.atOnce = true
		body["StopSignal"] = one(w.rng, []string{"SIGKILL", "KILL", "9"})
	}
	if chance(w.rng, 20) {
		body["Env"], body["WorkingDir"] = []string{"A=b", "ÜNI=ümläut"}, "/tmp"
	}
	if chance(w.rng, 15) {
		body["Volumes"] = map[string]any{"/anon": map[string]any{}}
	}
	if chance(w.rng, 15) && len(w.world.volumes) > 0 {
		b.volumes = []string{one(w.rng, w.world.volumes)}
		host["Binds"] = []string{b.volumes[0] + ":/data" + one(w.rng, []string{"", ":ro", ":rw"})}
	}
	if chance(w.rng, 20) {
		host["Memory"] = 64 << 20
	}
	switch name := one(w.rng, sortedKeys(w.world.networks)); {
	case chance(w.rng, 25):
		b.noNet = true
		host["NetworkMode"] = "none"
	case name != "" && minor >= 21 && chance(w.rng, 30):
		host["NetworkMode"] = name
		b.networks[name] = true
	}
	body["HostConfig"] = host
	return body
}

func (w *worker) start() {
	b := w.box()
	if b == nil {
		return
	}
	c := w.request("POST /containers/:id/start", w.ref(b))
	if chance(w.rng, 20) {
		c.json(map[string]any{})
	}
	if _, done := w.apply(b, start, c); done {
		b.ran++
	}
}

// timed makes a call with a parameter t that keeps the call short.
func (w *worker) timed(route string, v verb) {
	b := w.box()
	if b == nil {
		return
	}
	c := w.request(route, w.ref(b))
	if !b.atOnce || chance(w.rng, 50) {
		c.with("t", strconv.Itoa(w.rng.IntN(2)))
	}
	if _, done := w.apply(b, v, c); done && v == restart {
		b.ran++
	}
}

func (w *worker) kill() {
	b := w.box()
	if b == nil {
		return
	}
	c := w.request("POST /containers/:id/kill", w.ref(b))
	v, signalName := kill, one(w.rng, []string{"", "9", "KILL", "SIGKILL", "kill", "CONT", "SIGWINCH", "28"})
	if slices.Contains([]string{"CONT", "SIGWINCH", "28"}, signalName) {
		v = poke
	}
	if c.minor() < 20 {
		v += oldKill - kill
	}
	w.apply(b, v, c.with("signal", signalName))
}

func (w *worker) inspect() {
	b := w.box()
	if b == nil {
		return
	}
	c := w.request("GET /containers/:id/json", w.ref(b)).with("size", one(w.rng, []string{"", "1", "0"}))
	a, seen := w.apply(b, look, c)
	if !seen || a.status != ok {
		return
	}
	w.compare(b, a.body)
}

func (w *worker) remove() {
	b := w.box()
	if b == nil {
		return
	}
	c := w.request("DELETE /containers/:id", w.ref(b)).with("v", "1")
	v := remove
	if chance(w.rng, 60) {
		v = forceRemove
		c.with("force", one(w.rng, []string{"1", "true", "True"}))
	}
	w.apply(b, v, c)
}

func (w *worker) rename() {
	b := w.box()
	if b == nil {
		return
	}
	if other := one(w.rng, w.world.boxes); other != b && other != nil && other.is&absent == 0 && chance(w.rng, 30) {
		w.want(w.request("POST /containers/:id/rename", w.ref(b)).with("name", other.name), "the name is taken", pick(b.is == absent, []int{missing}, []int{conflict, missing})...)
		return
	}
	name, before := w.name("c"), b.states()
	if !w.knows(b) || before&absent != 0 && before != absent {
		return
	}
	if _, done := w.want(w.request("POST /containers/:id/rename", w.ref(b)).with("name", name), "a free name", pick(before == absent, missing, done)); done {
		b.name = name
	}
}

func (w *worker) update() {
	b := w.box()
	if b == nil {
		return
	}
	c := w.request("POST /containers/:id/update", w.ref(b))
	w.apply(b, change, c.json(map[string]any{"Memory": (64 + w.rng.IntN(64)) << 20, "CpuShares": 2 + w.rng.IntN(1000)}))
}

func (w *worker) resize() {
	b := w.box()
	if b == nil {
		return
	}
	c := w.request("POST /containers/:id/resize", w.ref(b)).with("h", strconv.Itoa(1+w.rng.IntN(100)), "w", strconv.Itoa(1+w.rng.IntN(300)))
	before := b.states()
	var codes []int
	if before&absent != 0 {
		codes = append(codes, missing)
	}
	if before&(created|running|paused|exited) != 0 {
		codes = append(codes, pick(before&^(running|paused) == 0, ok, broken))
		if before&(running|paused) != 0 { // without a terminal nothing is done
			codes = append(codes, ok)
		}
	}
	w.want(c, fmt.Sprintf("%s, tty %t", before, b.tty), codes...)
}

func (w *worker) list() {
	c := w.request("GET /containers/json").with("all", "1", "size", one(w.rng, []string{"", "", "1"}), "limit", one(w.rng, []string{"", "", "3", "-1"}))
	if chance(w.rng, 50) {
		c.with("filters", `{"label":["fuzz=`+w.label()+`"]}`)
	}
	w.want(c, "a list", ok)
}

func (w *worker) wait() {
	b := w.box()
	if b == nil {
		return
	}
	c := w.request("POST /containers/:id/wait", w.ref(b))
	if before := b.states(); before&(running|paused) != 0 && (!b.ends || before&paused != 0) || !w.knows(b) {
		c.manner, c.linger = rude, time.Duration(w.rng.IntN(100))*time.Millisecond
		w.try(c)
		return
	}
	if _, ended := w.apply(b, look, c); ended && b.is&running != 0 && w.knows(b) {
		b.is = exited
	}
}

// pruneBoxes removes what is at rest of the own.
func (w *worker) pruneBoxes() {
	c := w.request("POST /containers/prune").with("filters", `{"label":["fuzz=`+w.label()+`"]}`)
	if _, pruned := w.want(c, "a prune", ok); !pruned {
		return
	}
	for _, b := range w.world.boxes {
		if !w.knows(b) {
			continue
		}
		next := b.is &^ (created | exited)
		if b.is&(created|exited) != 0 || b.states()&exited != 0 {
			next |= absent
		}
		b.is = next
	}
}

// useShared uses a container that others use too: every status of some state may come.
func (w *worker) useShared() {
	name := one(w.rng, w.shared)
	if name == "" {
		return
	}
	if chance(w.rng, 25) {
		c := w.request("POST /containers/create").with("name", name)
		w.want(c.json(map[string]any{"Image": w.base, "Cmd": []string{"sleep", "100000"}, "StopSignal": "KILL"}), "a shared name", made, conflict)
		return
	}
	type use struct {
		route string
		v     verb
	}
	u := one(w.rng, []use{
		{"POST /containers/:id/start", start},
		{"POST /containers/:id/start", start},
		{"POST /containers/:id/stop", stop},
		{"POST /containers/:id/restart", restart},
		{"POST /containers/:id/kill", kill},
		{"POST /containers/:id/pause", pause},
		{"POST /containers/:id/unpause", unpause},
		{"GET /containers/:id/json", look},
		{"GET /containers/:id/changes", look},
		{"GET /containers/:id/top", needsRun},
		{"DELETE /containers/:id", forceRemove},
		{"DELETE /containers/:id", remove},
	})
	c := w.request(u.route, name)
	switch u.v {
	case stop, restart:
		c.with("t", "0")
	case kill:
		if c.minor() < 20 {
			u.v = oldKill
		}
	case forceRemove:
		c.with("force", "1")
	default:
	}
	w.spoil(c)
	a := w.try(c)
	_, codes := u.v.after(anyState, a.status)
	if explained(c, a.status, string(a.body)) != "" {
		return
	}
	if a.status != 0 && c.manner == polite {
		w.expect(c, a, "a shared container", append(codes, conflict)...)
	}
}

// delay returns less than so many milliseconds.
func (w *worker) delay(most int) time.Duration {
	return time.Duration(w.rng.IntN(most)) * time.Millisecond
}
