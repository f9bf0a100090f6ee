package control

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/moby/swarmkit/v2/api"

	"moss/api/types"
)

func TestServiceLife(t *testing.T) {
	r := newRig(t)
	name := uniqueName("web")
	spec := plainService(name)
	spec.Labels = map[string]string{"tier": "front"}
	spec.Mode = types.ServiceMode{Replicated: &types.ReplicatedMode{Replicas: new(uint64(2))}}
	spec.TaskTemplate.ContainerSpec.Env = []string{"A=1"}
	id := r.service(spec)
	tasks := r.running(name, 2)
	if tasks[0].ServiceID != id || tasks[0].NodeID != swarm.nodeID || tasks[0].Spec.ContainerSpec.Env[0] != "A=1" ||
		tasks[0].Slot+tasks[1].Slot != 3 || tasks[0].Status.ContainerStatus.ContainerID != "container-of-"+tasks[0].ID {
		t.Errorf("tasks %+v", tasks)
	}
	if got := get[types.Task](r, "/tasks/"+tasks[0].ID); got.ID != tasks[0].ID || got.Status.ContainerStatus.PID != 4242 {
		t.Errorf("task %+v, want %s", got, tasks[0].ID)
	}

	for _, ref := range []string{id, name, id[:12]} {
		if s := get[types.Service](r, "/services/"+ref); s.ID != id || s.Spec.Labels["tier"] != "front" || *s.Spec.Mode.Replicated.Replicas != 2 {
			t.Errorf("service %s: %+v", ref, s)
		}
	}
	r.refused(http.StatusConflict, "name conflicts with an existing object", http.MethodPost, "/services/create", encode(t, spec))
	r.refused(http.StatusNotFound, "service nosuch not found", http.MethodGet, "/services/nosuch", "")
	r.refused(http.StatusNotFound, "task nosuch not found", http.MethodGet, "/tasks/nosuch", "")
	r.refused(http.StatusBadRequest, "the name or the id of a service", http.MethodDelete, "/services/%2F", "")

	var changed types.ServiceSpec
	from := r.changeService(name, func(s *types.ServiceSpec) {
		s.Mode.Replicated.Replicas = new(uint64(1))
		s.TaskTemplate.ContainerSpec.Env = []string{"A=2"}
		changed = *s
	})
	path := fmt.Sprintf("/services/%s/update?version=%d", name, from)
	r.refused(http.StatusInternalServerError, "update out of sequence", http.MethodPost, path, encode(t, changed))
	r.await("the change in the tasks", func() bool {
		tasks := r.running(name, 1)
		return tasks[0].Spec.ContainerSpec.Env[0] == "A=2"
	})
	if u := get[types.Service](r, "/services/"+id).UpdateStatus; u == nil || u.State != "updating" && u.State != "completed" ||
		u.StartedAt.IsZero() {
		t.Errorf("update %+v, want one that has begun", u)
	}

	if a := r.do(http.StatusOK, http.MethodDelete, "/services/"+name, ""); len(a.body) != 0 {
		t.Errorf("remove answers %q, want nothing", a.body)
	}
	r.refused(http.StatusNotFound, "not found", http.MethodGet, "/services/"+id, "")
	r.refused(http.StatusNotFound, "not found", http.MethodDelete, "/services/"+id, "")
}

