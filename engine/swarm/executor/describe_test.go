package executor

import (
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"testing"

	"github.com/moby/swarmkit/v2/agent/exec"
	"github.com/moby/swarmkit/v2/api"
)

func TestDescribe(t *testing.T) {
	r := newRig(t, 0)
	want := &api.NodeDescription{
		Hostname: "alpha", Platform: &api.Platform{Architecture: "x86_64", OS: "linux"},
		Resources: &api.Resources{NanoCPUs: 2e9, MemoryBytes: 4 << 30},
		Engine: &api.EngineDescription{
			EngineVersion: "1.2", Labels: map[string]string{"disk": "fast", "bare": ""}, Plugins: []api.PluginDescription{
				{Type: "Log", Name: "journald"},
				{Type: "Log", Name: "syslog"},
				{Type: "Network", Name: "bridge"},
				{Type: "Network", Name: "null"},
				{Type: "Volume", Name: "local"},
			},
		},
	}
	for _, when := range []string{"with the engine", "without the engine"} {
		if got, err := r.x.Describe(t.Context()); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("Describe %s = %v, %v, want %v", when, got, err, want)
		}
		r.leave()
	}
}

// TestDescribeWithoutAnswer gives what SwarmKit cannot do without.
func TestDescribeWithoutAnswer(t *testing.T) {
	r := newRig(t, 0)
	r.before = func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusInternalServerError)
		return true
	}
	got, err := r.x.Describe(t.Context())
	host, _ := os.Hostname()
	if err != nil || got.Hostname != host || got.Platform.Architecture != runtime.GOARCH || got.Resources == nil || got.Engine == nil {
		t.Errorf("Describe = %v, %v, want the host %s and its platform", got, err, host)
	}
	r.set(func() { r.before = nil })
	if got, err := r.x.Describe(t.Context()); err != nil || got.Hostname != "alpha" {
		t.Errorf("Describe with the engine = %v, %v, want alpha", got, err)
	}
}

// TestDescribeWaits for the first answer.
func TestDescribeWaits(t *testing.T) {
	r := newRig(t, 0)
	away := true
	r.before = func(http.ResponseWriter, *http.Request) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		if away {
			away = false
			panic(http.ErrAbortHandler)
		}
		return false
	}
	if got, err := r.x.Describe(t.Context()); err != nil || got.Hostname != "alpha" {
		t.Errorf("Describe = %v, %v, want alpha", got, err)
	}
}

// TestNodeOfTemplates is as the manager knows it, otherwise as it was described.
func TestNodeOfTemplates(t *testing.T) {
	r := newRig(t, 0)
	if got := r.x.describedNode(); got != nil {
		t.Errorf("node before all = %v, want none", got)
	}
	_, _ = r.x.Describe(t.Context())
	if got := r.x.describedNode(); got.Hostname != "alpha" {
		t.Errorf("node = %v, want alpha", got)
	}
	_ = r.x.Configure(t.Context(), &api.Node{Description: &api.NodeDescription{Hostname: "beta"}})
	if got := r.x.describedNode(); got.Hostname != "beta" || got.Platform == nil {
		t.Errorf("node = %v, want beta with a platform", got)
	}
	j := r.newJob(func(_ *api.Task, c *api.ContainerSpec) { c.Hostname = "{{.Node.Hostname}}" })
	j.advance(api.TaskStateReady)
	if got := r.one().Config.Hostname; got != "beta" {
		t.Errorf("host name %q, want beta", got)
	}
}

