package handler_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"moss/api/apiver"
	"moss/api/handler"
	"moss/engine/fault"
	"moss/engine/swarm/status"
)

func TestNotInSwarm(t *testing.T) {
	a := newAPI(t)
	refused := 0
	for _, r := range handler.New(handler.Services{}).Routes() {
		noun, _, _ := strings.Cut(strings.TrimPrefix(r.Path, "/"), "/")
		switch noun {
		case "services", "tasks", "nodes", "swarm", "secrets", "configs":
		default:
			continue
		}
		const want, words = 406, "This node is not part of a swarm"
		refused++
		path := strings.ReplaceAll(r.Path, ":id", "x")
		first := max(r.Versions.Since, apiver.New(1, 24))
		status, body := a.ask(r.Method, "/v"+first.String()+path, "")
		message, _ := field(t, body, "message").(string)
		if status != want || !strings.HasPrefix(message, words) {
			t.Errorf("%s %s = %d %q, want %d %q", r.Method, r.Path, status, body, want, words)
		}
		if status, body := a.ask(r.Method, "/v1.23"+path, ""); status != 404 {
			t.Errorf("%s %s at 1.23 = %d %q, want 404", r.Method, r.Path, status, body)
		}
	}
	if refused != 30 {
		t.Errorf("%d endpoints refuse, want 30", refused)
	}
}

// cluster is a moss-swarm that knows networks. It notes what it is asked.
type cluster struct {
	said     []string
	networks string // the answer to their list; empty: this node is no manager
	status   int    // of the answer to anything else
	node     status.Node
}

func (f *cluster) MayBeInSwarm() bool { return f.node.State != "" }

func (f *cluster) Node(context.Context) status.Node { return f.node }

