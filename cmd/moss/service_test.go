package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"moss/api/client/clienttest"
)

// splitLine splits a command line of a test; ~ stands for a blank.
func splitLine(line string) []string {
	fields := strings.Fields(line)
	for i := range fields {
		fields[i] = strings.ReplaceAll(fields[i], "~", " ")
	}
	return fields
}

func TestServiceCreate(t *testing.T) {
	const one = `"Mode":{"Replicated":{"Replicas":1}}`
	engine := clienttest.New(t)
	var body string
	engine.Override["POST /services/create"] = taking(t, &body, http.StatusCreated, `{"ID":"77"}`)
	dir := t.TempDir()
	file := filepath.Join(dir, "env")
	if err := os.WriteFile(file, []byte("A=file\nB=file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"box":                       `{"TaskTemplate":{"ContainerSpec":{"Image":"box"}},` + one + `}`,
		"--name web box httpd -f":   `{"Name":"web","TaskTemplate":{"ContainerSpec":{"Image":"box","Args":["httpd","-f"]}},` + one + `}`,
		"--replicas 3 box":          `{"TaskTemplate":{"ContainerSpec":{"Image":"box"}},"Mode":{"Replicated":{"Replicas":3}}}`,
		"--mode global box":         `{"TaskTemplate":{"ContainerSpec":{"Image":"box"}},"Mode":{"Global":{}}}`,
		"--label a=1 -l b=2 box":    `{"Labels":{"a":"1","b":"2"},"TaskTemplate":{"ContainerSpec":{"Image":"box"}},` + one + `}`,
		"--container-label a=1 box": `{"TaskTemplate":{"ContainerSpec":{"Image":"box","Labels":{"a":"1"}}},` + one + `}`,
		"--env-file " + file + " -e A=flag --env C= box":                                                     `{"TaskTemplate":{"ContainerSpec":{"Image":"box","Env":["A=flag","B=file","C="]}},` + one + `}`,
		"-w /srv -u 1:2 --hostname h --stop-signal INT -t --read-only --group g box":                         `{"TaskTemplate":{"ContainerSpec":{"Image":"box","Hostname":"h","Dir":"/srv","User":"1:2","Groups":["g"],"StopSignal":"INT","TTY":true,"ReadOnly":true}},` + one + `}`,
		"--entrypoint sh~-c~'a~b' box":                                                                       `{"TaskTemplate":{"ContainerSpec":{"Image":"box","Command":["sh","-c","a b"]}},` + one + `}`,
		"--stop-grace-period 3s box":                                                                         `{"TaskTemplate":{"ContainerSpec":{"Image":"box","StopGracePeriod":3000000000}},` + one + `}`,
		"--mount type=volume,src=v,dst=/v,ro --mount type=tmpfs,dst=/t box":                                  `{"TaskTemplate":{"ContainerSpec":{"Image":"box","Mounts":[{"Type":"volume","Source":"v","Target":"/v","ReadOnly":true},{"Type":"tmpfs","Target":"/t"}]}},` + one + `}`,
		"--host db:10.0.0.9 --dns 10.0.0.1 --dns-option ndots:2 --dns-search lan box":                        `{"TaskTemplate":{"ContainerSpec":{"Image":"box","Hosts":["10.0.0.9 db"],"DNSConfig":{"Nameservers":["10.0.0.1"],"Search":["lan"],"Options":["ndots:2"]}}},` + one + `}`,
		"--health-cmd true --health-interval 2s box":                                                         `{"TaskTemplate":{"ContainerSpec":{"Image":"box","Healthcheck":{"Test":["CMD-SHELL","true"],"Interval":2000000000}}},` + one + `}`,
		"--no-healthcheck box":                                                                               `{"TaskTemplate":{"ContainerSpec":{"Image":"box","Healthcheck":{"Test":["NONE"]}}},` + one + `}`,
		"--limit-cpu 1.5 --limit-memory 64m box":                                                             `{"TaskTemplate":{"ContainerSpec":{"Image":"box"},"Resources":{"Limits":{"NanoCPUs":1500000000,"MemoryBytes":67108864}}},` + one + `}`,
		"--reserve-cpu .5 --reserve-memory 1k box":                                                           `{"TaskTemplate":{"ContainerSpec":{"Image":"box"},"Resources":{"Reservations":{"NanoCPUs":500000000,"MemoryBytes":1024}}},` + one + `}`,
		"--restart-condition on-failure --restart-delay 1s --restart-max-attempts 3 --restart-window 1m box": `{"TaskTemplate":{"ContainerSpec":{"Image":"box"},"RestartPolicy":{"Condition":"on-failure","Delay":1000000000,"MaxAttempts":3,"Window":60000000000}},` + one + `}`,
		"--constraint node.role==worker --constraint node.labels.gpu==yes box":                               `{"TaskTemplate":{"ContainerSpec":{"Image":"box"},"Placement":{"Constraints":["node.role==worker","node.labels.gpu==yes"]}},` + one + `}`,
		"--log-driver json-file --log-opt max-size=1m box":                                                   `{"TaskTemplate":{"ContainerSpec":{"Image":"box"},"LogDriver":{"Name":"json-file","Options":{"max-size":"1m"}}},` + one + `}`,
		"--update-delay 2s --update-failure-action continue box":                                             `{"TaskTemplate":{"ContainerSpec":{"Image":"box"}},` + one + `,"UpdateConfig":{"Parallelism":1,"Delay":2000000000,"FailureAction":"continue"}}`,
		"--update-parallelism 0 box":                                                                         `{"TaskTemplate":{"ContainerSpec":{"Image":"box"}},` + one + `,"UpdateConfig":{"Parallelism":0}}`,
		"--publish 8080:80 -p published=1,target=2 --endpoint-mode vip box":                                  `{"TaskTemplate":{"ContainerSpec":{"Image":"box"}},` + one + `,"EndpointSpec":{"Mode":"vip","Ports":[{"TargetPort":80,"PublishedPort":8080},{"TargetPort":2,"PublishedPort":1}]}}`,
		"--network front --network name=back,alias=db box":                                                   `{"TaskTemplate":{"ContainerSpec":{"Image":"box"},"Networks":[{"Target":"front"},{"Target":"back","Aliases":["db"]}]},` + one + `}`,
	} {
		body = ""
		stdout, stderr, code := moss(t, engine, "", append([]string{"service", "create", "-d"}, splitLine(args)...)...)
		if stdout != "77\n" || stderr != "" || code != 0 || body != want {
			t.Errorf("service create %s: %q, %q, %d with\n%s, want\n%s", args, stdout, stderr, code, body, want)
		}
	}
}

func TestServiceCreateWrong(t *testing.T) {
	engine := clienttest.New(t)
	for args, want := range map[string]string{
		"":                                     "want at least one argument",
		"--mode some box":                      `mode "some": want replicated or global`,
		"--mode global --replicas 2 box":       "replicas are for replicated ones",
		"--restart-condition never box":        `--restart-condition "never": want none, on-failure or any`,
		"--update-failure-action rollback box": `--update-failure-action "rollback": want pause or continue`,
		"--endpoint-mode x box":                `--endpoint-mode "x": want vip or dnsrr`,
		"--limit-cpu x box":                    `--limit-cpu: cpus "x"`,
		"--reserve-memory x box":               `--reserve-memory: size "x"`,
		"--mount type=bind box":                "a target is needed",
		"--host db box":                        "want NAME:IP",
		"--dns x box":                          `dns "x" is not an IP address`,
		"--publish x box":                      "is no port",
		"--log-opt x box":                      "log-opt",
		"--label =x box":                       "has no key",
		"-e =x box":                            "has no name",
		"--entrypoint 'x box":                  "it ends inside quotes",
		"--health-retries -1 box":              "cannot be negative",
		"--network name=a,what=b box":          "unknown option",
		"--network name=a,ip=10.7.0.9 box":     "the swarm chooses the addresses",
		"--publish mode=host,target=80 box":    "want ingress",
		"--env-file /there/is/none box":        "no such file",
	} {
		stdout, stderr, code := moss(t, engine, "", append([]string{"service", "create"}, splitLine(args)...)...)
		if stdout != "" || code != exitEngine || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("service create %s: %q, %q, %d, want %q and 125", args, stdout, stderr, code, want)
		}
	}
	if got := engine.Requests(); len(got) != 0 {
		t.Errorf("requests %q, want none", got)
	}
}

