package main

import (
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"moss/api/client/clienttest"
	"moss/api/types"
)

// taking answers a request and keeps its body.
func taking(t *testing.T, body *string, status int, reply string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		*body = string(raw)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, reply)
	}
}

func TestNetworkCreate(t *testing.T) {
	engine := clienttest.New(t)
	var body string
	engine.Override["POST /networks/create"] = taking(t, &body, http.StatusCreated, `{"Id":"77","Warning":""}`)
	for args, want := range map[string]string{
		"front": `{"Name":"front","CheckDuplicate":true,"Driver":"bridge"}`,
		"-d macvlan --internal --ipv6 --label a=1 --label b -o x=y front": `{"Name":"front","CheckDuplicate":true,"Driver":"macvlan","Internal":true,"EnableIPv6":true,"Options":{"x":"y"},"Labels":{"a":"1","b":""}}`,
		"--subnet 10.7.0.0/24 --gateway 10.7.0.254 --ip-range 10.7.0.128/25 --aux-address router=10.7.0.2 front": `{"Name":"front","CheckDuplicate":true,"Driver":"bridge",` +
			`"IPAM":{"Config":[{"Subnet":"10.7.0.0/24","IPRange":"10.7.0.128/25","Gateway":"10.7.0.254","AuxiliaryAddresses":{"router":"10.7.0.2"}}]}}`,
		// Each goes to the subnet that holds it, in whatever order they stand.
		"--subnet 10.7.0.0/24 --subnet fd00::/64 --gateway fd00::1 --gateway 10.7.0.1 --aux-address a=fd00::2 --aux-address b=10.7.0.2 --aux-address c=fd00::3 front": `{"Name":"front","CheckDuplicate":true,"Driver":"bridge","IPAM":{"Config":[` +
			`{"Subnet":"10.7.0.0/24","Gateway":"10.7.0.1","AuxiliaryAddresses":{"b":"10.7.0.2"}},{"Subnet":"fd00::/64","Gateway":"fd00::1","AuxiliaryAddresses":{"a":"fd00::2","c":"fd00::3"}}]}}`,
		"-d overlay front": `{"Name":"front","CheckDuplicate":true,"Driver":"overlay"}`,
		"--attachable --scope local --ipv4=false --config-only front": `{"Name":"front","CheckDuplicate":true,"Driver":"bridge","EnableIPv4":false,` +
			`"Scope":"local","Attachable":true,"ConfigOnly":true}`,
		"--ipv4 --config-from base front":            `{"Name":"front","CheckDuplicate":true,"Driver":"bridge","EnableIPv4":true,"ConfigFrom":{"Network":"base"}}`,
		"--ipam-driver default --ipam-opt k=v front": `{"Name":"front","CheckDuplicate":true,"Driver":"bridge","IPAM":{"Driver":"default","Options":{"k":"v"}}}`,
	} {
		stdout, stderr, code := moss(t, engine, "", append([]string{"network", "create"}, strings.Fields(args)...)...)
		if stdout != "77\n" || stderr != "" || code != 0 || body != want {
			t.Errorf("network create %s: %q, %q, %d with\n%s, want\n%s", args, stdout, stderr, code, body, want)
		}
	}
	engine.Override["POST /networks/create"] = taking(t, &body, http.StatusCreated, `{"Id":"78","Warning":"think of it"}`)
	if stdout, stderr, code := moss(t, engine, "", "network", "create", "front"); stdout != "78\n" || stderr != "moss: warning: think of it\n" || code != 0 {
		t.Errorf("with a warning: %q, %q, %d", stdout, stderr, code)
	}
}

