package client_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"moss/api/client"
	"moss/api/client/clienttest"
	"moss/api/types"
)

func TestSwarmRequests(t *testing.T) {
	engine := clienttest.New(t)
	no := func(err error) {
		t.Helper()
		if client.StatusOf(err) != http.StatusNotFound {
			t.Errorf("got %v, want the fake's 404", err)
		}
	}
	c, ctx := newClient(t, engine), t.Context()
	filters := map[string][]string{"label": {"a"}}
	at := types.ObjectVersion{Index: 7}
	no(second(c.SwarmInit(ctx, types.SwarmInit{})))
	no(c.SwarmJoin(ctx, types.SwarmJoin{}))
	no(c.SwarmLeave(ctx, false))
	no(c.SwarmLeave(ctx, true))
	no(second(c.SwarmInspect(ctx)))
	no(c.SwarmUpdate(ctx, at, types.SwarmSpec{}, client.SwarmRotation{}))
	no(c.SwarmUpdate(ctx, at, types.SwarmSpec{}, client.SwarmRotation{WorkerToken: true}))
	no(c.SwarmUpdate(ctx, at, types.SwarmSpec{}, client.SwarmRotation{ManagerToken: true, UnlockKey: true}))
	no(c.SwarmUnlock(ctx, "key"))
	no(second(c.SwarmUnlockKey(ctx)))
	no(second(c.NodeList(ctx, nil)))
	no(second(c.NodeList(ctx, filters)))
	no(second(c.NodeInspect(ctx, "a b")))
	no(c.NodeUpdate(ctx, "n", at, types.NodeSpec{}))
	no(c.NodeRemove(ctx, "n", false))
	no(c.NodeRemove(ctx, "n", true))
	no(second(c.ServiceList(ctx, filters)))
	no(second(c.ServiceInspect(ctx, "a b")))
	no(second(c.ServiceCreate(ctx, types.ServiceSpec{}, nil)))
	no(c.ServiceUpdate(ctx, "s", at, types.ServiceSpec{}, nil))
	no(c.ServiceRemove(ctx, "s"))
	no(second(c.TaskList(ctx, filters)))
	no(second(c.TaskInspect(ctx, "t")))
	const label = "?filters=%7B%22label%22%3A%5B%22a%22%5D%7D"
	want := []string{
		"POST /swarm/init", "POST /swarm/join", "POST /swarm/leave", "POST /swarm/leave?force=1", "GET /swarm",
		"POST /swarm/update?version=7", "POST /swarm/update?rotateWorkerToken=1&version=7",
		"POST /swarm/update?rotateManagerToken=1&rotateManagerUnlockKey=1&version=7", "POST /swarm/unlock", "GET /swarm/unlockkey",
		"GET /nodes", "GET /nodes" + label, "GET /nodes/a b", "POST /nodes/n/update?version=7", "DELETE /nodes/n",
		"DELETE /nodes/n?force=1", "GET /services" + label, "GET /services/a b", "POST /services/create",
		"POST /services/s/update?version=7", "DELETE /services/s", "GET /tasks" + label, "GET /tasks/t",
	}
	if got := engine.Requests(); !slices.Equal(got, want) {
		t.Errorf("requests:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestSwarmBodies reads what the calls send and gives them what they return.
func TestSwarmBodies(t *testing.T) {
	engine := clienttest.New(t)
	sent, auth := map[string]string{}, map[string]string{}
	for line, reply := range map[string]string{
		"POST /swarm/init": `"node1"`, "POST /swarm/join": "", "GET /swarm": `{"ID":"s1","JoinTokens":{"Worker":"w","Manager":"m"},"Spec":{"Name":"default"}}`,
		"POST /swarm/unlock": "", "GET /swarm/unlockkey": `{"UnlockKey":"k"}`, "POST /nodes/n/update": "",
		"POST /services/create": `{"ID":"77"}`, "POST /services/s/update": "", "GET /services/s": `{"ID":"77"}`,
		"GET /tasks": `[{"ID":"t1","Status":{"State":"running"}}]`,
	} {
		engine.Override[line] = func(w http.ResponseWriter, r *http.Request) {
			raw, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			sent[line], auth[line] = string(raw), r.Header.Get("X-Registry-Auth")
			_, _ = io.WriteString(w, reply)
		}
	}
	c, ctx := newClient(t, engine), t.Context()
	if id, err := c.SwarmInit(ctx, types.SwarmInit{ListenAddr: "127.0.0.1:2377"}); id != "node1" || err != nil {
		t.Errorf("SwarmInit = %q, %v", id, err)
	}
	swarm, err := c.SwarmInspect(ctx)
	if swarm.ID != "s1" || swarm.JoinTokens.Worker != "w" || swarm.JoinTokens.Manager != "m" || swarm.Spec.Name != "default" || err != nil {
		t.Errorf("SwarmInspect = %+v, %v", swarm, err)
	}
	if key, err := c.SwarmUnlockKey(ctx); key != "k" || err != nil {
		t.Errorf("SwarmUnlockKey = %q, %v", key, err)
	}
	if made, err := c.ServiceCreate(ctx, types.ServiceSpec{Annotations: types.Annotations{Name: "web"}}, &types.AuthConfig{Username: "u"}); made.ID != "77" || err != nil {
		t.Errorf("ServiceCreate = %+v, %v", made, err)
	}
	if raw, err := c.ServiceInspect(ctx, "s"); string(raw) != `{"ID":"77"}` || err != nil {
		t.Errorf("ServiceInspect = %s, %v", raw, err)
	}
	if list, err := c.TaskList(ctx, nil); len(list) != 1 || list[0].Status.State != "running" || err != nil {
		t.Errorf("TaskList = %+v, %v", list, err)
	}
	for _, err := range []error{
		c.SwarmUnlock(ctx, "key"), c.SwarmJoin(ctx, types.SwarmJoin{RemoteAddrs: []string{"a:1"}, JoinToken: "t"}),
		c.NodeUpdate(ctx, "n", types.ObjectVersion{}, types.NodeSpec{Role: "worker"}),
		c.ServiceUpdate(ctx, "s", types.ObjectVersion{}, types.ServiceSpec{}, nil),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	for line, want := range map[string]string{
		"POST /swarm/join":     `{"ListenAddr":"","AdvertiseAddr":"","RemoteAddrs":["a:1"],"JoinToken":"t"}`,
		"POST /swarm/unlock":   `{"UnlockKey":"key"}`,
		"POST /nodes/n/update": `{"Role":"worker"}`, "POST /services/create": `{"Name":"web"}`, "POST /services/s/update": `{}`,
	} {
		if sent[line] != want {
			t.Errorf("%s sent %s, want %s", line, sent[line], want)
		}
	}
	var body types.SwarmInit
	if err := json.Unmarshal([]byte(sent["POST /swarm/init"]), &body); err != nil || body.ListenAddr != "127.0.0.1:2377" {
		t.Errorf("init sent %s, %v", sent["POST /swarm/init"], err)
	}
	if auth["POST /services/create"] == "" || auth["POST /services/s/update"] != "" {
		t.Errorf("credentials: %q, want those of create alone", auth)
	}
}

func TestSwarmNamesNeeded(t *testing.T) {
	c, ctx := newClient(t, clienttest.New(t)), t.Context()
	for what, err := range map[string]error{
		"empty node name":      second(c.NodeInspect(ctx, "")),
		" empty node name":     c.NodeUpdate(ctx, "", types.ObjectVersion{}, types.NodeSpec{}),
		"  empty node name":    c.NodeRemove(ctx, "", false),
		"empty service name":   second(c.ServiceInspect(ctx, "")),
		" empty service name":  c.ServiceUpdate(ctx, "", types.ObjectVersion{}, types.ServiceSpec{}, nil),
		"  empty service name": c.ServiceRemove(ctx, ""),
		"empty task id":        second(c.TaskInspect(ctx, "")),
	} {
		if err == nil || !strings.Contains(err.Error(), strings.TrimSpace(what)) {
			t.Errorf("no name: %v, want %s", err, strings.TrimSpace(what))
		}
	}
}