// fullService is a service that has something in every place that flags change.
const fullService = `{"ID":"77","Version":{"Index":12},"Spec":{"Name":"web","Labels":{"a":"1","b":"2"},"TaskTemplate":{"ContainerSpec":{` +
	`"Image":"box","Labels":{"c":"3"},"Args":["httpd"],"Env":["A=1","B=2"],"Groups":["g"],"Mounts":[{"Type":"volume","Source":"v","Target":"/v"}],` +
	`"Healthcheck":{"Test":["CMD","x"],"Interval":5,"Retries":2},"Hosts":["10.0.0.9 db"],"DNSConfig":{"Nameservers":["10.0.0.1"],"Options":["o"]}},` +
	`"Resources":{"Limits":{"NanoCPUs":1,"MemoryBytes":2}},"RestartPolicy":{"Condition":"any","Delay":7},"Placement":{"Constraints":["node.role == manager"]},"Networks":[{"Target":"n1","Aliases":["a"]}],` +
	`"LogDriver":{"Name":"local"}},"Mode":{"Replicated":{"Replicas":2}},"UpdateConfig":{"Parallelism":2,"Delay":9}}}`

func TestServiceUpdate(t *testing.T) {
	engine := clienttest.New(t)
	engine.Override["GET /services/web"] = answer(fullService)
	engine.Override["GET /networks"] = answer(`[{"Name":"front","Id":"n1","Scope":"swarm"},{"Name":"back","Id":"n2","Scope":"swarm"},{"Name":"other","Id":"n1","Scope":"local"}]`)
	var body string
	engine.Override["POST /services/77/update"] = taking(t, &body, http.StatusOK, "")
	var record struct{ Spec json.RawMessage }
	if err := json.Unmarshal([]byte(fullService), &record); err != nil {
		t.Fatal(err)
	}
	whole := string(record.Spec)
	for _, tc := range []struct{ args, from, to string }{
		{"", "", ""},
		{"--image box:2 --args serve~-v", `"Image":"box","Labels":{"c":"3"},"Args":["httpd"]`, `"Image":"box:2","Labels":{"c":"3"},"Args":["serve","-v"]`},
		{"--args ~", `"Args":["httpd"],`, ``},
		{"--replicas 0", `"Replicas":2`, `"Replicas":0`},
		{"--env-add A=7 --env-add C=3 --env-rm B", `"Env":["A=1","B=2"]`, `"Env":["A=7","C=3"]`},
		{"--env-rm A --env-rm B", `"Env":["A=1","B=2"],`, ``},
		{"--label-add a=9 --label-rm b", `{"a":"1","b":"2"}`, `{"a":"9"}`},
		{"--container-label-rm c --container-label-add d=", `"Labels":{"c":"3"}`, `"Labels":{"d":""}`},
		{"--group-rm g --group-add h", `["g"]`, `["h"]`},
		{"--mount-add type=tmpfs,dst=/v", `{"Type":"volume","Source":"v","Target":"/v"}`, `{"Type":"tmpfs","Target":"/v"}`},
		{"--mount-rm /v", `"Mounts":[{"Type":"volume","Source":"v","Target":"/v"}],`, ``},
		{"--health-interval 1ms", `"Interval":5,`, `"Interval":1000000,`},
		{"--health-cmd y", `"Test":["CMD","x"]`, `"Test":["CMD-SHELL","y"]`},
		{"--no-healthcheck", `{"Test":["CMD","x"],"Interval":5,"Retries":2}`, `{"Test":["NONE"]}`},
		{"--host-rm db:10.0.0.9 --host-add api:10.0.0.8", `"10.0.0.9 db"`, `"10.0.0.8 api"`},
		{"--dns-rm 10.0.0.1 --dns-option-rm o", `,"DNSConfig":{"Nameservers":["10.0.0.1"],"Options":["o"]}`, ``},
		{"--dns-search-add lan", `"Nameservers":["10.0.0.1"]`, `"Nameservers":["10.0.0.1"],"Search":["lan"]`},
		{"--limit-cpu 2", `"NanoCPUs":1,`, `"NanoCPUs":2000000000,`},
		{"--limit-cpu 0", `"NanoCPUs":1,`, ``},
		{"--reserve-memory 1k", `"MemoryBytes":2}}`, `"MemoryBytes":2},"Reservations":{"MemoryBytes":1024}}`},
		{"--restart-condition none", `"any"`, `"none"`},
		{"--constraint-add node.role==manager", `node.role == manager`, `node.role==manager`},
		{"--constraint-rm node.role==manager", `{"Constraints":["node.role == manager"]}`, `{}`},
		{"--log-opt max-size=1m", `{"Name":"local"}`, `{"Name":"local","Options":{"max-size":"1m"}}`},
		{"--log-driver none", `{"Name":"local"}`, `{"Name":"none"}`},
		{"--update-parallelism 0", `"Parallelism":2`, `"Parallelism":0`},
		{"--force", `,"LogDriver":{"Name":"local"}`, `,"LogDriver":{"Name":"local"},"ForceUpdate":1`},
		{"--network-add name=back,alias=db --network-rm front", `"Networks":[{"Target":"n1","Aliases":["a"]}]`, `"Networks":[{"Target":"n2","Aliases":["db"]}]`},
		{"--network-add front", `[{"Target":"n1","Aliases":["a"]}]`, `[{"Target":"n1"}]`},
		{"--network-rm n1", `,"Networks":[{"Target":"n1","Aliases":["a"]}]`, ``},
		{"--network-rm other --network-add gone", `["a"]}`, `["a"]},{"Target":"gone"}`},
		{"--publish-add 80 --publish-rm 80 --network-rm x", `"Delay":9}`, `"Delay":9},"EndpointSpec":{"Ports":[{"TargetPort":80}]}`},
	} {
		body = ""
		want := strings.Replace(whole, tc.from, tc.to, 1)
		stdout, stderr, code := moss(t, engine, "", append([]string{"service", "update", "-d"}, append(splitLine(tc.args), "web")...)...)
		if stdout != "web\n" || stderr != "" || code != 0 || body != want {
			t.Errorf("service update %s: %q, %q, %d with\n%s, want\n%s", tc.args, stdout, stderr, code, body, want)
		}
	}
	if last := engine.Requests(); last[len(last)-1] != "POST /services/77/update?version=12" {
		t.Errorf("last request %s, want the version of the record", last[len(last)-1])
	}
	if _, stderr, code := moss(t, engine, "", "service", "update", "--replicas", "1", "gone"); code != exitFailed || stderr != "moss: no such thing: /services/gone\n" {
		t.Errorf("update of a missing one: %q, %d", stderr, code)
	}
	if _, stderr, code := moss(t, engine, "", "service", "update", "--env-add", "=x", "web"); code != exitEngine || !strings.Contains(stderr, "has no name") {
		t.Errorf("update with a wrong flag: %q, %d", stderr, code)
	}
}