func TestUpdateRefused(t *testing.T) {
	r := newRig(t)
	name := uniqueName("fixed")
	id := r.service(plainService(name))
	s := get[types.Service](r, "/services/"+id)
	update := func(version string) string { return "/services/" + id + "/update" + version }
	at := fmt.Sprintf("?version=%d", s.Version.Index)
	body := encode(t, s.Spec)
	for _, version := range []string{"", "?version=", "?version=x", "?version=-1", "?version=1.5"} {
		r.refused(http.StatusBadRequest, "version: invalid value", http.MethodPost, update(version), body)
	}
	other := s.Spec
	other.Name = name + "x"
	r.refused(http.StatusNotImplemented, "renaming services is not supported", http.MethodPost, update(at), encode(t, other))
	other = s.Spec
	other.Mode = types.ServiceMode{Global: &struct{}{}}
	r.refused(http.StatusNotImplemented, "service mode change is not allowed", http.MethodPost, update(at), encode(t, other))
	r.refused(http.StatusBadRequest, "rollback is of API version", http.MethodPost, update(at+"&rollback=previous"), body)
	r.refused(http.StatusBadRequest, "registryAuthFrom is of", http.MethodPost, update(at+"&registryAuthFrom=previous-spec"), body)
	r.refused(http.StatusBadRequest, "body is missing", http.MethodPost, update(at), "")
	r.refused(http.StatusNotFound, "not found", http.MethodPost, "/services/nosuch/update"+at, body)
	change(r, "/services/"+id, update("?registryAuthFrom=spec&rollback=&"), func(s types.Service) (uint64, any) {
		return s.Version.Index, s.Spec
	})
	// A body without a name keeps the one that there is.
	r.changeService(id, func(s *types.ServiceSpec) { s.Name = "" })
	version := get[types.Service](r, "/services/"+id).Version.Index
	if a := r.do(http.StatusOK, http.MethodPost, update(fmt.Sprintf("?version=%d", version)), body); compact(t, a.body) != "{}" {
		t.Errorf("update answers %q, want an object, which clients read", a.body)
	}
	if got := get[types.Service](r, "/services/"+id).Spec.Name; got != name {
		t.Errorf("name %q after an update without one, want %q", got, name)
	}
}

// TestChosenName: a service without a name gets one, as containers do.
func TestChosenName(t *testing.T) {
	r := newRig(t)
	first, second := r.service(plainService("")), r.service(plainService(""))
	a, b := get[types.Service](r, "/services/"+first).Spec.Name, get[types.Service](r, "/services/"+second).Spec.Name
	if !strings.Contains(a, "_") || !strings.Contains(b, "_") || a == b {
		t.Errorf("names %q and %q, want two of two words", a, b)
	}
}

func TestServiceFilters(t *testing.T) {
	r := newRig(t)
	prefix := uniqueName("list") + "-"
	labelled := func(name string, labels map[string]string) string {
		s := plainService(prefix + name)
		s.Labels = labels
		s.Mode = types.ServiceMode{Replicated: &types.ReplicatedMode{Replicas: new(uint64(0))}}
		return r.service(s)
	}
	one := labelled("one", map[string]string{"a": "1", "b": "x"})
	two := labelled("two", map[string]string{"a": "2", "b": "x"})
	onefold := labelled("onefold", nil)
	for _, tc := range []struct {
		filters map[string][]string
		want    []string
	}{
		{map[string][]string{"name": {prefix}}, []string{one, two, onefold}},
		{map[string][]string{"name": {prefix + "one"}}, []string{one, onefold}},
		{map[string][]string{"name": {prefix + "one", prefix + "two"}}, []string{one, onefold, two}},
		{map[string][]string{"name": {prefix}, "label": {"a"}}, []string{one, two}},
		{map[string][]string{"name": {prefix}, "label": {"a=2"}}, []string{two}},
		{map[string][]string{"name": {prefix}, "label": {"a=2", "b"}}, []string{two}},
		{map[string][]string{"name": {prefix}, "label": {"a=1", "a=2"}}, nil},
		{map[string][]string{"id": {one}}, []string{one}},
		{map[string][]string{"id": {one[:15], two}}, []string{one, two}},
		{map[string][]string{"id": {one}, "name": {prefix + "two"}}, nil},
		{map[string][]string{"name": {"nosuch"}}, nil},
	} {
		requireIDs(t, tc.filters, get[[]types.Service](r, filtered("/services", tc.filters)), func(s types.Service) string { return s.ID }, tc.want)
	}
	all := map[string]bool{}
	for _, s := range get[[]types.Service](r, "/services") {
		all[s.ID] = true
	}
	if !all[one] || !all[two] || !all[onefold] {
		t.Errorf("services without filters: %v", all)
	}
	if a := r.do(http.StatusOK, http.MethodGet, filtered("/services", map[string][]string{"name": {"nosuch"}}), ""); compact(t, a.body) != "[]" {
		t.Errorf("no services are %s, want []", a.body)
	}
	r.refused(http.StatusBadRequest, "Invalid filter 'mode'", http.MethodGet, filtered("/services", map[string][]string{"mode": {"x"}}), "")
	r.refused(http.StatusBadRequest, "filters", http.MethodGet, "/services?filters=x", "")
	// A whole name comes before the names that begin with it, and before ids.
	if got := get[types.Service](r, "/services/"+prefix+"one"); got.ID != one {
		t.Errorf("found %s, want %s", got.Spec.Name, one)
	}
}

