package ocispec

import (
	"encoding/json"
	"slices"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"moss/engine/container"
	"moss/engine/fault"
)

// process makes the process object of an exec in a container of JSON settings.
func process(t *testing.T, config, host string, change func(*Exec)) specs.Process {
	t.Helper()
	in := Exec{ID: testID, Spec: newSpec(t, config, host), HostName: "machine", User: container.UserIDs{Home: "/root"}, Args: []string{"ls", "-l"}}
	if change != nil {
		change(&in)
	}
	raw, err := newBuilder(t, Options{Nofile: 4096}).Process(in)
	if err != nil {
		t.Fatal(err)
	}
	var p specs.Process
	if err := json.Unmarshal(raw, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestProcess(t *testing.T) {
	p := process(t, `{"Cmd":["sh"],"Tty":true,"Env":["A=1"],"WorkingDir":"/srv"}`, `{"ConsoleSize":[24,80]}`, nil)
	if !slices.Equal(p.Args, []string{"ls", "-l"}) || p.Terminal || p.ConsoleSize != nil || p.Cwd != "/srv" {
		t.Errorf("process = %+v, want the exec's own command and terminal in the container's folder", p)
	}
	if slices.Contains(p.Env, "TERM=xterm") || !slices.Contains(p.Env, "A=1") || !slices.Contains(p.Env, "HOSTNAME="+testID[:12]) {
		t.Errorf("environment = %q", p.Env)
	}
	if !slices.Equal(p.Capabilities.Effective, p.Capabilities.Bounding) || len(p.Capabilities.Bounding) != 14 || len(p.Capabilities.Ambient) != 0 {
		t.Errorf("capabilities = %+v, want the 14 default ones", p.Capabilities)
	}
	if p = process(t, ``, ``, func(in *Exec) { in.Terminal = true }); !p.Terminal || !slices.Contains(p.Env, "TERM=xterm") {
		t.Errorf("process = %+v, want a terminal", p)
	}
	host := `{"CapDrop":["ALL"],"CapAdd":["CHOWN"],"SecurityOpt":["no-new-privileges"],"Ulimits":[{"Name":"nofile","Soft":100,"Hard":200}]}`
	if p = process(t, ``, host, nil); !slices.Equal(p.Capabilities.Bounding, []string{"CAP_CHOWN"}) || !p.NoNewPrivileges {
		t.Errorf("process = %+v, want the container's capabilities and no_new_privileges", p)
	}
	if len(p.Rlimits) != 1 || p.Rlimits[0].Soft != 100 {
		t.Errorf("rlimits = %+v, want the container's", p.Rlimits)
	}
	spec := newSpec(t, ``, host)
	if p = process(t, ``, host, func(in *Exec) { in.Privileged, in.Spec = true, spec }); len(p.Capabilities.Effective) != len(container.Capabilities()) {
		t.Errorf("capabilities of a privileged exec = %v, want all", p.Capabilities.Effective)
	}
	if spec.Host.Privileged || slices.Equal(spec.Args, p.Args) {
		t.Error("the exec has changed the container's spec")
	}
	web := container.UserIDs{UID: 33, GID: 7, Additional: []uint32{50}, Home: "/web"}
	p = process(t, ``, ``, func(in *Exec) { in.User = web })
	if p.User.UID != 33 || p.User.GID != 7 || !slices.Equal(p.User.AdditionalGids, []uint32{7, 50}) ||
		!slices.Contains(p.Env, "HOME=/web") || len(p.Capabilities.Effective) != 0 {
		t.Errorf("process of a user = %+v", p)
	}
}

// TestEnvironmentOfAProcess: an entry without "=" takes a variable away, a default one too, and an empty HOME has its default.
func TestEnvironmentOfAProcess(t *testing.T) {
	const config = `{"Env":["A=1","B=2","C","HOSTNAME","HOME="]}`
	for _, tc := range []struct {
		env, has, hasNot []string
	}{
		{nil, []string{"A=1", "B=2", "HOME=/root", "PATH=" + defaultPath}, []string{"C", "HOSTNAME", "HOME="}},
		{
			[]string{"A=3", "B", "C=4", "HOSTNAME=mine", "D=", "PATH"},
			[]string{"A=3", "C=4", "HOSTNAME=mine", "D="},
			[]string{"A=1", "B", "B=2", "PATH=" + defaultPath},
		},
		{[]string{"HOME=/tmp"}, []string{"HOME=/tmp"}, []string{"HOME=/root"}},
		{[]string{"HOME=/tmp", "HOME="}, []string{"HOME=/root"}, []string{"HOME=", "HOME=/tmp"}},
		{[]string{"HOME"}, []string{"HOME=/root"}, []string{"HOME"}},
	} {
		got := process(t, config, ``, func(in *Exec) { in.Env = tc.env }).Env
		for _, entry := range tc.has {
			if !slices.Contains(got, entry) {
				t.Errorf("environment with %q = %q, want %q in it", tc.env, got, entry)
			}
		}
		for _, entry := range tc.hasNot {
			if slices.Contains(got, entry) {
				t.Errorf("environment with %q = %q, want no %q in it", tc.env, got, entry)
			}
		}
	}
}

func TestProcessOfASingleID(t *testing.T) {
	b := newBuilder(t, Options{SingleID: true})
	in := Exec{ID: testID, Spec: newSpec(t, ``, ``), Args: []string{"ls"}}
	raw, err := b.Process(in)
	if err != nil {
		t.Fatal(err)
	}
	var p specs.Process
	if err := json.Unmarshal(raw, &p); err != nil || len(p.User.AdditionalGids) != 0 {
		t.Errorf("process = %s, %v, want no groups", raw, err)
	}
	in.User.UID = 33
	if _, err := b.Process(in); !fault.Is(err, fault.Unsupported) {
		t.Errorf("Process of another user = %v, want unsupported", err)
	}
}
