package control

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"moss/api/types"
)

// wholeService has a value in every field that a service of this slice may have.
func wholeService(name string) types.ServiceSpec {
	return types.ServiceSpec{
		Annotations: types.Annotations{Name: name, Labels: map[string]string{"a": "b"}},
		TaskTemplate: types.TaskSpec{
			ContainerSpec: types.ContainerSpec{
				Image: "busybox:1", Labels: map[string]string{"c": "d"}, Command: []string{"/bin/sh"}, Args: []string{"-c", "true"}, Hostname: "h",
				Env: []string{"A=1"}, Dir: "/srv", User: "app", Groups: []string{"audio"}, StopSignal: "TERM", TTY: true, OpenStdin: true,
				ReadOnly: true, StopGracePeriod: new(time.Second), Hosts: []string{"192.0.2.1 a"},
				Mounts: []types.MountConfig{
					{Type: "bind", Source: "/a", Target: "/b", ReadOnly: true, Consistency: "cached", BindOptions: &types.BindOptions{Propagation: "private"}},
					{
						Type: "volume", Source: "v", Target: "/v", VolumeOptions: &types.VolumeOptions{
							NoCopy: true, Labels: map[string]string{"e": "f"}, Subpath: "s",
							DriverConfig: &types.DriverConfig{Name: "local", Options: map[string]string{"type": "tmpfs"}},
						},
					},
					{Type: "tmpfs", Target: "/t", TmpfsOptions: &types.TmpfsOptions{SizeBytes: 4096, Mode: 0o700, Options: [][]string{{"noexec"}}}},
				},
				Healthcheck: &types.Healthcheck{
					Test: []string{"CMD", "true"}, Interval: time.Second, Timeout: time.Second, StartPeriod: time.Second, Retries: 2,
				},
				DNSConfig: &types.ServiceDNS{Nameservers: []string{"192.0.2.53"}, Search: []string{"a.test"}, Options: []string{"ndots:1"}},
			},
			Resources: &types.ServiceRequirements{
				Limits:       &types.ServiceResource{NanoCPUs: 1e8, MemoryBytes: 8 << 20},
				Reservations: &types.ServiceResource{NanoCPUs: 1e7, MemoryBytes: 8 << 20},
			},
			RestartPolicy: &types.ServiceRestart{
				Condition: "on-failure", Delay: new(time.Second), MaxAttempts: new(uint64(1)), Window: new(time.Minute),
			},
			Placement:   &types.Placement{Constraints: []string{"node.role==manager"}},
			LogDriver:   &types.LogDriver{Name: "json-file", Options: map[string]string{"max-size": "1m"}},
			ForceUpdate: 1,
		},
		Mode:         types.ServiceMode{Replicated: &types.ReplicatedMode{Replicas: new(uint64(0))}},
		UpdateConfig: &types.UpdateConfig{Parallelism: 1, Delay: time.Second, FailureAction: "continue"},
		EndpointSpec: &types.EndpointSpec{Mode: "dnsrr"},
	}
}

// wrongValues are tried in the place of each value.
func wrongValues() []any {
	return []any{
		nil, true, -1, 7, 1.5, 1e30, json.Number("99999999999999999999"), "", " ", "x", "../..", "{{", "{{.Nothing}}", "{{.Task.Name}}",
		"a\x00b", "a\nb", "é\u2028", strings.Repeat("x", 70_000),
		[]any{},
		[]any{nil},
		[]any{7},
		[]any{""},
		[]any{map[string]any{}},
		map[string]any{},
		map[string]any{"": ""},
		map[string]any{"x": 7},
	}
}

