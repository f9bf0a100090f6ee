package main

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

func (w *worker) streamActs() []act {
	return []act{
		{"logs", 4, w.logs},
		{"follow", 2, w.follow},
		{"attach", 4, w.attach},
		{"echo", 3, w.echo},
		{"websocket", 1, w.websocket},
		{"stats", 2, w.stats},
		{"events", 3, w.events},
		{"listen", 2, w.listen},
	}
}

func (w *worker) logs() {
	b := w.box()
	if b == nil {
		return
	}
	c := w.request("GET /containers/:id/logs", w.ref(b)).with("stdout", "1", "stderr", one(w.rng, []string{"", "1"}),
		"timestamps", one(w.rng, []string{"", "1"}), "tail", one(w.rng, []string{"", "all", "0", "5", "-1"}), "since", one(w.rng, []string{"", "0", "1", "99999999999"}))
	w.upgrade(c)
	a, shown := w.apply(b, attachable(c, look), c)
	if shown && !b.tty && !a.cut {
		w.frames(c, a)
	}
}

// attachable returns a verb for a stream: asked for an upgrade, it may answer 101.
func attachable(c *call, v verb) verb {
	if c.header["Upgrade"] != "" {
		return upgraded
	}
	return v
}

// upgrade asks for the connection now and then.
func (w *worker) upgrade(c *call) {
	if chance(w.rng, 40) {
		c.set("Connection", "Upgrade").set("Upgrade", "tcp")
	}
}

// frames judges a stream of frames: document 2, 4.1.
func (w *worker) frames(c *call, a *answer) {
	if a.size > int64(len(a.body)) {
		return
	}
	for rest := a.body; len(rest) > 0; {
		if len(rest) < 8 || rest[0] > 2 || rest[1]|rest[2]|rest[3] != 0 || int(binary.BigEndian.Uint32(rest[4:8])) > len(rest)-8 {
			if !a.cut {
				w.report.found(w.number, "%s %s: no frame in %.500q, at %.20q", c.method, c.target(), a.body, rest)
			}
			return
		}
		rest = rest[8+binary.BigEndian.Uint32(rest[4:8]):]
	}
}

func (w *worker) follow() {
	if b := w.box(); b != nil {
		c := w.request("GET /containers/:id/logs", w.ref(b)).with("stdout", "1", "stderr", "1", "follow", "1")
		c.manner, c.linger = streaming, w.delay(150)
		w.upgrade(c)
		w.apply(b, attachable(c, look), c)
	}
}

func (w *worker) attach() {
	b := w.box()
	if b == nil {
		return
	}
	c := w.request("POST /containers/:id/attach", w.ref(b)).with("stdout", "1", "stderr", "1", "stream", one(w.rng, []string{"", "1", "1"}), "logs", one(w.rng, []string{"", "1"}))
	w.upgrade(c)
	c.manner, c.linger = streaming, w.delay(100)
	w.apply(b, attach, c)
}

// echo writes to a container that gives back what it gets.
func (w *worker) echo() {
	b := w.box()
	if b == nil || !b.stdin || !w.knows(b) {
		return
	}
	c := w.request("POST /containers/:id/attach", w.ref(b)).with("stdin", "1", "stdout", "1", "stream", "1")
	w.upgrade(c)
	c.manner, c.linger, c.input = talking, 50*time.Millisecond+w.delay(100), []byte(strings.Repeat("echo\n", 1+w.rng.IntN(100)))
	w.apply(b, attach, c)
}