func TestServiceScale(t *testing.T) {
	engine := clienttest.New(t)
	engine.Override["GET /services/web"] = answer(fullService)
	engine.Override["GET /services/all"] = answer(`{"ID":"88","Spec":{"Mode":{"Global":{}}}}`)
	var body string
	engine.Override["POST /services/77/update"] = taking(t, &body, http.StatusOK, "")
	stdout, stderr, code := moss(t, engine, "", "service", "scale", "-d", "web=5", "all=2", "gone=1")
	if stdout != "web\n" || code != exitFailed || !strings.Contains(body, `"Replicas":5`) ||
		stderr != "moss: update all: a global service has one task on each node: replicas are for replicated ones\nmoss: no such thing: /services/gone\n" {
		t.Errorf("scale: %q, %q, %d with %s", stdout, stderr, code, body)
	}
	for _, wrong := range []string{"web", "web=", "web=x", "=3", "web=-1"} {
		if _, stderr, code := moss(t, engine, "", "service", "scale", wrong); code != exitEngine || !strings.Contains(stderr, "want SERVICE=REPLICAS") {
			t.Errorf("scale %s: %q, %d", wrong, stderr, code)
		}
	}
}

// TestServicePorts: a port that is added takes the place of the one with its published port, and one that is removed is named by
// the port in the container.
func TestServicePorts(t *testing.T) {
	const before = `{"TargetPort":80,"PublishedPort":8080,"PublishMode":"ingress"},{"Protocol":"udp","TargetPort":80,"PublishedPort":8080},{"TargetPort":90}`
	engine := clienttest.New(t)
	engine.Override["GET /services/web"] = answer(`{"ID":"77","Spec":{"Name":"web","EndpointSpec":{"Mode":"vip","Ports":[` + before + `]}}}`)
	var body string
	engine.Override["POST /services/77/update"] = taking(t, &body, http.StatusOK, "")
	const udp, open = `{"Protocol":"udp","TargetPort":80,"PublishedPort":8080}`, `{"TargetPort":90}`
	for args, want := range map[string]string{
		"--publish-add 8080:81":                               `{"TargetPort":81,"PublishedPort":8080},` + udp + `,` + open,
		"--publish-add published=8080,target=53,protocol=udp": `{"TargetPort":80,"PublishedPort":8080,"PublishMode":"ingress"},{"Protocol":"udp","TargetPort":53,"PublishedPort":8080},` + open,
		"--publish-add 90":                                    before,
		"--publish-add 91":                                    before + `,{"TargetPort":91}`,
		"--publish-rm 80":                                     open,
		"--publish-rm 80/tcp --publish-rm 90":                 udp,
		"--publish-rm 8080":                                   before,
	} {
		stdout, stderr, code := moss(t, engine, "", append([]string{"service", "update", "-d"}, append(splitLine(args), "web")...)...)
		if want = `"EndpointSpec":{"Mode":"vip","Ports":[` + want + `]}}`; code != 0 || stdout != "web\n" || !strings.HasSuffix(body, want) {
			t.Errorf("service update %s: %q, %q, %d with\n%s, want it to end with\n%s", args, stdout, stderr, code, body, want)
		}
	}
}

// TestServiceAuth: credentials are sent when they are asked for, and only then.
func TestServiceAuth(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"auths":{"reg:5000":{"auth":"dTpw"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	engine := clienttest.New(t)
	var sent []bool
	for _, line := range []string{"POST /services/create", "POST /services/77/update"} {
		engine.Override[line] = func(w http.ResponseWriter, r *http.Request) {
			sent = append(sent, r.Header.Get("X-Registry-Auth") != "")
			_, _ = io.WriteString(w, `{"ID":"77"}`)
		}
	}
	engine.Override["GET /services/web"] = answer(fullService)
	for _, args := range []string{
		"create -d reg:5000/box", "create -d --with-registry-auth reg:5000/box", "update -d --force web", "update -d --with-registry-auth web",
	} {
		if _, stderr, code := mossAt(t, engine, map[string]string{"DOCKER_CONFIG": dir}, "", append([]string{"service"}, splitLine(args)...)...); code != 0 {
			t.Errorf("%s: %q, %d", args, stderr, code)
		}
	}
	if !slices.Equal(sent, []bool{false, true, false, true}) {
		t.Errorf("sent %v, want with the flag only", sent)
	}
}
