package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// worker makes calls, one after the other, and knows what its own objects must be.
type worker struct {
	number int
	rng    *rand.Rand
	client *client
	table  *table
	report *reporter
	world  *world
	shared []string // containers that every worker uses
	base   string   // the image that containers are made of
	step   int
	acts   []act
	total  int // of the acts' weights
}

// act is something that a worker may do next.
type act struct {
	name   string
	weight int
	do     func()
}

func newWorker(number int, seed uint64, cl *client, t *table, r *reporter, base string, shared []string) *worker {
	w := &worker{
		number: number, rng: rand.New(rand.NewPCG(seed, uint64(number))), client: cl, table: t, report: r, world: newWorld(), //nolint:gosec // a seed makes it repeatable
		shared: shared, base: base,
	}
	w.acts = slices.Concat(w.containerActs(), w.fileActs(), w.streamActs(), w.execActs(), w.imageActs(), w.networkActs(), w.volumeActs(),
		w.systemActs(), w.wrongActs())
	for _, a := range w.acts {
		w.total += a.weight
	}
	return w
}

// run makes steps until ctx is done.
func (w *worker) run(ctx context.Context, steps int) {
	for range steps {
		if ctx.Err() != nil {
			return
		}
		w.step++
		n := w.rng.IntN(w.total)
		for _, a := range w.acts {
			if n -= a.weight; n < 0 {
				a.do()
				break
			}
		}
		w.world.dropGone(w.step)
	}
}

// newCall returns a call of a route in any version that has it. Arguments replace the parameters of its path, escaped.
func (w *worker) newCall(name string, args ...string) *call {
	routes := w.table.byName[name]
	if len(routes) == 0 {
		panic("no such route: " + name)
	}
	r := routes[w.rng.IntN(len(routes))]
	c := &call{method: r.Method, route: name, path: fillPath(r.Path, args)}
	for {
		n := oldest + w.rng.IntN(newest-oldest+2)
		if n > newest {
			return c // without a version
		}
		c.version = "1." + strconv.Itoa(n)
		if _, has := w.table.findRoute(c); has {
			return c
		}
		c.version = ""
	}
}

// fillPath puts arguments into the parameters of a path.
func fillPath(path string, args []string) string {
	var out []byte
	for i := 0; i < len(path); i++ {
		if path[i] != ':' || len(args) == 0 {
			out = append(out, path[i])
			continue
		}
		out = append(out, url.PathEscape(args[0])...)
		args = args[1:]
		for i+1 < len(path) && path[i+1] != '/' {
			i++
		}
	}
	return string(out)
}

// withQuery sets parameters of the query: names and values by turns. Empty values stay away.
func (c *call) withQuery(pairs ...string) *call {
	q, _ := url.ParseQuery(c.query) // Its own encoding.
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Add(pairs[i], pairs[i+1])
		}
	}
	c.query = q.Encode()
	return c
}

// withJSON gives a call a body.
func (c *call) withJSON(body any) *call {
	raw, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	c.body = raw
	return c.withHeader("Content-Type", "application/json")
}

// withTar gives a call an archive as its body.
func (c *call) withTar(body []byte) *call {
	c.body = body
	return c.withHeader("Content-Type", "application/x-tar")
}

// withHeader gives a call a header.
func (c *call) withHeader(name, value string) *call {
	if c.header == nil {
		c.header = map[string]string{}
	}
	c.header[name] = value
	return c
}

// tryCall makes a call and judges the form of the answer.
func (w *worker) tryCall(c *call) *answer {
	a := w.client.do(c)
	w.report.addCall(w.number, c, a)
	if wrong := w.table.judgeAnswer(c, a); wrong != "" {
		w.report.addFinding(w.number, "%s %s: %s\nanswer: %d %.2000q", c.method, c.requestTarget(), wrong, a.status, a.body)
	}
	return a
}

// wantStatus makes a call whose status must be one of some, and reports whether it is.
func (w *worker) wantStatus(c *call, why string, statuses ...int) (*answer, bool) {
	a := w.tryCall(c)
	return a, w.expectStatus(c, a, why, statuses...)
}

// expectStatus judges a status.
func (w *worker) expectStatus(c *call, a *answer, why string, statuses ...int) bool {
	if slices.Contains(statuses, a.verdict(w.table, c)) {
		return true
	}
	if a.status != 0 || a.err == nil { // a broken connection has been told of
		w.report.addFinding(w.number, "%s %s: status %d, want %v: %s\nanswer: %.2000q", c.method, c.requestTarget(), a.status, statuses, why, a.body)
	}
	return false
}

// fieldText returns one field of a JSON answer as text.
func (a *answer) fieldText(field string) string {
	var body map[string]any
	_ = json.Unmarshal(a.body, &body) // Then it has none.
	text, _ := body[field].(string)
	return text
}

// spoilCall gives a call a bad manner now and then, and reports whether it did: nobody knows then what it will have done.
func (w *worker) spoilCall(c *call) bool {
	if c.manner != polite || !chance(w.rng, 4) {
		return false
	}
	c.linger = time.Duration(w.rng.IntN(30)) * time.Millisecond
	switch n := w.rng.IntN(4); {
	case n == 0 && len(c.body) > 1:
		c.manner, c.cut = torn, w.rng.IntN(len(c.body))
	case n == 1 && len(c.body) > 1:
		c.manner, c.cut = short, w.rng.IntN(len(c.body))
	case n == 2:
		c.manner = half
	default:
		c.manner = rude
	}
	return true
}

// shaken is for how many steps of its worker nothing is known of an object, after a call about it was broken off.
const shaken = 60

// longest is how long the engine may go on with a call that was broken off: a stop gives a process ten seconds.
const longest = 15 * time.Second

func (b *box) String() string { return fmt.Sprintf("%s (%s)", b.name, b.possibleStates()) }