func TestNetworkList(t *testing.T) {
	engine := clienttest.New(t)
	engine.Override["GET /networks"] = answer(`[
		{"Name":"none","Id":"3333333333333333","Scope":"local","Driver":"null"},
		{"Name":"inner","Id":"k2kxbpu3nydrk3mzthpjlpqmy","Scope":"swarm","Driver":"overlay"},
		{"Name":"ingress","Id":"qhdkn3zgd4ixaihaoz9fjazmz","Scope":"swarm","Driver":"overlay"},
		{"Name":"back","Id":"1111111111111111","Scope":"local","Driver":"bridge","Internal":true,"EnableIPv6":true,"Labels":{"b":"2","a":"1"},
			"IPAM":{"Config":[{"Subnet":"10.7.0.0/24"},{"Subnet":"fd00::/64"}]}}]`)
	for _, tc := range []struct{ args, want, request string }{
		{"network ls", "NETWORK ID     NAME      DRIVER    SCOPE\n111111111111   back      bridge    local\nqhdkn3zgd4ix   ingress   overlay   swarm\nk2kxbpu3nydr   inner     overlay   swarm\n333333333333   none      null      local\n", "GET /networks"},
		{"network list -q", "111111111111\nqhdkn3zgd4ix\nk2kxbpu3nydr\n333333333333\n", "GET /networks"},
		{"network ls -q --no-trunc", "1111111111111111\nqhdkn3zgd4ixaihaoz9fjazmz\nk2kxbpu3nydrk3mzthpjlpqmy\n3333333333333333\n", "GET /networks"},
		{"network ls -f driver=bridge -f name=ba --format {{.Name}}", "back\ningress\ninner\nnone\n", "GET /networks?filters=%7B%22driver%22%3A%5B%22bridge%22%5D%2C%22name%22%3A%5B%22ba%22%5D%7D"},
		{`network ls --format {{.ID}}|{{.Internal}}|{{.IPv6}}|{{.Labels}}|{{.Label\t"b"}}|{{.Subnets}}`, "111111111111|true|true|a=1,b=2|2|10.7.0.0/24,fd00::/64\nqhdkn3zgd4ix|false|false|||\nk2kxbpu3nydr|false|false|||\n333333333333|false|false|||\n", "GET /networks"},
		{"__complete network rm i", "inner\ningress\n:4\n", "GET /networks"},
		{"__complete network connect i", ":4\n", "GET /networks"},
		{"__complete run --network i", ":4\n", "GET /networks"},
		{"__complete service create --network i", "inner\n:4\n", "GET /networks"},
		{"__complete service create --network b", ":4\n", "GET /networks"},
		{"__complete service update --network-add i", "inner\n:4\n", "GET /networks"},
		{"__complete service update --network-rm i", "inner\n:4\n", "GET /networks"},
		{"__complete network create --driver o", "bridge\noverlay\n:4\n", "GET /networks"},
		{"__complete network create --config-from b", "back\n:4\n", "GET /networks"},
		{"__complete network rm b", "back\n:4\n", "GET /networks"},
		{"__complete network connect n", "none\n:4\n", "GET /networks"},
		{"__complete inspect --type network b", "back\n:4\n", "GET /networks"},
		{"__complete inspect b", "back\n:4\n", "GET /networks"},
		{"__complete run --network b", "back\n:4\n", "GET /networks"},
	} {
		stdout, stderr, code := moss(t, engine, "", strings.Fields(tc.args)...)
		requests := engine.Requests()
		if stdout != tc.want || code != 0 || requests[len(requests)-1] != tc.request {
			t.Errorf("moss %s: %q, %q, %d after %s, want %q after %s", tc.args, stdout, stderr, code, requests[len(requests)-1], tc.want, tc.request)
		}
	}
}