// requireIDs compares ids without their order.
func requireIDs[T any](t *testing.T, filters any, got []T, idOf func(T) string, want []string) {
	t.Helper()
	have := map[string]bool{}
	for _, one := range got {
		have[idOf(one)] = true
	}
	ok := len(have) == len(want) && len(got) == len(want)
	for _, id := range want {
		ok = ok && have[id]
	}
	if !ok {
		t.Errorf("%v: got %v, want %v", filters, have, want)
	}
}

// TestCredentials: the credentials of a registry rest in the swarm, are shown to nobody, and stay until there are others.
func TestCredentials(t *testing.T) {
	r := newRig(t)
	first := base64.URLEncoding.EncodeToString([]byte(`{"username":"u","password":"first"}`))
	second := base64.URLEncoding.EncodeToString([]byte(`{"username":"u","password":"second"}`))
	name := uniqueName("private")
	id := r.service(plainService(name), "X-Registry-Auth", first)
	kept := func() string {
		managers, err := swarm.member.Control()
		if err != nil {
			t.Fatal(err)
		}
		answer, err := managers.GetService(t.Context(), &api.GetServiceRequest{ServiceID: id})
		if err != nil {
			t.Fatal(err)
		}
		if answer.Service.Spec.Task.GetContainer().PullOptions == nil {
			return ""
		}
		return answer.Service.Spec.Task.GetContainer().PullOptions.RegistryAuth
	}
	if kept() != first {
		t.Errorf("kept %q, want what was sent", kept())
	}
	r.changeService(id, func(*types.ServiceSpec) {})
	if kept() != first {
		t.Errorf("kept %q after an update without credentials", kept())
	}
	r.changeService(id, func(*types.ServiceSpec) {}, "X-Registry-Auth", second)
	if kept() != second {
		t.Errorf("kept %q after an update with credentials", kept())
	}
	for _, path := range []string{"/services", "/services/" + id, "/tasks", filtered("/tasks", map[string][]string{"service": {name}})} {
		body := string(r.do(http.StatusOK, http.MethodGet, path, "").body)
		for _, secret := range []string{first, second, "PullOptions", "RegistryAuth"} {
			if strings.Contains(body, secret) {
				t.Errorf("%s shows %s", path, secret)
			}
		}
	}
	for _, wrong := range []string{"%%%", base64.URLEncoding.EncodeToString([]byte("[]")), base64.URLEncoding.EncodeToString([]byte("{"))} {
		r.refused(http.StatusBadRequest, "X-Registry-Auth: want base64", http.MethodPost, "/services/create",
			encode(t, plainService(uniqueName("p"))), "X-Registry-Auth", wrong)
	}
	if r.service(plainService(uniqueName("public")), "X-Registry-Auth", base64.StdEncoding.EncodeToString([]byte("{}"))) == "" {
		t.Error("empty credentials are refused")
	}
}

