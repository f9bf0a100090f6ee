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
		{"create", 8, w.createContainer},
		{"start", 10, w.startContainer},
		{"stop", 4, func() { w.callTimed("POST /containers/:id/stop", stop) }},
		{"restart", 2, func() { w.callTimed("POST /containers/:id/restart", restart) }},
		{"kill", 4, w.killContainer},
		{"pause", 4, func() { w.callPlain("POST /containers/:id/pause", pause) }},
		{"unpause", 4, func() { w.callPlain("POST /containers/:id/unpause", unpause) }},
		{"inspect", 6, w.inspectContainer},
		{"remove", 5, w.removeContainer},
		{"rename", 2, w.renameContainer},
		{"update", 2, w.updateContainer},
		{"top", 2, func() { w.callPlain("GET /containers/:id/top", needsRun) }},
		{"changes", 2, func() { w.callPlain("GET /containers/:id/changes", look) }},
		{"resize", 2, w.resizeContainer},
		{"list", 3, w.listContainers},
		{"wait", 3, w.waitContainer},
		{"prune", 1, w.pruneBoxes},
		{"shared", 6, w.useShared},
	}
}

// pickBox returns a container of the world, one that is gone now and then, nil when there is none.
func (w *worker) pickBox() *box {
	if chance(w.rng, 3) {
		name := w.newName("never")
		return &box{name: name, id: name, is: absent}
	}
	return oneOf(w.rng, w.world.boxes)
}