func TestNetworkVerbs(t *testing.T) {
	engine := clienttest.New(t)
	var body string
	engine.Override["POST /networks/front/connect"] = taking(t, &body, http.StatusOK, "")
	engine.Override["POST /networks/front/disconnect"] = taking(t, &body, http.StatusOK, "")
	engine.Override["DELETE /networks/front"] = taking(t, &body, http.StatusNoContent, "")
	engine.Override["DELETE /networks/busy"] = func(w http.ResponseWriter, _ *http.Request) {
		clienttest.Fail(w, http.StatusConflict, "error while removing network: network busy id 1 has active endpoints")
	}
	for _, tc := range []struct {
		args, body, stdout, stderr string
		code                       int
	}{
		{"connect front web", `{"Container":"web"}`, "", "", 0},
		{
			"connect --ip 10.7.0.9 --ip6 fd00::9 --alias a --alias b --link db --link x:y --link-local-ip 169.254.0.9 front web",
			`{"Container":"web","EndpointConfig":{"IPAMConfig":{"IPv4Address":"10.7.0.9","IPv6Address":"fd00::9","LinkLocalIPs":["169.254.0.9"]},"Links":["db:db","x:y"],"Aliases":["a","b"]}}`,
			"", "", 0,
		},
		{"disconnect front web", `{"Container":"web"}`, "", "", 0},
		{"disconnect -f front web", `{"Container":"web","Force":true}`, "", "", 0},
		{"connect gone web", "", "", "moss: no such thing: /networks/gone/connect\n", 1},
		{"rm front", "", "front\n", "", 0},
		{"remove busy gone front", "", "front\n", "moss: error while removing network: network busy id 1 has active endpoints\nmoss: no such thing: /networks/gone\n", 1},
		{"rm -f gone front", "", "gone\nfront\n", "", 0},
		{"rm -f busy", "", "", "moss: error while removing network: network busy id 1 has active endpoints\n", 1},
	} {
		body = ""
		stdout, stderr, code := moss(t, engine, "", append([]string{"network"}, strings.Fields(tc.args)...)...)
		if stdout != tc.stdout || stderr != tc.stderr || code != tc.code || body != tc.body {
			t.Errorf("moss network %s: %q, %q, %d with %s, want %q, %q, %d with %s",
				tc.args, stdout, stderr, code, body, tc.stdout, tc.stderr, tc.code, tc.body)
		}
	}
}

// TestRunWithoutNetwork makes no container when a network is missing, and asks of no network that is always there.
func TestRunWithoutNetwork(t *testing.T) {
	for args, want := range map[string]string{
		"run -d --network mine --network gone box":  "GET /networks/gone",
		"run -it --network gone --network mine box": "GET /networks/gone",
		"run -d --network mine box":                 "POST /containers/" + clienttest.ID + "/start",
		"run -d --network none box":                 "POST /containers/" + clienttest.ID + "/start",
		"create --network gone box":                 "POST /containers/create", // it may come until the start
	} {
		engine := clienttest.New(t)
		engine.Override["GET /networks/mine"] = answer(`{"Id":"77"}`)
		_, stderr, code := moss(t, engine, "", strings.Fields(args)...)
		requests := engine.Requests()
		missing := strings.HasSuffix(want, "gone")
		if requests[len(requests)-1] != want || missing != (code == exitEngine) || missing && slices.Contains(requests, "POST /containers/create") {
			t.Errorf("moss %s: exit code %d, %q after %q, want %s as the last", args, code, stderr, requests, want)
		}
	}
}

func TestRunInternalNetwork(t *testing.T) {
	for args, warned := range map[string]bool{
		"--network back": false, "--network back -p 80": true, "--network back -P": true, "--network back --network front -p 80": false,
		"--network back --network bridge -p 80": false,
	} {
		engine := clienttest.New(t)
		engine.Override["GET /networks/back"] = answer(`{"Internal":true}`)
		engine.Override["GET /networks/front"] = answer(`{"Internal":false}`)
		_, stderr, code := moss(t, engine, "", append(append([]string{"run", "-d"}, strings.Fields(args)...), "box")...)
		if got := strings.HasPrefix(stderr, "moss: warning: no port is published"); got != warned || code != 0 {
			t.Errorf("moss run %s: %q, %d, want a warning: %t", args, stderr, code, warned)
		}
	}
}

