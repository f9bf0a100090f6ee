package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"moss/api/client/clienttest"
)

const (
	swarmRecord = `{"ID":"s1","Version":{"Index":11},"Spec":{"Name":"default","Raft":{"HeartbeatTick":1,"ElectionTick":10},"EncryptionConfig":{"AutoLockManagers":%}},` +
		`"JoinTokens":{"Worker":"SWMTKN-w","Manager":"SWMTKN-m"}}`
	selfRecord = `{"ID":"n1","Version":{"Index":5},"Spec":{"Role":"manager","Availability":"active","Labels":{"a":"1"}},` +
		`"Description":{"Hostname":"desk","Engine":{"EngineVersion":"0.1.0"}},"Status":{"State":"ready","Addr":"192.0.2.1"},` +
		`"ManagerStatus":{"Leader":true,"Reachability":"reachable","Addr":"192.0.2.1:2377"}}`
	otherRecord = `{"ID":"n2","Version":{"Index":6},"Spec":{"Role":"worker","Availability":"drain"},"Description":{"Hostname":"lap"},"Status":{"State":"down"}}`
)

// swarmEngine is an engine on a manager. It keeps the bodies of its requests.
func swarmEngine(t *testing.T, autoLock string) (*clienttest.Engine, map[string]string) {
	t.Helper()
	engine, bodies := clienttest.New(t), map[string]string{}
	for line, reply := range map[string]string{
		"POST /swarm/init": `"n1"`, "POST /swarm/join": "", "POST /swarm/leave": "", "POST /swarm/update": "", "POST /swarm/unlock": "",
		"GET /swarm": strings.Replace(swarmRecord, "%", autoLock, 1), "GET /swarm/unlockkey": `{"UnlockKey":"SWMKEY-1"}`,
		"GET /info":  `{"Swarm":{"NodeID":"n1","LocalNodeState":"active","ControlAvailable":true}}`,
		"GET /nodes": "[" + otherRecord + "," + selfRecord + "]", "GET /nodes/n1": selfRecord, "GET /nodes/lap": otherRecord,
		"POST /nodes/n1/update": "", "POST /nodes/n2/update": "", "DELETE /nodes/lap": "", "DELETE /nodes/n1": "",
	} {
		engine.Override[line] = func(w http.ResponseWriter, r *http.Request) {
			raw, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			bodies[line] = string(raw)
			_, _ = io.WriteString(w, reply)
		}
	}
	return engine, bodies
}

func TestSwarmInit(t *testing.T) {
	const joined = "To add a worker to this swarm, run the following command:\n\n    moss swarm join --token SWMTKN-w 192.0.2.1:2377\n\n"
	const text = "Swarm initialized: current node (n1) is now a manager.\n\n" + joined +
		"To add a manager to this swarm, run 'moss swarm join-token manager' and follow the instructions.\n"
	const key = "To unlock a manager that was started again, run 'moss swarm unlock' there and enter this key:\n\n    SWMKEY-1\n\n" +
		"Keep it in a safe place: without it a manager that was started again stays locked.\n"
	for _, tc := range []struct{ args, body, stdout string }{
		{"", `{"ListenAddr":"0.0.0.0:2377","AdvertiseAddr":"","ForceNewCluster":false,"Availability":"active","Spec":{}}`, text},
		{
			"--listen-addr 127.0.0.1:9 --advertise-addr 192.0.2.1 --data-path-addr eth1 --force-new-cluster --availability drain",
			`{"ListenAddr":"127.0.0.1:9","AdvertiseAddr":"192.0.2.1","DataPathAddr":"eth1","ForceNewCluster":true,"Availability":"drain","Spec":{}}`, text,
		},
		{
			"--autolock", `{"ListenAddr":"0.0.0.0:2377","AdvertiseAddr":"","ForceNewCluster":false,"AutoLockManagers":true,"Availability":"active","Spec":{"EncryptionConfig":{"AutoLockManagers":true}}}`,
			text + key,
		},
		{
			"--cert-expiry 48h --dispatcher-heartbeat 2s --task-history-limit 3 --snapshot-interval 4 --max-snapshots 5 --external-ca protocol=cfssl,url=https://ca.example/,k=v",
			`{"ListenAddr":"0.0.0.0:2377","AdvertiseAddr":"","ForceNewCluster":false,"Availability":"active","Spec":{"Orchestration":{"TaskHistoryRetentionLimit":3},` +
				`"Raft":{"SnapshotInterval":4,"KeepOldSnapshots":5,"HeartbeatTick":0,"ElectionTick":0},"Dispatcher":{"HeartbeatPeriod":2000000000},` +
				`"CAConfig":{"NodeCertExpiry":172800000000000,"ExternalCAs":[{"Protocol":"cfssl","URL":"https://ca.example/","Options":{"k":"v"}}]}}}`, text,
		},
	} {
		engine, bodies := swarmEngine(t, "false")
		stdout, stderr, code := moss(t, engine, "", append([]string{"swarm", "init"}, splitLine(tc.args)...)...)
		if stdout != tc.stdout || stderr != "" || code != 0 || bodies["POST /swarm/init"] != tc.body {
			t.Errorf("swarm init %s: %q, %q, %d with\n%s, want %q with\n%s", tc.args, stdout, stderr, code, bodies["POST /swarm/init"], tc.stdout, tc.body)
		}
	}
	for _, wrong := range []string{"--availability off", "--external-ca x", "--external-ca protocol=cfssl,url=x"} {
		engine := clienttest.New(t)
		if _, _, code := moss(t, engine, "", append([]string{"swarm", "init"}, splitLine(wrong)...)...); code != exitEngine || len(engine.Requests()) > 0 {
			t.Errorf("swarm init %s: %d after %q, want 125 and no request", wrong, code, engine.Requests())
		}
	}
}

