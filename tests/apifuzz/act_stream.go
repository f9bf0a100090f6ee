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
		{"logs", 4, w.readLogs},
		{"follow", 2, w.followLogs},
		{"attach", 4, w.attachStream},
		{"echo", 3, w.attachEcho},
		{"websocket", 1, w.attachWebsocket},
		{"stats", 2, w.readStats},
		{"events", 3, w.readPastEvents},
		{"listen", 2, w.listenEvents},
	}
}

func (w *worker) readLogs() {
	b := w.pickBox()
	if b == nil {
		return
	}
	c := w.newCall("GET /containers/:id/logs", w.refOf(b)).withQuery("stdout", "1", "stderr", oneOf(w.rng, []string{"", "1"}),
		"timestamps", oneOf(w.rng, []string{"", "1"}), "tail", oneOf(w.rng, []string{"", "all", "0", "5", "-1"}), "since", oneOf(w.rng, []string{"", "0", "1", "99999999999"}))
	w.askUpgrade(c)
	a, shown := w.applyVerb(b, verbForStream(c, look), c)
	if shown && !b.tty && !a.cut {
		w.judgeFrames(c, a)
	}
}

// verbForStream returns a verb for a stream: asked for an upgrade, it may answer 101.
func verbForStream(c *call, v verb) verb {
	if c.header["Upgrade"] != "" {
		return upgraded
	}
	return v
}

// askUpgrade asks for the connection now and then.
func (w *worker) askUpgrade(c *call) {
	if chance(w.rng, 40) {
		c.withHeader("Connection", "Upgrade").withHeader("Upgrade", "tcp")
	}
}

// judgeFrames judges a stream of frames: document 2, 4.1.
func (w *worker) judgeFrames(c *call, a *answer) {
	if a.size > int64(len(a.body)) {
		return
	}
	for rest := a.body; len(rest) > 0; {
		if len(rest) < 8 || rest[0] > 2 || rest[1]|rest[2]|rest[3] != 0 || int(binary.BigEndian.Uint32(rest[4:8])) > len(rest)-8 {
			if !a.cut {
				w.report.addFinding(w.number, "%s %s: no frame in %.500q, at %.20q", c.method, c.requestTarget(), a.body, rest)
			}
			return
		}
		rest = rest[8+binary.BigEndian.Uint32(rest[4:8]):]
	}
}

func (w *worker) followLogs() {
	if b := w.pickBox(); b != nil {
		c := w.newCall("GET /containers/:id/logs", w.refOf(b)).withQuery("stdout", "1", "stderr", "1", "follow", "1")
		c.manner, c.linger = streaming, w.randomDelay(150)
		w.askUpgrade(c)
		w.applyVerb(b, verbForStream(c, look), c)
	}
}

func (w *worker) attachStream() {
	b := w.pickBox()
	if b == nil {
		return
	}
	c := w.newCall("POST /containers/:id/attach", w.refOf(b)).withQuery("stdout", "1", "stderr", "1", "stream", oneOf(w.rng, []string{"", "1", "1"}), "logs", oneOf(w.rng, []string{"", "1"}))
	w.askUpgrade(c)
	c.manner, c.linger = streaming, w.randomDelay(100)
	w.applyVerb(b, attach, c)
}

// attachEcho writes to a container that gives back what it gets.
func (w *worker) attachEcho() {
	b := w.pickBox()
	if b == nil || !b.stdin || !w.knows(b) {
		return
	}
	c := w.newCall("POST /containers/:id/attach", w.refOf(b)).withQuery("stdin", "1", "stdout", "1", "stream", "1")
	w.askUpgrade(c)
	c.manner, c.linger, c.input = talking, 50*time.Millisecond+w.randomDelay(100), []byte(strings.Repeat("echo\n", 1+w.rng.IntN(100)))
	w.applyVerb(b, attach, c)
}

