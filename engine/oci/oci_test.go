package oci

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"moss/engine/fault"
	"moss/engine/task"
)

func TestLaunchFault(t *testing.T) {
	exit := &exec.ExitError{}
	for _, tc := range []struct {
		name, command, msg, want string
		kind                     fault.Kind
	}{
		{
			name: "crun not in PATH", command: "nope", msg: "executable file `nope` not found in $PATH: No such file or directory",
			want: `Container command 'nope' not found or does not exist: OCI runtime create failed: crun: exec: "nope": executable file not found in $PATH`, kind: fault.KindNotFound,
		},
		{
			name: "crun no such path", command: "/nope", msg: "executable file `/nope` not found in $PATH: No such file or directory",
			want: `Container command '/nope' not found or does not exist: OCI runtime create failed: crun: exec: "/nope": stat /nope: no such file or directory`, kind: fault.KindNotFound,
		},
		{
			name: "runc not in PATH", command: "nope", msg: `runc run failed: unable to start container process: exec: "nope": executable file not found in $PATH`,
			want: `Container command 'nope' not found or does not exist: OCI runtime create failed: crun: exec: "nope": executable file not found in $PATH`, kind: fault.KindNotFound,
		},
		{
			name: "runc no such path", command: "/nope", msg: `runc run failed: unable to start container process: exec: "/nope": stat /nope: no such file or directory`,
			want: `Container command '/nope' not found or does not exist: OCI runtime create failed: crun: exec: "/nope": stat /nope: no such file or directory`, kind: fault.KindNotFound,
		},
		{
			name: "not executable", command: "/etc/passwd", msg: "open executable: Permission denied",
			want: `Container command '/etc/passwd' could not be invoked: OCI runtime create failed: crun: exec: "/etc/passwd": permission denied`, kind: fault.KindForbidden,
		},
		{
			name: "folder", command: "/proc", msg: "open executable: Operation not permitted",
			want: `Container command '/proc' could not be invoked: OCI runtime create failed: crun: exec: "/proc": permission denied`, kind: fault.KindForbidden,
		},
		{
			name: "missing mount source", command: "true", msg: "error stat'ing file `/data`: No such file or directory",
			want: "OCI runtime create failed: crun: error stat'ing file `/data`: No such file or directory", kind: fault.KindInternal,
		},
		{
			name: "no message", command: "true", msg: "",
			want: "OCI runtime create failed: crun: ", kind: fault.KindInternal,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var msgs []string
			if tc.msg != "" {
				msgs = []string{tc.msg}
			}
			if tc.name == "no message" {
				exit.ProcessState = &os.ProcessState{}
				tc.want += exit.Error()
			}
			err := launchFault("create", "crun", tc.command, msgs, exit)
			if err.Error() != tc.want || fault.KindOf(err) != tc.kind {
				t.Errorf("launchFault(%q) = %v (kind %d), want %s (kind %d)", tc.msg, err, fault.KindOf(err), tc.want, tc.kind)
			}
		})
	}
}