func TestSwarmJoin(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("SWMTKN-f\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const body = `{"ListenAddr":"0.0.0.0:2377","AdvertiseAddr":"","RemoteAddrs":["192.0.2.1:2377"],"JoinToken":"%","Availability":"active"}`
	for args, want := range map[string]string{
		"--token SWMTKN-w": "SWMTKN-w", "--token-file " + file: "SWMTKN-f", "--token-file -": "SWMTKN-i",
	} {
		engine, bodies := swarmEngine(t, "false")
		stdout, stderr, code := moss(t, engine, "SWMTKN-i\n", append([]string{"swarm", "join"}, append(splitLine(args), "192.0.2.1:2377")...)...)
		if stdout != "This node joined a swarm as a manager.\n" || stderr != "" || code != 0 || bodies["POST /swarm/join"] != strings.Replace(body, "%", want, 1) {
			t.Errorf("swarm join %s: %q, %q, %d with %s", args, stdout, stderr, code, bodies["POST /swarm/join"])
		}
	}
	engine, _ := swarmEngine(t, "false")
	engine.Override["GET /info"] = answer(`{"Swarm":{"NodeID":"n1"}}`)
	if stdout, _, code := moss(t, engine, "", "swarm", "join", "--token", "x", "a:1"); stdout != "This node joined a swarm as a worker.\n" || code != 0 {
		t.Errorf("a worker: %q, %d", stdout, code)
	}
	for args, want := range map[string]int{
		"a:1": exitEngine, "--token x --token-file y a:1": exitEngine, "--token x": exitEngine, "--token x --availability z a:1": exitEngine,
		"--token-file /there/is/none a:1": exitFailed, "--token-file - a:1": exitFailed,
	} {
		if _, stderr, code := moss(t, clienttest.New(t), "", append([]string{"swarm", "join"}, splitLine(args)...)...); code != want || stderr == "" {
			t.Errorf("swarm join %s: %q, %d, want %d", args, stderr, code, want)
		}
	}
}

func TestSwarmVerbs(t *testing.T) {
	const raft = `"Raft":{"HeartbeatTick":1,"ElectionTick":10}`
	for _, tc := range []struct{ args, lock, stdout, request, body string }{
		{"leave", "false", "Node left the swarm.\n", "POST /swarm/leave", ""},
		{"leave --force", "false", "Node left the swarm.\n", "POST /swarm/leave?force=1", ""},
		{"token -q worker", "false", "SWMTKN-w\n", "GET /swarm", ""},
		{"join-token -q manager", "false", "SWMTKN-m\n", "GET /swarm", ""},
		{
			"join-token manager", "false", "To add a manager to this swarm, run the following command:\n\n    moss swarm join --token SWMTKN-m 192.0.2.1:2377\n\n",
			"GET /nodes/n1", "",
		},
		{"join-token --rotate -q worker", "false", "SWMTKN-w\n", "POST /swarm/update?rotateWorkerToken=1&version=11", `{"Name":"default",` + raft + `}`},
		{"join-token --rotate -q manager", "false", "SWMTKN-m\n", "POST /swarm/update?rotateManagerToken=1&version=11", `{"Name":"default",` + raft + `}`},
		{"unlock-key -q", "true", "SWMKEY-1\n", "GET /swarm/unlockkey", ""},
		{
			"unlock-key --rotate -q", "true", "SWMKEY-1\n", "POST /swarm/update?rotateManagerUnlockKey=1&version=11",
			`{"Name":"default",` + raft + `,"EncryptionConfig":{"AutoLockManagers":true}}`,
		},
		{"update --task-history-limit 2", "false", "Swarm updated.\n", "POST /swarm/update?version=11", `{"Name":"default","Orchestration":{"TaskHistoryRetentionLimit":2},` + raft + `}`},
		{"update --autolock=false", "true", "Swarm updated.\n", "POST /swarm/update?version=11", `{"Name":"default",` + raft + `}`},
		{"update --autolock", "true", "Swarm updated.\n", "POST /swarm/update?version=11", `{"Name":"default",` + raft + `,"EncryptionConfig":{"AutoLockManagers":true}}`},
		{"unlock", "true", "", "POST /swarm/unlock", `{"UnlockKey":"SWMKEY-i"}`},
		{"unlock --key-file -", "true", "", "POST /swarm/unlock", `{"UnlockKey":"SWMKEY-i"}`},
	} {
		engine, bodies := swarmEngine(t, tc.lock)
		stdout, stderr, code := moss(t, engine, "SWMKEY-i\n", append([]string{"swarm"}, splitLine(tc.args)...)...)
		line, _, _ := strings.Cut(tc.request, "?")
		if stdout != tc.stdout || stderr != "" || code != 0 || !slices.Contains(engine.Requests(), tc.request) || bodies[line] != tc.body {
			t.Errorf("swarm %s: %q, %q, %d after %q with %s, want %q after %s with %s", tc.args, stdout, stderr, code, engine.Requests(), bodies[line], tc.stdout, tc.request, tc.body)
		}
	}
	engine, _ := swarmEngine(t, "false")
	if stdout, _, code := moss(t, engine, "", "swarm", "update", "--autolock"); code != 0 || !strings.Contains(stdout, "    SWMKEY-1\n") {
		t.Errorf("locked now: %q, %d, want the key", stdout, code)
	}
	if stdout, _, _ := moss(t, engine, "", "swarm", "join-token", "--rotate", "worker"); !strings.HasPrefix(stdout, "Successfully rotated worker join token.\n\nTo add a worker") {
		t.Errorf("a rotated token: %q", stdout)
	}
	const unlocked = "moss: managers are not locked; lock them with 'moss swarm update --autolock'\n"
	if _, stderr, code := moss(t, engine, "", "swarm", "unlock-key", "--rotate"); code != exitFailed || stderr != unlocked {
		t.Errorf("rotate the key of an unlocked swarm: %q, %d", stderr, code)
	}
	engine.Override["GET /swarm/unlockkey"] = answer(`{"UnlockKey":""}`)
	if _, stderr, code := moss(t, engine, "", "swarm", "unlock-key"); code != exitFailed || stderr != unlocked {
		t.Errorf("the key of an unlocked swarm: %q, %d", stderr, code)
	}
	if _, stderr, code := moss(t, engine, "", "swarm", "join-token", "boss"); code != exitEngine || !strings.Contains(stderr, `role "boss"`) {
		t.Errorf("the token of another role: %q, %d", stderr, code)
	}
}

func TestNodeList(t *testing.T) {
	engine, _ := swarmEngine(t, "false")
	for _, tc := range []struct{ args, want, request string }{
		{
			"node ls", "ID        HOSTNAME   STATUS    AVAILABILITY   MANAGER STATUS   ENGINE VERSION\n" +
				"n1 *      desk       Ready     Active         Leader           0.1.0\nn2        lap        Down      Drain                           \n", "GET /nodes",
		},
		{"node ls -q", "n1\nn2\n", "GET /nodes"},
		{"node ls -f role=worker -q", "n1\nn2\n", "GET /nodes?filters=%7B%22role%22%3A%5B%22worker%22%5D%7D"},
		{"node ls --format {{.ID}}|{{.Self}}|{{.Address}}|{{.Role}}|{{.Labels}}", "n1|true|192.0.2.1|manager|a=1\nn2|false||worker|\n", "GET /nodes"},
		{"node inspect -f {{.ID}} self lap", "n1\nn2\n", "GET /nodes/lap"},
		{"node rm -f lap", "lap\n", "DELETE /nodes/lap?force=1"},
		{"node rm self", "self\n", "DELETE /nodes/n1"},
		{"__complete node update l", "lap\n:4\n", "GET /nodes"},
		{"__complete node rm s", "self\n:4\n", "GET /nodes"},
		{"__complete node update --availability d", "active\npause\ndrain\n:4\n", ""},
		{"__complete node update --role m", "worker\nmanager\n:4\n", ""},
		{"__complete swarm init --availability p", "active\npause\ndrain\n:4\n", ""},
		{"__complete swarm join-token m", "manager\n:4\n", ""},
	} {
		before := len(engine.Requests())
		stdout, stderr, code := moss(t, engine, "", splitLine(tc.args)...)
		requests := engine.Requests()[before:]
		if stdout != tc.want || code != 0 || tc.request != "" && !slices.Contains(requests, tc.request) || tc.request == "" && len(requests) > 0 {
			t.Errorf("moss %s: %q, %q, %d after %q, want %q after %s", tc.args, stdout, stderr, code, requests, tc.want, tc.request)
		}
	}
}

func TestNodeUpdate(t *testing.T) {
	for _, tc := range []struct{ args, node, body string }{
		{"update --availability pause self", "n1", `{"Labels":{"a":"1"},"Role":"manager","Availability":"pause"}`},
		{"update --role manager lap", "n2", `{"Role":"manager","Availability":"drain"}`},
		{"update --label-add b=2 --label-rm a self", "n1", `{"Labels":{"b":"2"},"Role":"manager","Availability":"active"}`},
		{"promote lap", "n2", `{"Role":"manager","Availability":"drain"}`},
		{"demote self", "n1", `{"Labels":{"a":"1"},"Role":"worker","Availability":"active"}`},
	} {
		engine, bodies := swarmEngine(t, "false")
		stdout, stderr, code := moss(t, engine, "", append([]string{"node"}, splitLine(tc.args)...)...)
		if code != 0 || stderr != "" || stdout == "" || bodies["POST /nodes/"+tc.node+"/update"] != tc.body {
			t.Errorf("node %s: %q, %q, %d with %s, want %s", tc.args, stdout, stderr, code, bodies["POST /nodes/"+tc.node+"/update"], tc.body)
		}
	}
	engine, _ := swarmEngine(t, "false")
	if stdout, stderr, code := moss(t, engine, "", "node", "promote", "gone", "lap"); stdout != "lap\n" || stderr != "moss: no such thing: /nodes/gone\n" || code != exitFailed {
		t.Errorf("one is missing: %q, %q, %d", stdout, stderr, code)
	}
	for _, wrong := range []string{"--role boss", "--availability off", "--label-add =x"} {
		if _, _, code := moss(t, clienttest.New(t), "", append([]string{"node", "update"}, append(splitLine(wrong), "lap")...)...); code != exitEngine {
			t.Errorf("node update %s: %d, want 125", wrong, code)
		}
	}
	engine.Override["GET /info"] = answer(`{"Swarm":{"LocalNodeState":"inactive"}}`)
	if _, stderr, code := moss(t, engine, "", "node", "ps"); code != exitFailed || stderr != "moss: this node is not part of a swarm\n" {
		t.Errorf("self without a swarm: %q, %d", stderr, code)
	}
}

// TestTakeHost: the engine's address stands in front of the command; what follows is the command's own.
func TestTakeHost(t *testing.T) {
	for _, tc := range []struct{ args, host, left string }{
		{"--host x service create --host a:1 box", "x", "service create --host a:1 box"},
		{"-H x ps", "x", "ps"},
		{"-Hx ps -H y", "x", "ps -H y"},
		{"-H=x ps", "x", "ps"},
		{"--host=x --tls --tlscert c ps", "x", "--tls --tlscert c ps"},
		{"--tlscert -H ps", "", "--tlscert -H ps"},
		{"--host", "", "--host"},
		{"__complete --host x service rm a", "x", "__complete service rm a"},
		{"", "", ""},
	} {
		a := &app{}
		if left := strings.Join(a.takeHost(strings.Fields(tc.args)), " "); left != tc.left || a.host != tc.host {
			t.Errorf("takeHost(%s) = %q with the host %q, want %q with %q", tc.args, left, a.host, tc.left, tc.host)
		}
	}
}
