package main

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"moss/api/client/clienttest"
)

func TestRunReplace(t *testing.T) {
	for _, tc := range []struct {
		name, inspect string
		fail          string // a request that the engine refuses
		want          []string
		code          int
	}{
		{"nobody has the name", "", "", []string{"rename"}, 0},
		{"another container has it", `{"Id":"old","Name":"/web"}`, "", []string{"DELETE old", "rename"}, 0},
		{"it is the beginning of an id", `{"Id":"web7","Name":"/other"}`, "", []string{"rename"}, 0},
		{"the other one stays", `{"Id":"old","Name":"/web"}`, "DELETE old", []string{"DELETE old", "DELETE new"}, exitEngine},
		{"the name is taken meanwhile", "", "rename", []string{"rename", "DELETE new"}, exitEngine},
	} {
		t.Run(tc.name, func(t *testing.T) {
			engine := clienttest.New(t)
			var did []string
			on := func(request, name string) {
				engine.Override[request] = func(w http.ResponseWriter, _ *http.Request) {
					did = append(did, name)
					if tc.fail == name {
						clienttest.Fail(w, http.StatusConflict, "it cannot be")
						return
					}
					w.WriteHeader(http.StatusNoContent)
				}
			}
			on("DELETE /containers/old", "DELETE old")
			on("DELETE /containers/"+clienttest.ID, "DELETE new")
			on("POST /containers/"+clienttest.ID+"/rename", "rename")
			engine.Override["GET /containers/web/json"] = func(w http.ResponseWriter, _ *http.Request) {
				if tc.inspect == "" {
					clienttest.Fail(w, http.StatusNotFound, "No such container: web")
					return
				}
				_, _ = w.Write([]byte(tc.inspect))
			}
			_, stderr, code := moss(t, engine, "", "create", "--replace", "--name", "web", "box")
			if !slices.Equal(did, tc.want) || code != tc.code || (code != 0) != strings.Contains(stderr, "replace container web: it cannot be") {
				t.Errorf("the engine was asked for %q, %d, %q, want %q", did, code, stderr, tc.want)
			}
		})
	}
	if _, stderr, code := moss(t, clienttest.New(t), "", "run", "--replace", "box"); code != exitEngine || !strings.Contains(stderr, "requires --name") {
		t.Errorf("--replace without a name: %q, %d", stderr, code)
	}
}