// TestEachFieldWrong sends a service with each of its values replaced by each wrong one, to a manager. Whatever is not taken is the
// client's fault, and names a field on the way to the value; and the manager is as well as before.
func TestEachFieldWrong(t *testing.T) {
	r := newRig(t)
	name := uniqueName("wrong")
	whole := encode(t, wholeService(name))
	var paths [][]any
	listPaths(decodeAny(t, whole), nil, &paths)
	if len(paths) < 80 {
		t.Fatalf("%d values, want all of a service", len(paths))
	}
	taken := 0
	for _, path := range paths {
		for _, wrong := range wrongValues() {
			body := encode(t, replaceAt(decodeAny(t, whole), path, wrong))
			a := ask(swarm.api, http.MethodPost, "/services/create", body)
			what := fmt.Sprintf("%v = %.40q", path, fmt.Sprint(wrong))
			switch a.status {
			case http.StatusCreated:
				taken++
				var created types.ServiceCreated
				if err := json.Unmarshal(a.body, &created); err != nil {
					t.Fatal(err)
				}
				shown := get[types.Service](r, "/services/"+created.ID).Spec
				r.do(http.StatusOK, http.MethodDelete, "/services/"+created.ID, "")
				again := ask(swarm.api, http.MethodPost, "/services/create", encode(t, shown))
				if again.status != http.StatusCreated {
					t.Errorf("%s: what is shown of it is refused: %d %s", what, again.status, again.body)
					continue
				}
				if err := json.Unmarshal(again.body, &created); err != nil {
					t.Fatal(err)
				}
				if second := get[types.Service](r, "/services/"+created.ID).Spec; !reflect.DeepEqual(second, shown) {
					t.Errorf("%s: shown as %+v, then as %+v", what, shown, second)
				}
				r.do(http.StatusOK, http.MethodDelete, "/services/"+created.ID, "")
			case http.StatusBadRequest:
				if !namesField(a.text(), path) {
					t.Errorf("%s: %q names no field of it", what, a.text())
				}
			default:
				t.Errorf("%s: %d %s", what, a.status, a.body)
			}
		}
	}
	if taken < len(paths) {
		t.Errorf("%d of %d services were taken", taken, len(paths)*len(wrongValues()))
	}
	r.service(wholeService(name))
}

// namesField reports whether an error names the field of a value, not only one that holds it.
func namesField(text string, path []any) bool {
	for _, step := range slices.Backward(path) {
		if field, ok := step.(string); ok && unicode.IsUpper(rune(field[0])) { // not the key of a map
			return strings.Contains(strings.ToLower(text), strings.ToLower(field)) ||
				field == "Source" && strings.Contains(text, "anonymous volumes")
		}
	}
	return false
}

func decodeAny(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// listPaths lists the ways to all values.
func listPaths(v any, path []any, paths *[][]any) {
	here := append([]any{}, path...)
	if len(path) > 0 {
		*paths = append(*paths, here)
	}
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			listPaths(value, append(here, key), paths)
		}
	case []any:
		for i, value := range v {
			listPaths(value, append(here, i), paths)
		}
	}
}

// replaceAt puts a value in the place of another.
func replaceAt(v any, path []any, value any) any {
	if len(path) == 0 {
		return value
	}
	switch step := path[0].(type) {
	case string:
		v.(map[string]any)[step] = replaceAt(v.(map[string]any)[step], path[1:], value) //nolint:forcetypeassert // as listPaths found it
	case int:
		v.([]any)[step] = replaceAt(v.([]any)[step], path[1:], value) //nolint:forcetypeassert // as listPaths found it
	}
	return v
}

// TestWrongBodies: what is no JSON, or no object, is refused by every verb that reads one.
func TestWrongBodies(t *testing.T) {
	r := newRig(t)
	id := r.service(plainService(uniqueName("bodies")))
	for _, path := range []string{
		"/swarm/init", "/swarm/join", "/swarm/unlock", "/swarm/update?version=1", "/nodes/here/update?version=1", "/services/create",
		"/services/" + id + "/update?version=1",
	} {
		for _, body := range []string{"{", "[]", `"x"`, "7", "{}{}", "\x00", strings.Repeat("[", 20_000)} {
			if a := ask(swarm.api, http.MethodPost, path, body); a.status != http.StatusBadRequest {
				t.Errorf("%s with %.20q: %d %s, want 400", path, body, a.status, a.body)
			}
		}
		a := ask(swarm.api, http.MethodPost, path, "{}", "Content-Type", "text/plain")
		requireError(t, a, http.StatusBadRequest, "Content-Type")
	}
}

// TestWrongRefs: no text in a path is more than a name that there is not.
func TestWrongRefs(t *testing.T) {
	r := newRig(t)
	for _, kind := range []string{"nodes", "services", "tasks"} {
		for _, ref := range []string{"%00", "%FF", "..", "a%2Fb", strings.Repeat("x", 9_000), "%7B%7B", "%2A", "-" + strconv.Itoa(1<<40)} {
			a := ask(swarm.api, http.MethodGet, "/"+kind+"/"+ref, "")
			if a.status != http.StatusNotFound && a.status != http.StatusBadRequest {
				t.Errorf("GET /%s/%.20s: %d %s", kind, ref, a.status, a.body)
			}
		}
	}
	r.do(http.StatusOK, http.MethodGet, "/nodes", "")
}