func (w *worker) websocket() {
	b := w.box()
	if b == nil {
		return
	}
	c := w.request("GET /containers/:id/attach/ws", w.ref(b)).with("stdout", "1", "stream", "1", "logs", one(w.rng, []string{"", "1"}))
	c.set("Connection", "Upgrade").set("Upgrade", "websocket").set("Sec-WebSocket-Version", "13").set("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
	c.manner, c.linger = streaming, w.delay(100)
	w.apply(b, attach, c)
}

func (w *worker) stats() {
	b := w.box()
	if b == nil {
		return
	}
	c := w.request("GET /containers/:id/stats", w.ref(b))
	if c.minor() < 20 || chance(w.rng, 30) {
		c.manner, c.linger = streaming, w.delay(200)
	} else {
		c.with("stream", "0")
	}
	w.apply(b, look, c)
}

// events asks for the past, which ends by itself.
func (w *worker) events() {
	now := time.Now()
	c := w.request("GET /events").with("since", strconv.FormatInt(now.Add(-w.delay(60000)).Unix(), 10), "until", strconv.FormatInt(now.Unix(), 10))
	c.with("filters", one(w.rng, []string{"", `{"type":["container"]}`, `{"label":["fuzz=` + w.label() + `"]}`, `{"event":{"die":true}}`, `{"container":["` + w.label() + `-c1"]}`}))
	w.want(c, "events of the past", ok)
}

// listen asks for events to come and leaves.
func (w *worker) listen() {
	c := w.request("GET /events").with("since", one(w.rng, []string{"", "1", "0"}))
	c.manner, c.linger = streaming, w.delay(150)
	w.want(c, "events", ok)
}

func (w *worker) execActs() []act {
	return []act{
		{"exec create", 6, w.execCreate},
		{"exec start", 6, w.execStart},
		{"exec inspect", 3, w.execInspect},
		{"exec resize", 1, w.execResize},
	}
}

func (w *worker) execCreate() {
	b := w.box()
	if b == nil {
		return
	}
	e := &execution{run: b.ran}
	body := map[string]any{"AttachStdout": true, "AttachStderr": true, "Cmd": one(w.rng, [][]string{{"true"}, {"echo", "hi"}, {"sh", "-c", "exit 7"}, {"nowhere"}})}
	if chance(w.rng, 30) {
		e.stdin, e.tty = true, chance(w.rng, 20)
		body["AttachStdin"], body["Tty"], body["Cmd"] = true, e.tty, []string{"cat"}
	}
	a, created := w.apply(b, execute, w.request("POST /containers/:id/exec", w.ref(b)).json(body))
	if created && a.status == made {
		e.id = a.decoded("Id")
		b.execs = append(b.execs, e)
	}
}

// execution returns an exec of a box at random.
func (w *worker) execution() (*box, *execution) {
	b := one(w.rng, w.world.boxes)
	if b == nil {
		return nil, nil
	}
	return b, one(w.rng, b.execs)
}

// certain reports whether a box has run since an exec was made and runs now, for sure.
func (w *worker) certain(b *box, e *execution) bool {
	return w.knows(b) && b.is == running && !b.ends && e.run == b.ran
}

func (w *worker) execStart() {
	b, e := w.execution()
	if e == nil {
		return
	}
	c := w.request("POST /exec/:id/start", e.id)
	detach := chance(w.rng, 40)
	c.json(map[string]bool{"Detach": detach, "Tty": e.tty})
	codes := []int{conflict, missing}
	if w.certain(b, e) {
		codes = []int{ok, http.StatusSwitchingProtocols, bad, conflict}
		switch {
		case e.started:
			codes = []int{conflict}
		case !e.tried && !detach:
			codes = []int{ok, http.StatusSwitchingProtocols}
		}
	} else if b.states()&running != 0 {
		codes = append(codes, ok, http.StatusSwitchingProtocols, bad)
	}
	if !detach {
		w.upgrade(c)
		c.manner, c.finish, c.input = talking, !e.tty, []byte("in\n")
		c.linger = w.delay(100)
	}
	why := fmt.Sprintf("exec of %s, tried %t, started %t", b, e.tried, e.started)
	e.tried = true
	a, right := w.want(c, why, codes...)
	if a.status == ok || a.status == http.StatusSwitchingProtocols {
		e.started = true
	}
	if right && !detach && !e.tty && a.status < bad && a.err == nil {
		w.frames(c, a)
	}
}

func (w *worker) execInspect() {
	b, e := w.execution()
	if e == nil {
		return
	}
	codes := []int{ok, missing}
	if w.certain(b, e) {
		codes = []int{ok}
	}
	w.want(w.request("GET /exec/:id/json", e.id), fmt.Sprintf("exec of %s", b), codes...)
}

func (w *worker) execResize() {
	b, e := w.execution()
	if e == nil {
		return
	}
	codes := []int{made, conflict, missing}
	if w.certain(b, e) && !e.tty {
		codes = []int{conflict}
	}
	w.want(w.request("POST /exec/:id/resize", e.id).with("h", "20", "w", "70"), fmt.Sprintf("exec of %s, tty %t", b, e.tty), codes...)
}