// TestNetworksRefused: a service cannot be in a network of one node, nor in one that is not there.
func TestNetworksRefused(t *testing.T) {
	r := newRig(t)
	s := plainService(uniqueName("net"))
	s.Networks = []types.ServiceNetwork{{Target: "backend"}}
	r.refused(http.StatusForbidden, "network backend is not eligible for services: ", http.MethodPost, "/services/create", encode(t, s))
	s.Networks = nil
	s.TaskTemplate.Networks = []types.ServiceNetwork{{Target: "backend"}}
	r.refused(http.StatusForbidden, "network backend is not eligible for services: ", http.MethodPost, "/services/create", encode(t, s))
	body := `{"Name":"n","TaskTemplate":{"ContainerSpec":{"Image":"i"}},"Networks":["front"]}`
	r.refused(http.StatusForbidden, "network front is not eligible for services: ", http.MethodPost, "/services/create", body)
	s.TaskTemplate.Networks = []types.ServiceNetwork{{Target: "none"}}
	r.refused(http.StatusNotFound, "network none not found", http.MethodPost, "/services/create", encode(t, s))
	s.TaskTemplate.Networks = nil
	s.EndpointSpec = &types.EndpointSpec{Mode: "dnsrr"}
	r.service(s)
}

// TestLaterFields: what later versions have and a service would go without is refused by its name, and the defaults that clients
// of later versions send are not.
func TestLaterFields(t *testing.T) {
	r := newRig(t)
	for _, tc := range []struct{ body, field string }{
		{`{"Mode":{"ReplicatedJob":{"TotalCompletions":1}}}`, "Mode.ReplicatedJob"},
		{`{"Mode":{"GlobalJob":{"x":1}}}`, "Mode.GlobalJob"},
		{`{"UpdateConfig":{"Monitor":1000000000}}`, "UpdateConfig.Monitor"},
		{`{"UpdateConfig":{"MaxFailureRatio":0.5}}`, "UpdateConfig.MaxFailureRatio"},
		{`{"UpdateConfig":{"Order":"start-first"}}`, "UpdateConfig.Order"},
		{`{"TaskTemplate":{"Runtime":"plugin"}}`, "TaskTemplate.Runtime"},
		{`{"TaskTemplate":{"PluginSpec":{"Name":"p"}}}`, "TaskTemplate.PluginSpec"},
		{`{"TaskTemplate":{"NetworkAttachmentSpec":{"ContainerID":"c"}}}`, "TaskTemplate.NetworkAttachmentSpec"},
		{`{"TaskTemplate":{"Placement":{"Preferences":[{"Spread":{"SpreadDescriptor":"x"}}]}}}`, "TaskTemplate.Placement.Preferences"},
		{`{"TaskTemplate":{"Placement":{"MaxReplicas":2}}}`, "TaskTemplate.Placement.MaxReplicas"},
		{`{"TaskTemplate":{"Resources":{"Limits":{"Pids":5}}}}`, "TaskTemplate.Resources.Limits.Pids"},
		{`{"TaskTemplate":{"Resources":{"Reservations":{"GenericResources":[{"x":1}]}}}}`, "TaskTemplate.Resources.Reservations.GenericResources"},
		{`{"TaskTemplate":{"Resources":{"SwapBytes":5}}}`, "TaskTemplate.Resources.SwapBytes"},
		{`{"TaskTemplate":{"Resources":{"MemorySwappiness":5}}}`, "TaskTemplate.Resources.MemorySwappiness"},
		{`{"TaskTemplate":{"ContainerSpec":{"Privileges":{"NoNewPrivileges":true}}}}`, "TaskTemplate.ContainerSpec.Privileges"},
		{`{"TaskTemplate":{"ContainerSpec":{"Init":true}}}`, "TaskTemplate.ContainerSpec.Init"},
		{`{"TaskTemplate":{"ContainerSpec":{"Secrets":[{"SecretID":"s"}]}}}`, "TaskTemplate.ContainerSpec.Secrets"},
		{`{"TaskTemplate":{"ContainerSpec":{"Configs":[{"ConfigID":"s"}]}}}`, "TaskTemplate.ContainerSpec.Configs"},
		{`{"TaskTemplate":{"ContainerSpec":{"Isolation":"hyperv"}}}`, "TaskTemplate.ContainerSpec.Isolation"},
		{`{"TaskTemplate":{"ContainerSpec":{"Sysctls":{"a":"b"}}}}`, "TaskTemplate.ContainerSpec.Sysctls"},
		{`{"TaskTemplate":{"ContainerSpec":{"CapabilityAdd":["CAP_X"]}}}`, "TaskTemplate.ContainerSpec.CapabilityAdd"},
		{`{"TaskTemplate":{"ContainerSpec":{"CapabilityDrop":["CAP_X"]}}}`, "TaskTemplate.ContainerSpec.CapabilityDrop"},
		{`{"TaskTemplate":{"ContainerSpec":{"Ulimits":[{"Name":"x"}]}}}`, "TaskTemplate.ContainerSpec.Ulimits"},
		{`{"TaskTemplate":{"ContainerSpec":{"OomScoreAdj":5}}}`, "TaskTemplate.ContainerSpec.OomScoreAdj"},
	} {
		r.refused(http.StatusBadRequest, tc.field, http.MethodPost, "/services/create", tc.body)
	}
	name := uniqueName("later")
	r.do(http.StatusCreated, http.MethodPost, "/services/create", `{"Name":"`+name+`","TaskTemplate":{"ContainerSpec":{"Image":"busybox",`+
		`"Init":false,"DNSConfig":{},"Isolation":"default","Privileges":null,"Sysctls":{},"CapabilityAdd":null,"Secrets":[],"Ulimits":null,`+
		`"OomScoreAdj":0},"Runtime":"container","ForceUpdate":0,"Placement":{"Platforms":[{"Architecture":"amd64"}]},`+
		`"Resources":{"Limits":{"Pids":0},"Reservations":{}}},"Mode":{"Replicated":{"Replicas":0}},`+
		`"UpdateConfig":{"Parallelism":1,"Monitor":5000000000,"MaxFailureRatio":0,"Order":"stop-first","FailureAction":"pause"},`+
		`"RollbackConfig":{"Parallelism":1},"EndpointSpec":{"Mode":"vip"}}`)
	r.do(http.StatusOK, http.MethodDelete, "/services/"+name, "")
}