func (w *worker) attachWebsocket() {
	b := w.pickBox()
	if b == nil {
		return
	}
	c := w.newCall("GET /containers/:id/attach/ws", w.refOf(b)).withQuery("stdout", "1", "stream", "1", "logs", oneOf(w.rng, []string{"", "1"}))
	c.withHeader("Connection", "Upgrade").withHeader("Upgrade", "websocket").withHeader("Sec-WebSocket-Version", "13").withHeader("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
	c.manner, c.linger = streaming, w.randomDelay(100)
	w.applyVerb(b, attach, c)
}

func (w *worker) readStats() {
	b := w.pickBox()
	if b == nil {
		return
	}
	c := w.newCall("GET /containers/:id/stats", w.refOf(b))
	if c.minorVersion() < 20 || chance(w.rng, 30) {
		c.manner, c.linger = streaming, w.randomDelay(200)
	} else {
		c.withQuery("stream", "0")
	}
	w.applyVerb(b, look, c)
}

// readPastEvents asks for the past, which ends by itself.
func (w *worker) readPastEvents() {
	now := time.Now()
	c := w.newCall("GET /events").withQuery("since", strconv.FormatInt(now.Add(-w.randomDelay(60000)).Unix(), 10), "until", strconv.FormatInt(now.Unix(), 10))
	c.withQuery("filters", oneOf(w.rng, []string{"", `{"type":["container"]}`, `{"label":["fuzz=` + w.ownLabel() + `"]}`, `{"event":{"die":true}}`, `{"container":["` + w.ownLabel() + `-c1"]}`}))
	w.wantStatus(c, "events of the past", ok)
}

// listenEvents asks for events to come and leaves.
func (w *worker) listenEvents() {
	c := w.newCall("GET /events").withQuery("since", oneOf(w.rng, []string{"", "1", "0"}))
	c.manner, c.linger = streaming, w.randomDelay(150)
	w.wantStatus(c, "events", ok)
}

func (w *worker) execActs() []act {
	return []act{
		{"exec create", 6, w.createExec},
		{"exec start", 6, w.startExec},
		{"exec inspect", 3, w.inspectExec},
		{"exec resize", 1, w.resizeExec},
	}
}

func (w *worker) createExec() {
	b := w.pickBox()
	if b == nil {
		return
	}
	e := &execution{run: b.ran}
	body := map[string]any{"AttachStdout": true, "AttachStderr": true, "Cmd": oneOf(w.rng, [][]string{{"true"}, {"echo", "hi"}, {"sh", "-c", "exit 7"}, {"nowhere"}})}
	if chance(w.rng, 30) {
		e.stdin, e.tty = true, chance(w.rng, 20)
		body["AttachStdin"], body["Tty"], body["Cmd"] = true, e.tty, []string{"cat"}
	}
	a, created := w.applyVerb(b, execute, w.newCall("POST /containers/:id/exec", w.refOf(b)).withJSON(body))
	if created && a.status == made {
		e.id = a.fieldText("Id")
		b.execs = append(b.execs, e)
	}
}

// pickExec returns an exec of a box at random.
func (w *worker) pickExec() (*box, *execution) {
	b := oneOf(w.rng, w.world.boxes)
	if b == nil {
		return nil, nil
	}
	return b, oneOf(w.rng, b.execs)
}

// surelyRuns reports whether a box has run since an exec was made and runs now, for sure.
func (w *worker) surelyRuns(b *box, e *execution) bool {
	return w.knows(b) && b.is == running && !b.ends && e.run == b.ran
}

func (w *worker) startExec() {
	b, e := w.pickExec()
	if e == nil {
		return
	}
	c := w.newCall("POST /exec/:id/start", e.id)
	detach := chance(w.rng, 40)
	c.withJSON(map[string]bool{"Detach": detach, "Tty": e.tty})
	codes := []int{conflict, missing}
	if w.surelyRuns(b, e) {
		codes = []int{ok, http.StatusSwitchingProtocols, bad, conflict}
		switch {
		case e.started:
			codes = []int{conflict}
		case !e.tried && !detach:
			codes = []int{ok, http.StatusSwitchingProtocols}
		}
	} else if b.possibleStates()&running != 0 {
		codes = append(codes, ok, http.StatusSwitchingProtocols, bad)
	}
	if !detach {
		w.askUpgrade(c)
		c.manner, c.finish, c.input = talking, !e.tty, []byte("in\n")
		c.linger = w.randomDelay(100)
	}
	why := fmt.Sprintf("exec of %s, tried %t, started %t", b, e.tried, e.started)
	e.tried = true
	a, right := w.wantStatus(c, why, codes...)
	if a.status == ok || a.status == http.StatusSwitchingProtocols {
		e.started = true
	}
	if right && !detach && !e.tty && a.status < bad && a.err == nil {
		w.judgeFrames(c, a)
	}
}

func (w *worker) inspectExec() {
	b, e := w.pickExec()
	if e == nil {
		return
	}
	codes := []int{ok, missing}
	if w.surelyRuns(b, e) {
		codes = []int{ok}
	}
	w.wantStatus(w.newCall("GET /exec/:id/json", e.id), fmt.Sprintf("exec of %s", b), codes...)
}

func (w *worker) resizeExec() {
	b, e := w.pickExec()
	if e == nil {
		return
	}
	codes := []int{made, conflict, missing}
	if w.surelyRuns(b, e) && !e.tty {
		codes = []int{conflict}
	}
	w.wantStatus(w.newCall("POST /exec/:id/resize", e.id).withQuery("h", "20", "w", "70"), fmt.Sprintf("exec of %s, tty %t", b, e.tty), codes...)
}
