package main

import (
	"net/http"
	"strings"
	"testing"

	"moss/api/client/clienttest"
)

func TestExists(t *testing.T) {
	for kind, path := range map[string]string{
		"container": "GET /containers/a/json", "image": "GET /images/a/json", "volume": "GET /volumes/a", "network": "GET /networks/a",
	} {
		for status, want := range map[int]int{http.StatusOK: 0, http.StatusNotFound: exitFailed, http.StatusInternalServerError: exitEngine} {
			engine := clienttest.New(t)
			engine.Override[path] = func(w http.ResponseWriter, _ *http.Request) {
				if status == http.StatusOK {
					clienttest.JSON(w, status, map[string]any{})
					return
				}
				clienttest.Fail(w, status, "no such thing")
			}
			stdout, stderr, code := moss(t, engine, "", kind, "exists", "a")
			if code != want || stdout != "" || (stderr == "") != (want != exitEngine) {
				t.Errorf("moss %s exists, status %d: %q, %q, %d, want %d", kind, status, stdout, stderr, code, want)
			}
		}
	}
}

// TestFurtherFlags makes sure that flags under the names of other command lines reach the engine.
func TestFurtherFlags(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string // the last request
	}{
		{[]string{"stop", "--timeout", "3", "a"}, "POST /containers/a/stop?t=3"},
		{[]string{"restart", "--timeout", "3", "a"}, "POST /containers/a/restart?t=3"},
		{[]string{"rm", "--link", "a/b"}, "DELETE /containers/a/b?link=1"},
		{[]string{"update", "--pids-limit", "5", "a"}, "POST /containers/a/update"},
		{[]string{"create", "--rm", "box"}, "POST /containers/create"},
	} {
		engine := clienttest.New(t)
		engine.Override[tc.want] = answer("{}")
		_, stderr, code := moss(t, engine, "", tc.args...)
		requests := engine.Requests()
		if len(requests) == 0 || requests[len(requests)-1] != tc.want {
			t.Errorf("moss %q: requests %q, %q, %d, want %s", tc.args, requests, stderr, code, tc.want)
		}
	}
	engine := clienttest.New(t)
	if _, stderr, code := moss(t, engine, "", "create", "--rm", "box"); code != 0 {
		t.Errorf("create --rm: %q, %d", stderr, code)
	}
	if host, _ := engine.Created()["HostConfig"].(map[string]any); host["AutoRemove"] != true {
		t.Errorf("create --rm: AutoRemove = %v, want true", host["AutoRemove"])
	}
	if _, _, code := moss(t, engine, "", "create", "--rm", "--restart", "always", "box"); code != exitEngine {
		t.Errorf("create --rm --restart: exit code %d, want 125", code)
	}
}

func TestVerbsOnAll(t *testing.T) {
	const list = `[{"Id":"up","State":"running"},{"Id":"frozen","State":"paused"},{"Id":"new","State":"created"},{"Id":"down","State":"exited"}]`
	for args, want := range map[string]string{
		"start --all": "new\ndown\n", "stop --all": "up\nfrozen\n", "rm --all": "up\nfrozen\nnew\ndown\n",
	} {
		engine := clienttest.New(t)
		engine.Override["GET /containers/json"] = answer(list)
		verb, _, _ := strings.Cut(args, " ")
		for _, id := range []string{"up", "frozen", "new", "down"} {
			gone := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
			engine.Override["POST /containers/"+id+"/"+verb], engine.Override["DELETE /containers/"+id] = gone, gone
		}
		if stdout, stderr, code := moss(t, engine, "", strings.Fields(args)...); stdout != want || stderr != "" || code != 0 {
			t.Errorf("moss %s: %q, %q, %d, want %q", args, stdout, stderr, code, want)
		}
		if _, stderr, code := moss(t, engine, "", append(strings.Fields(args), "web")...); code != exitEngine || !strings.Contains(stderr, "--all cannot be combined with names") {
			t.Errorf("moss %s web: %q, %d, want a refusal", args, stderr, code)
		}
		if _, _, code := moss(t, engine, "", verb); code != exitEngine {
			t.Errorf("moss %s: %d, want 125", verb, code)
		}
	}
	if _, stderr, code := moss(t, clienttest.New(t), "", "start", "-a", "--all"); code != exitEngine || !strings.Contains(stderr, "only one container") {
		t.Errorf("start -a --all: %q, %d, want a refusal", stderr, code)
	}
}

func TestUpdatePidsLimit(t *testing.T) {
	f := updateFlags{pidsLimit: 5}
	if body, err := f.buildBody(); err != nil || *body.PidsLimit != 5 {
		t.Errorf("build = %+v, %v, want the limit", body, err)
	}
}