func (f *cluster) Pass(r *http.Request, _ bool) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	call := r.Method + " " + r.URL.Path
	if len(body) > 0 {
		call += " " + string(body)
	}
	answer := &http.Response{StatusCode: f.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"message":"so it is"}`))}
	switch {
	case strings.HasSuffix(r.URL.Path, "/networks") && f.networks == "":
		return nil, fault.NotAcceptable("This node is not a swarm manager")
	case strings.HasSuffix(r.URL.Path, "/networks"):
		answer.StatusCode, answer.Body = http.StatusOK, io.NopCloser(strings.NewReader(f.networks))
	default:
		f.said = append(f.said, call)
	}
	return answer, nil
}

const clusterNetworks = `[{"Name":"mesh","Id":"7v5onv91qkgrffbxdi0mmfx7k","Created":"2016-07-22T10:00:00Z","Scope":"swarm","Driver":"overlay",` +
	`"Internal":true,"IPAM":{"Driver":"default","Config":[{"Subnet":"10.208.1.0/24","IPRange":"10.208.1.0/25","Gateway":"10.208.1.1"}]},` +
	`"Options":{"o":"p"},"Labels":{"a":"1"}}]`

// TestClusterNetworks: a manager shows networks of the swarm beside its own and has the swarm change them.
func TestClusterNetworks(t *testing.T) {
	shown := []string{
		`"Name":"mesh","Id":"7v5onv91qkgrffbxdi0mmfx7k","Created":"2016-07-22T10:00:00Z","Scope":"swarm","Driver":"overlay"`,
		`{"Subnet":"10.208.1.0/24","IPRange":"10.208.1.0/25","Gateway":"10.208.1.1"}`, `"Internal":true`, `"Options":{"o":"p"},"Labels":{"a":"1"}`,
	}
	for _, tc := range []struct {
		name, method, path, body string
		swarm                    cluster
		status                   int
		said, here               string // what the swarm and the engine's own networks are asked
		answer                   []string
	}{
		{
			"list", http.MethodGet, "/networks", "",
			cluster{networks: clusterNetworks},
			200, "", "list map[]",
			append([]string{`"Name":"blue"`}, shown...),
		},
		{"list on a worker", http.MethodGet, "/networks", "", cluster{}, 200, "", "list map[]", []string{`[{"Name":"blue"`}},
		{"list from a broken manager", http.MethodGet, "/networks", "", cluster{networks: "{"}, 200, "", "list map[]", []string{`"Name":"blue"`}},
		{"inspect", http.MethodGet, "/networks/mesh", "", cluster{networks: clusterNetworks}, 200, "", "find mesh", shown},
		{
			"create", http.MethodPost, "/networks/create", `{"Name":"new","Driver":"overlay"}`,
			cluster{networks: clusterNetworks, status: 201},
			201,
			`POST /v1.24/networks/create {"Name":"new","Driver":"overlay"}`, "find new local",
			[]string{"so it is"},
		},
		{
			"create with the name of a network of this node", http.MethodPost, "/networks/create", `{"Name":"blue","Driver":"overlay"}`,
			cluster{networks: clusterNetworks, status: 201},
			409, "", "find blue local",
			[]string{"network with name blue already exists"},
		},
		{
			"create with a name that is kept", http.MethodPost, "/networks/create", `{"Name":"bridge","Driver":"overlay"}`,
			cluster{networks: clusterNetworks, status: 403},
			403,
			`POST /v1.24/networks/create {"Name":"bridge","Driver":"overlay"}`, "find bridge local",
			[]string{"so it is"},
		},
		{
			"create a bridge with the name of one of the swarm", http.MethodPost, "/networks/create", `{"Name":"mesh","Driver":"bridge"}`,
			cluster{networks: clusterNetworks},
			409, "", "",
			[]string{"network with name mesh already exists"},
		},
		{
			"remove", http.MethodDelete, "/networks/mesh", "",
			cluster{networks: clusterNetworks, status: 403},
			403,
			"DELETE /v1.24/networks/mesh", "find mesh",
			[]string{"so it is"},
		},
		{
			"a container in one", http.MethodPost, "/containers/create", `{"Image":"busybox","HostConfig":{"NetworkMode":"mesh"}}`,
			cluster{networks: clusterNetworks},
			403, "", "find mesh",
			[]string{"network mesh not manually attachable"},
		},
		{
			"a container with an endpoint in one", http.MethodPost, "/containers/create",
			`{"Image":"busybox","NetworkingConfig":{"EndpointsConfig":{"mesh":{}}}}`,
			cluster{networks: clusterNetworks},
			403, "", "find mesh",
			[]string{"network mesh not manually attachable"},
		},
		{
			"a container in the default one", http.MethodPost, "/containers/create", `{"Image":"busybox"}`,
			cluster{networks: clusterNetworks},
			201, "", "", nil,
		},
		{"remove one of this node", http.MethodDelete, "/networks/blue", "", cluster{networks: clusterNetworks}, 200, "", "remove 6b", nil},
		{
			"prune", http.MethodPost, "/networks/prune", "",
			cluster{networks: clusterNetworks, status: 200},
			200,
			"DELETE /v1.51/networks/7v5onv91qkgrffbxdi0mmfx7k", "prune map[] used=true",
			[]string{`["blue","mesh"]`},
		},
		{
			"prune what is in use", http.MethodPost, "/networks/prune", "",
			cluster{networks: clusterNetworks, status: 409},
			200,
			"DELETE /v1.51/networks/7v5onv91qkgrffbxdi0mmfx7k", "prune map[] used=true",
			[]string{`["blue"]`},
		},
		{
			"prune with a swarm that fails", http.MethodPost, "/networks/prune", "",
			cluster{networks: clusterNetworks, status: 503},
			200,
			"DELETE /v1.51/networks/7v5onv91qkgrffbxdi0mmfx7k", "prune map[] used=true",
			[]string{`["blue"]`},
		},
	} {
		a := newAPIIn(t, &tc.swarm)
		status, answer := a.ask(tc.method, "/v1.24"+tc.path, tc.body)
		said := strings.Join(tc.swarm.said, "; ")
		if status != tc.status || said != tc.said || a.networks.said != tc.here {
			t.Errorf("%s: %d %s, the swarm is asked %q and this node %q; want %d, %q, %q", tc.name, status, answer, said, a.networks.said,
				tc.status, tc.said, tc.here)
		}
		for _, want := range tc.answer {
			if !strings.Contains(answer, want) {
				t.Errorf("%s: answer %s, want in it %s", tc.name, answer, want)
			}
		}
	}
}