// TestTooLong: SwarmKit's log takes no more, and the update after it would fail only then.
func TestTooLong(t *testing.T) {
	r := newRig(t)
	s := plainService(uniqueName("long"))
	for range 10 {
		s.TaskTemplate.ContainerSpec.Args = append(s.TaskTemplate.ContainerSpec.Args, strings.Repeat("x", 50_000))
	}
	s.Mode = types.ServiceMode{Replicated: &types.ReplicatedMode{Replicas: new(uint64(0))}}
	id := r.service(s)
	for range 2 {
		r.changeService(id, func(s *types.ServiceSpec) { s.TaskTemplate.ForceUpdate++ })
	}
	s.Name, s.TaskTemplate.ContainerSpec.Args = uniqueName("longer"), append(s.TaskTemplate.ContainerSpec.Args, strings.Repeat("x", 50_000))
	r.refused(http.StatusBadRequest, "the body is too long", http.MethodPost, "/services/create", encode(t, s))
}

// TestDefaultsThatManagersHave: what a client leaves open is not written into its specification.
func TestDefaultsThatManagersHave(t *testing.T) {
	r := newRig(t)
	id := r.service(plainService(uniqueName("bare")))
	s := get[types.Service](r, "/services/"+id)
	if s.Spec.TaskTemplate.RestartPolicy != nil || s.Spec.UpdateConfig != nil || *s.Spec.Mode.Replicated.Replicas != 1 {
		t.Errorf("%+v", s.Spec)
	}
	if s.CreatedAt.IsZero() || time.Since(s.CreatedAt) > time.Hour || s.Version.Index == 0 || s.UpdateStatus != nil {
		t.Errorf("%+v", s)
	}
	tasks := r.running(id, 1)
	// Nothing changes the service now but this: it is the client's version that is too old.
	r.refused(http.StatusInternalServerError, "update out of sequence", http.MethodPost, "/services/"+id+"/update?version=1", encode(t, s.Spec))
	if tasks[0].Slot != 1 || tasks[0].DesiredState != "running" || tasks[0].Status.Message == "" || tasks[0].Status.Timestamp.IsZero() {
		t.Errorf("%+v", tasks[0])
	}
}