func TestBounds(t *testing.T) {
	for _, tc := range []struct {
		name  string
		self  string
		files map[string]string
		want  bounds
	}{
		{"none", "0::/a/b\n", map[string]string{"a/b/memory.max": "max\n", "a/cpu.max": "max 100000\n"}, bounds{}},
		{"own", "0::/a/b\n", map[string]string{"a/b/memory.max": "100\n", "a/b/cpu.max": "150000 100000\n"}, bounds{15e8, 100}},
		{"above", "0::/a/b\n", map[string]string{"a/memory.max": "100\n", "memory.max": "200", "a/b/memory.max": "300"}, bounds{0, 100}},
		{"of the root", "0::/a/b\n", map[string]string{"memory.max": "7", "cpu.max": "1000 2000"}, bounds{5e8, 7}},
		{"beside", "0::/a/b\n", map[string]string{"a/c/memory.max": "1"}, bounds{}},
		{"in the root", "1:name=x:/\n0::/\n", map[string]string{"memory.max": "9"}, bounds{0, 9}},
		{"cgroup v1", "1:memory:/a\n", map[string]string{"a/memory.max": "1", "memory.max": "1"}, bounds{}},
		{"outside of what is seen", "0::/../..\n", map[string]string{"memory.max": "8"}, bounds{0, 8}},
		{"nonsense", "0::/\n", map[string]string{"memory.max": "x", "cpu.max": "1 0"}, bounds{}},
		{"nothing", "", nil, bounds{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := t.TempDir()
			if tc.files == nil {
				tc.files = map[string]string{}
			}
			tc.files["self"] = tc.self
			for name, text := range tc.files {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := readBounds(root, filepath.Join(root, "self")); got != tc.want {
				t.Errorf("readBounds = %+v, want %+v", got, tc.want)
			}
		})
	}
	if got := readBounds(t.TempDir(), "/nowhere"); got != (bounds{}) {
		t.Errorf("readBounds without a process = %+v, want none", got)
	}
}

// TestBoundsLowerTheNode and do not raise it.
func TestBoundsLowerTheNode(t *testing.T) {
	r := newRig(t, 0)
	for _, tc := range []struct {
		memory, cpu string
		want        api.Resources
	}{
		{"1048576", "50000 100000", api.Resources{NanoCPUs: 5e8, MemoryBytes: 1 << 20}},
		{"1099511627776", "900000 100000", api.Resources{NanoCPUs: 2e9, MemoryBytes: 4 << 30}},
	} {
		// This process's own group may be any: the root's bounds are above all.
		for name, text := range map[string]string{"memory.max": tc.memory, "cpu.max": tc.cpu} {
			if err := os.WriteFile(filepath.Join(r.x.opt.CgroupRoot, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r.x.opt.CgroupSelf = filepath.Join(t.TempDir(), "self")
		if err := os.WriteFile(r.x.opt.CgroupSelf, []byte("0::/x\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := r.x.Describe(t.Context())
		if err != nil || !reflect.DeepEqual(*got.Resources, tc.want) {
			t.Errorf("resources with memory.max %s and cpu.max %s = %v, %v, want %v", tc.memory, tc.cpu, got.Resources, err, tc.want)
		}
	}
}

func TestNew(t *testing.T) {
	for name, opt := range map[string]Options{
		"no socket": {}, "a relative socket": {Socket: "here"}, "a relative folder": {Socket: "/x", HostFolders: []string{"here"}},
	} {
		if x, err := New(opt); err == nil {
			t.Errorf("New with %s takes it", name)
			_ = x.Close()
		}
	}
}

// TestOtherRuntimes have no controller here, and nothing needs keys.
func TestOtherRuntimes(t *testing.T) {
	r := newRig(t, 0)
	task := &api.Task{Spec: api.TaskSpec{Runtime: &api.TaskSpec_Attachment{Attachment: &api.NetworkAttachmentSpec{}}}}
	if _, err := r.x.Controller(task); err != exec.ErrRuntimeUnsupported { //nolint:errorlint // bare
		t.Errorf("Controller = %v, want %v", err, exec.ErrRuntimeUnsupported)
	}
	if err := r.x.SetNetworkBootstrapKeys([]*api.EncryptionKey{{}}); err != nil {
		t.Errorf("SetNetworkBootstrapKeys = %v", err)
	}
	if err := r.newJob(nil).ctlr.Update(t.Context(), newTask(nil)); err != nil {
		t.Errorf("Update = %v", err)
	}
}