func TestPortText(t *testing.T) {
	for want, ports := range map[string]string{
		"":       `[]`,
		"80/tcp": `[{"PrivatePort":80,"Type":"tcp"}]`,
		"0.0.0.0:8080->80/tcp, [::]:8080->80/tcp": `[{"IP":"::","PrivatePort":80,"PublicPort":8080,"Type":"tcp"},{"IP":"0.0.0.0","PrivatePort":80,"PublicPort":8080,"Type":"tcp"}]`,
		"0.0.0.0:80-82->80-82/tcp":                `[{"IP":"0.0.0.0","PrivatePort":82,"PublicPort":82,"Type":"tcp"},{"IP":"0.0.0.0","PrivatePort":80,"PublicPort":80,"Type":"tcp"},{"IP":"0.0.0.0","PrivatePort":81,"PublicPort":81,"Type":"tcp"}]`,
		"127.0.0.1:8080-8081->80-81/tcp":          `[{"IP":"127.0.0.1","PrivatePort":80,"PublicPort":8080,"Type":"tcp"},{"IP":"127.0.0.1","PrivatePort":81,"PublicPort":8081,"Type":"tcp"}]`,
		"0.0.0.0:7->80/tcp, 0.0.0.0:9->81/tcp":    `[{"IP":"0.0.0.0","PrivatePort":80,"PublicPort":7,"Type":"tcp"},{"IP":"0.0.0.0","PrivatePort":81,"PublicPort":9,"Type":"tcp"}]`,
		"0.0.0.0:7->80/tcp, 0.0.0.0:9->80/tcp":    `[{"IP":"0.0.0.0","PrivatePort":80,"PublicPort":7,"Type":"tcp"},{"IP":"0.0.0.0","PrivatePort":80,"PublicPort":9,"Type":"tcp"}]`,
		"53-54/tcp, 53-54/udp":                    `[{"PrivatePort":53,"Type":"udp"},{"PrivatePort":54,"Type":"tcp"},{"PrivatePort":54,"Type":"udp"},{"PrivatePort":53,"Type":"tcp"}]`,
		"80/tcp, 0.0.0.0:81->81/tcp, 82/tcp":      `[{"PrivatePort":80,"Type":"tcp"},{"IP":"0.0.0.0","PrivatePort":81,"PublicPort":81,"Type":"tcp"},{"PrivatePort":82,"Type":"tcp"}]`,
		"65535/tcp":                               `[{"PrivatePort":65535,"Type":"tcp"}]`,
	} {
		var list []types.Port
		if err := json.Unmarshal([]byte(ports), &list); err != nil {
			t.Fatal(err)
		}
		before := append([]types.Port(nil), list...)
		if got := portText(list); got != want || !reflect.DeepEqual(list, append([]types.Port{}, before...)) {
			t.Errorf("portText(%s) = %q, want %q and an unchanged list", ports, got, want)
		}
	}
}

func TestPort(t *testing.T) {
	engine := clienttest.New(t)
	engine.Override["GET /containers/web/json"] = answer(`{"Id":"1","NetworkSettings":{"Ports":{"443/tcp":[{"HostIp":"127.0.0.1","HostPort":"8443"}],
		"80/tcp":[{"HostIp":"0.0.0.0","HostPort":"8080"},{"HostIp":"::","HostPort":"8080"}],"80/udp":[{"HostIp":"0.0.0.0","HostPort":"9"}],"53/udp":null}}}`)
	for args, want := range map[string]string{
		"web":        "80/tcp -> 0.0.0.0:8080\n80/tcp -> [::]:8080\n80/udp -> 0.0.0.0:9\n443/tcp -> 127.0.0.1:8443\n",
		"web 80":     "0.0.0.0:8080\n[::]:8080\n",
		"web 80/UDP": "0.0.0.0:9\n",
	} {
		if stdout, stderr, code := moss(t, engine, "", append([]string{"port"}, strings.Fields(args)...)...); stdout != want || stderr != "" || code != 0 {
			t.Errorf("moss port %s: %q, %q, %d, want %q", args, stdout, stderr, code, want)
		}
	}
}
