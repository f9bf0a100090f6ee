package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"moss/api/apiver"
)

// traces are what no answer may hold: the inside of the program.
var traces = regexp.MustCompile(`goroutine \d+ \[|runtime error|panic|\.go:\d+|interface \{\}|json: cannot unmarshal|Go value of type|Go struct`)

// judgeAnswer returns what is wrong with an answer whatever was asked, empty when nothing is.
func (t *table) judgeAnswer(c *call, a *answer) string {
	switch {
	case a.cut && a.status == 0:
		return ""
	case a.overdue:
		return "a hang: " + a.err.Error()
	case a.err != nil && (c.manner == short || c.manner == half):
		return "" // a server may take it for a hang-up
	case a.err != nil:
		return a.err.Error()
	}
	text := string(a.body)
	r, known := t.findRoute(c)
	left := a.status == http.StatusServiceUnavailable && c.manner != polite // taken for a hang-up
	if a.status >= broken && a.verdict(t, c) >= broken && !left && !isMalformed(c, a) && explainStatus(c, a.status, text) == "" {
		return "an unexplained " + http.StatusText(a.status)
	}
	if known && c.manner == polite && !isPromised(&r, a.status) {
		return fmt.Sprintf("status %d is not among those of %s: %v", a.status, c.route, r.Shape.Codes)
	}
	return judgeForm(c, a)
}

// attachRoute has its errors in the media type of its stream, at every version.
const attachRoute = "POST /containers/:id/attach"

// verdict returns an answer's status, but 400 for a 500 by which a version without 400 says that the request is wrong.
func (a *answer) verdict(t *table, c *call) int {
	r, known := t.findRoute(c)
	if known && a.status == broken && a.header.Get("X-Fault-Kind") == "invalid" && apiver.New(1, uint16(c.minorVersion())) < r.Shape.BadSince { //nolint:gosec // 18 to 24
		return bad
	}
	return a.status
}

// judgeForm judges an answer's head and body.
func judgeForm(c *call, a *answer) string {
	if wrong := judgeHead(c, a); wrong != "" {
		return wrong
	}
	if a.status >= bad || strings.HasPrefix(a.header.Get("Content-Type"), "application/json") {
		if found := traces.Find(a.body); found != nil {
			return fmt.Sprintf("the answer tells of the inside: %q", found)
		}
	}
	if a.status >= bad {
		return judgeRefusal(c, a)
	}
	return judgeSuccess(c, a)
}

// judgeHead judges what every answer's head has.
func judgeHead(c *call, a *answer) string {
	if a.status == http.StatusSwitchingProtocols || a.header.Get("Server") == "" && a.header.Get("Content-Type") == "application/vnd.docker.raw-stream" {
		return ""
	}
	for _, name := range []string{"Server", "Api-Version", "Ostype", "X-Request-Id"} {
		if a.header.Get(name) == "" && !isMalformed(c, a) {
			return "no header " + name
		}
	}
	return ""
}

// isMalformed reports whether a request never reached the engine: the HTTP library answers it in its own form.
func isMalformed(c *call, a *answer) bool {
	return c.route == "" && a.header.Get("Server") == "" && slices.Contains([]int{bad, 413, 417, 431, 501, 505}, a.status)
}

// judgeRefusal judges the form of an error: JSON from 1.24 on, plain text before.
func judgeRefusal(c *call, a *answer) string {
	if isMalformed(c, a) || c.method == http.MethodHead {
		return ""
	}
	got := a.header.Get("Content-Type")
	plain := got == "text/plain; charset=utf-8"
	if c.route == attachRoute && a.header.Get("X-Fault-Kind") != "" {
		if got != "application/vnd.engine.raw-stream" || len(bytes.TrimSpace(a.body)) == 0 {
			return fmt.Sprintf("a refused attach as %q: %q", got, a.body)
		}
		return ""
	}
	if c.minorVersion() < withObjects || c.route == "" && plain && strings.HasPrefix(c.path, "/v") { // it has the form of the version it asks for
		if !plain || len(bytes.TrimSpace(a.body)) == 0 {
			return fmt.Sprintf("an error of 1.%d as %q: %q", c.minorVersion(), got, a.body)
		}
		return ""
	}
	var body map[string]any
	if err := json.Unmarshal(a.body, &body); err != nil || got != "application/json" {
		return fmt.Sprintf("an error as %q: %q", got, a.body)
	}
	if text, is := body["message"].(string); !is || text == "" || len(body) != 1 {
		return fmt.Sprintf("an error that is no {message}: %q", a.body)
	}
	return ""
}

// judgeSuccess judges the body of what was not refused.
func judgeSuccess(c *call, a *answer) string {
	switch a.status {
	case done, same:
		if a.size > 0 {
			return fmt.Sprintf("%d with a body of %d bytes", a.status, a.size)
		}
		return ""
	case http.StatusSwitchingProtocols:
		return ""
	}
	if a.header.Get("Content-Type") != "application/json" || a.cut || a.size > int64(len(a.body)) || c.method == http.MethodHead {
		return ""
	}
	for in := json.NewDecoder(bytes.NewReader(a.body)); ; {
		var one any
		err := in.Decode(&one)
		if err == io.EOF {
			return ""
		}
		if err != nil {
			return fmt.Sprintf("the answer is no JSON: %v", err)
		}
	}
}