// refOf names a container in one of the ways that clients do.
func (w *worker) refOf(b *box) string {
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

// applyVerb makes a call that is a verb about a box, judges its status by the box's states and notes what they are then. It
// reports whether the verb was done.
func (w *worker) applyVerb(b *box, v verb, c *call) (*answer, bool) {
	before := b.possibleStates()
	if w.spoilCall(c) {
		a := w.tryCall(c)
		if v < look {
			w.markUnsure(b) // what was begun may still go on, and meet what comes next
		}
		return a, false
	}
	a := w.tryCall(c)
	if a.status == 0 {
		w.markUnsure(b)
		return a, false
	}
	next, codes := v.statesAfter(before, a.status)
	if next == 0 && (a.cut || a.status == conflict && !w.knows(b)) { // or it meets what goes on of a call that was broken off
		return a, false
	}
	if next == 0 {
		w.report.addFinding(w.number, "%s %s of %s: status %d, want one of %v\nanswer: %.2000q", c.method, c.requestTarget(), b, a.status, codes, a.body)
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

// callPlain makes a call without parameters.
func (w *worker) callPlain(route string, v verb) {
	if b := w.pickBox(); b != nil {
		w.applyVerb(b, v, w.newCall(route, w.refOf(b)))
	}
}

func (w *worker) createContainer() {
	if len(w.world.boxes) >= maxBoxes {
		w.inspectContainer()
		return
	}
	b := &box{name: w.newName("c"), is: created, networks: map[string]bool{}, image: w.base}
	if i := oneOf(w.rng, w.world.images); i != nil && len(i.names) > 0 && !i.bare && chance(w.rng, 20) {
		b.image = i.names[0]
	}
	c := w.newCall("POST /containers/create").withQuery("name", b.name)
	c.withJSON(w.createBody(b, c.minorVersion()))
	if w.spoilCall(c) {
		w.tryCall(c)
		w.markUnsure(b)
		w.world.boxes = append(w.world.boxes, b)
		w.world.ghosts["container "+b.name] = true
		return
	}
	a, made := w.wantStatus(c, "a container that can be", made)
	if !made {
		w.markUnsure(b)
	}
	b.id = a.fieldText("Id")
	w.world.boxes = append(w.world.boxes, b)
	if chance(w.rng, 70) {
		w.applyVerb(b, start, w.newCall("POST /containers/:id/start", w.refOf(b)))
		b.ran++
	}
}

// createBody returns the body of a create and notes in b what matters of it.
func (w *worker) createBody(b *box, minor int) map[string]any {
	body := map[string]any{"Image": b.image, "Labels": map[string]string{"fuzz": w.ownLabel()}}
	host := map[string]any{}
	switch w.rng.IntN(5) {
	case 0:
		b.ends = true
		body["Cmd"] = oneOf(w.rng, [][]string{{"true"}, {"sh", "-c", "echo out; echo err >&2; exit 3"}, {"false"}})
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
		body["StopSignal"] = oneOf(w.rng, []string{"SIGKILL", "KILL", "9"})
	}
	if chance(w.rng, 20) {
		body["Env"], body["WorkingDir"] = []string{"A=b", "ÜNI=ümläut"}, "/tmp"
	}
	if chance(w.rng, 15) {
		body["Volumes"] = map[string]any{"/anon": map[string]any{}}
	}
	if chance(w.rng, 15) && len(w.world.volumes) > 0 {
		b.volumes = []string{oneOf(w.rng, w.world.volumes)}
		host["Binds"] = []string{b.volumes[0] + ":/data" + oneOf(w.rng, []string{"", ":ro", ":rw"})}
	}
	if chance(w.rng, 20) {
		host["Memory"] = 64 << 20
	}
	switch name := oneOf(w.rng, sortedKeys(w.world.networks)); {
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

func (w *worker) startContainer() {
	b := w.pickBox()
	if b == nil {
		return
	}
	c := w.newCall("POST /containers/:id/start", w.refOf(b))
	if chance(w.rng, 20) {
		c.withJSON(map[string]any{})
	}
	if _, done := w.applyVerb(b, start, c); done {
		b.ran++
	}
}

// callTimed makes a call with a parameter t that keeps the call short.
func (w *worker) callTimed(route string, v verb) {
	b := w.pickBox()
	if b == nil {
		return
	}
	c := w.newCall(route, w.refOf(b))
	if !b.atOnce || chance(w.rng, 50) {
		c.withQuery("t", strconv.Itoa(w.rng.IntN(2)))
	}
	if _, done := w.applyVerb(b, v, c); done && v == restart {
		b.ran++
	}
}

func (w *worker) killContainer() {
	b := w.pickBox()
	if b == nil {
		return
	}
	c := w.newCall("POST /containers/:id/kill", w.refOf(b))
	v, signalName := kill, oneOf(w.rng, []string{"", "9", "KILL", "SIGKILL", "kill", "CONT", "SIGWINCH", "28"})
	if slices.Contains([]string{"CONT", "SIGWINCH", "28"}, signalName) {
		v = poke
	}
	if c.minorVersion() < 20 {
		v += oldKill - kill
	}
	w.applyVerb(b, v, c.withQuery("signal", signalName))
}

func (w *worker) inspectContainer() {
	b := w.pickBox()
	if b == nil {
		return
	}
	c := w.newCall("GET /containers/:id/json", w.refOf(b)).withQuery("size", oneOf(w.rng, []string{"", "1", "0"}))
	a, seen := w.applyVerb(b, look, c)
	if !seen || a.status != ok {
		return
	}
	w.compareBox(b, a.body)
}

func (w *worker) removeContainer() {
	b := w.pickBox()
	if b == nil {
		return
	}
	c := w.newCall("DELETE /containers/:id", w.refOf(b)).withQuery("v", "1")
	v := remove
	if chance(w.rng, 60) {
		v = forceRemove
		c.withQuery("force", oneOf(w.rng, []string{"1", "true", "True"}))
	}
	w.applyVerb(b, v, c)
}

func (w *worker) renameContainer() {
	b := w.pickBox()
	if b == nil {
		return
	}
	if other := oneOf(w.rng, w.world.boxes); other != b && other != nil && other.is&absent == 0 && chance(w.rng, 30) {
		w.wantStatus(w.newCall("POST /containers/:id/rename", w.refOf(b)).withQuery("name", other.name), "the name is taken", pick(b.is == absent, []int{missing}, []int{conflict, missing})...)
		return
	}
	name, before := w.newName("c"), b.possibleStates()
	if !w.knows(b) || before&absent != 0 && before != absent {
		return
	}
	if _, done := w.wantStatus(w.newCall("POST /containers/:id/rename", w.refOf(b)).withQuery("name", name), "a free name", pick(before == absent, missing, done)); done {
		b.name = name
	}
}

func (w *worker) updateContainer() {
	b := w.pickBox()
	if b == nil {
		return
	}
	c := w.newCall("POST /containers/:id/update", w.refOf(b))
	w.applyVerb(b, change, c.withJSON(map[string]any{"Memory": (64 + w.rng.IntN(64)) << 20, "CpuShares": 2 + w.rng.IntN(1000)}))
}

func (w *worker) resizeContainer() {
	b := w.pickBox()
	if b == nil {
		return
	}
	c := w.newCall("POST /containers/:id/resize", w.refOf(b)).withQuery("h", strconv.Itoa(1+w.rng.IntN(100)), "w", strconv.Itoa(1+w.rng.IntN(300)))
	before := b.possibleStates()
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
	w.wantStatus(c, fmt.Sprintf("%s, tty %t", before, b.tty), codes...)
}

func (w *worker) listContainers() {
	c := w.newCall("GET /containers/json").withQuery("all", "1", "size", oneOf(w.rng, []string{"", "", "1"}), "limit", oneOf(w.rng, []string{"", "", "3", "-1"}))
	if chance(w.rng, 50) {
		c.withQuery("filters", `{"label":["fuzz=`+w.ownLabel()+`"]}`)
	}
	w.wantStatus(c, "a list", ok)
}

func (w *worker) waitContainer() {
	b := w.pickBox()
	if b == nil {
		return
	}
	c := w.newCall("POST /containers/:id/wait", w.refOf(b))
	if before := b.possibleStates(); before&(running|paused) != 0 && (!b.ends || before&paused != 0) || !w.knows(b) {
		c.manner, c.linger = rude, time.Duration(w.rng.IntN(100))*time.Millisecond
		w.tryCall(c)
		return
	}
	if _, ended := w.applyVerb(b, look, c); ended && b.is&running != 0 && w.knows(b) {
		b.is = exited
	}
}

// pruneBoxes removes what is at rest of the own.
func (w *worker) pruneBoxes() {
	c := w.newCall("POST /containers/prune").withQuery("filters", `{"label":["fuzz=`+w.ownLabel()+`"]}`)
	if _, pruned := w.wantStatus(c, "a prune", ok); !pruned {
		return
	}
	for _, b := range w.world.boxes {
		if !w.knows(b) {
			continue
		}
		next := b.is &^ (created | exited)
		if b.is&(created|exited) != 0 || b.possibleStates()&exited != 0 {
			next |= absent
		}
		b.is = next
	}
}

// useShared uses a container that others use too: every status of some state may come.
func (w *worker) useShared() {
	name := oneOf(w.rng, w.shared)
	if name == "" {
		return
	}
	if chance(w.rng, 25) {
		c := w.newCall("POST /containers/create").withQuery("name", name)
		w.wantStatus(c.withJSON(map[string]any{"Image": w.base, "Cmd": []string{"sleep", "100000"}, "StopSignal": "KILL"}), "a shared name", made, conflict)
		return
	}
	type use struct {
		route string
		v     verb
	}
	u := oneOf(w.rng, []use{
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
	c := w.newCall(u.route, name)
	switch u.v {
	case stop, restart:
		c.withQuery("t", "0")
	case kill:
		if c.minorVersion() < 20 {
			u.v = oldKill
		}
	case forceRemove:
		c.withQuery("force", "1")
	default:
	}
	w.spoilCall(c)
	a := w.tryCall(c)
	_, codes := u.v.statesAfter(anyState, a.status)
	if explainStatus(c, a.status, string(a.body)) != "" {
		return
	}
	if a.status != 0 && c.manner == polite {
		w.expectStatus(c, a, "a shared container", append(codes, conflict)...)
	}
}

// randomDelay returns less than so many milliseconds.
func (w *worker) randomDelay(most int) time.Duration {
	return time.Duration(w.rng.IntN(most)) * time.Millisecond
}