func TestLaunchNamesTheMissingIDs(t *testing.T) {
	err := launchFault("create", "crun", "true", []string{"cannot setresuid to 70000: Invalid argument"}, &exec.ExitError{})
	if !strings.Contains(err.Error(), "70000: Invalid argument; users go up to") || !strings.Contains(err.Error(), "/etc/subuid") {
		t.Errorf("launchFault = %v, want the files that give more ids", err)
	}
	err = launchFault("create", "crun", "true", []string{"mount `x`: Invalid argument"}, &exec.ExitError{})
	if strings.Contains(err.Error(), "/etc/subuid") {
		t.Errorf("launchFault = %v, want nothing of ids", err)
	}
	users, groups := filepath.Join(t.TempDir(), "users"), filepath.Join(t.TempDir(), "groups")
	if err := errors.Join(os.WriteFile(users, []byte("         0       1000          1\n         1     100000      65536\n"), 0o600),
		os.WriteFile(groups, []byte("         0       1000          1\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if got := lastIDs(users, groups); !strings.HasPrefix(got, "; users go up to 65536 and groups up to 0 here") {
		t.Errorf("lastIDs = %q, want 65536 and 0", got)
	}
	if got := lastIDs(users, filepath.Join(t.TempDir(), "missing")); got != "" {
		t.Errorf("lastIDs without a map = %q, want nothing", got)
	}
}

func TestLaunchWithoutRuntime(t *testing.T) {
	rt := New(task.Runtime{Path: "/no/such/runtime"}, "", nil)
	err := rt.RunDetached(t.Context(), Launch{ID: "x", Dir: t.TempDir(), Log: "runtime.log", PidFile: "pid"})
	if !errors.Is(err, os.ErrNotExist) || fault.KindOf(err) != fault.KindInternal {
		t.Errorf("RunDetached of a missing runtime = %v (kind %d), want a plain error that wraps %v", err, fault.KindOf(err), os.ErrNotExist)
	}
}

func TestParseMessages(t *testing.T) {
	in := `executable file ` + "`nope`" + ` not found in $PATH: No such file or directory
time="2026-11-21T08:34:51Z" level=warning msg="only a warning"
time="2026-11-21T08:34:51Z" level=error msg="runc run failed: exec: \"nope\": executable file not found in $PATH"

time="2026-11-21T08:34:51Z" level=fatal msg=short
`
	want := []string{
		"executable file `nope` not found in $PATH: No such file or directory",
		`runc run failed: exec: "nope": executable file not found in $PATH`, "short",
	}
	if got := parseMessages(in); !slices.Equal(got, want) {
		t.Errorf("parseMessages = %q, want %q", got, want)
	}
	if got := readMessages(filepath.Join(t.TempDir(), "none")); got != nil {
		t.Errorf("messages of a missing file = %q, want none", got)
	}
}

func TestParseVersion(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want Version
	}{
		{"crun version 1.8.1\ncommit: f8a096\nrundir: /run/crun\nspec: 1.0.0\n+SYSTEMD +YAJL\n", Version{"crun", "1.8.1", "f8a096", "1.0.0"}},
		{"runc version 1.1.5+ds1\ncommit: 1.1.5+ds1-1\nspec: 1.0.2-dev\ngo: go1.19.8\n", Version{"runc", "1.1.5+ds1", "1.1.5+ds1-1", "1.0.2-dev"}},
	} {
		if got, err := ParseVersion(tc.in); got != tc.want || err != nil {
			t.Errorf("ParseVersion(%q) = %+v, %v, want %+v", tc.in, got, err, tc.want)
		}
	}
	if v, err := ParseVersion("busybox"); !fault.Is(err, fault.Invalid) {
		t.Errorf("ParseVersion(busybox) = %+v, %v, want an invalid fault", v, err)
	}
}

// runtimes returns the installed runtimes; crun must be there.
func runtimes(t *testing.T) []*Runtime {
	t.Helper()
	var rts []*Runtime
	for _, name := range []string{"crun", "runc"} {
		path, err := exec.LookPath(name)
		if err != nil && name == "crun" {
			t.Fatal("crun is missing: install it (apt-get install crun)")
		}
		if err == nil {
			rts = append(rts, New(task.Runtime{Path: path, Root: t.TempDir()}, "", []string{"PATH=" + os.Getenv("PATH")}))
		}
	}
	return rts
}

func TestAbsentContainer(t *testing.T) {
	for _, rt := range runtimes(t) {
		for _, force := range []bool{false, true} {
			if err := rt.Delete(t.Context(), "absent", force); err != nil {
				t.Errorf("%s: Delete(absent, %v) = %v, want nil", rt.name(), force, err)
			}
		}
		if v, err := rt.Version(t.Context()); err != nil || v.Name != rt.name() {
			t.Errorf("%s: Version = %+v, %v, want the name %s", rt.name(), v, err, rt.name())
		}
	}
}

func TestVerbErrorNamesTheVerb(t *testing.T) {
	rt := New(task.Runtime{Path: "/bin/sh", GlobalArgs: []string{"-c", "echo one >&2; echo two >&2; exit 3"}}, "", nil)
	err := rt.Delete(t.Context(), "x", false)
	if err == nil || err.Error() != "sh delete: one: two" {
		t.Errorf("Delete = %v, want %q", err, "sh delete: one: two")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := rt.Delete(ctx, "x", false); err == nil || !strings.Contains(err.Error(), "sh delete") {
		t.Errorf("Delete with a cancelled context = %v, want an error", err)
	}
}

func FuzzParseVersion(f *testing.F) {
	f.Add("crun version 1.8.1\ncommit: x\n")
	f.Fuzz(func(t *testing.T, in string) {
		v, err := ParseVersion(in)
		if (err == nil) != (v.Name != "" && v.Number != "") {
			t.Fatalf("ParseVersion(%q) = %+v, %v", in, v, err)
		}
	})
}

func FuzzParseMessages(f *testing.F) {
	f.Add(`time="x" level=error msg="x"`)
	f.Fuzz(func(t *testing.T, in string) {
		for _, msg := range parseMessages(in) {
			if msg == "" {
				t.Fatalf("parseMessages(%q) has an empty message", in)
			}
			classifyMessage(msg)
		}
	})
}
