package main

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"moss/api/client/clienttest"
)

func TestLogsOfSeveral(t *testing.T) {
	engine := clienttest.New(t)
	for ref, text := range map[string]string{"a": "one\r\ntwo", "web": "three\r\n"} {
		engine.Override["GET /containers/"+ref+"/json"] = answer(`{"Id":"` + ref + `","Config":{"Tty":true}}`)
		engine.Override["GET /containers/"+ref+"/logs"] = func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }
	}
	engine.Override["GET /containers/none/json"] = func(w http.ResponseWriter, _ *http.Request) {
		clienttest.Fail(w, http.StatusNotFound, "No such container: none")
	}
	for _, follow := range []bool{false, true} {
		args := []string{"logs", "a", "none", "web"}
		if follow {
			args = append(args, "-f")
		}
		stdout, stderr, code := moss(t, engine, "", args...)
		lines := strings.SplitAfter(stdout, "\n")
		for _, want := range []string{"a    | one\r\n", "a    | two\n", "web  | three\r\n"} {
			if !strings.Contains(stdout, want) || len(lines) != 4 {
				t.Errorf("follow %t: %q, want %q in it", follow, stdout, want)
			}
		}
		if stderr != "moss: No such container: none\n" || code != exitFailed {
			t.Errorf("follow %t: %q, %d", follow, stderr, code)
		}
	}
}

func TestNamedLines(t *testing.T) {
	var out strings.Builder
	n := &namedLines{out: &out, mu: new(sync.Mutex), name: "web: "}
	for _, piece := range []string{"o", "ne\ntw", "o\n\nrest", ""} {
		if k, err := n.Write([]byte(piece)); k != len(piece) || err != nil {
			t.Fatal(k, err)
		}
	}
	want := strings.ReplaceAll("/one\n/two\n/\n/rest\n", "/", n.name)
	if err := n.endLastLine(); err != nil || out.String() != want {
		t.Errorf("got %q, %v, want %q", out.String(), err, want)
	}
	if _, err := n.Write(make([]byte, maxPart+1)); err != nil || len(n.part) != 0 {
		t.Errorf("a line that is too long: %v, %d bytes are kept", err, len(n.part))
	}
}
