package main

import (
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"moss/api/client/clienttest"
)

func TestDebug(t *testing.T) {
	engine := clienttest.New(t)
	for _, name := range []string{"profile", "heap", "trace"} {
		engine.Override["GET /debug/pprof/"+name] = answer("data of " + name)
	}
	t.Chdir(t.TempDir())
	for _, tc := range []struct{ args, file, request, stdout string }{
		{"pprof", "moss-profile.pprof", "profile", "moss-profile.pprof: read it with 'go tool pprof moss-profile.pprof'\n"},
		{"pprof heap", "moss-heap.pprof", "heap", "moss-heap.pprof: read it with 'go tool pprof moss-heap.pprof'\n"},
		{"pprof --seconds 3 -o cpu", "cpu", "profile?seconds=3", "cpu: read it with 'go tool pprof cpu'\n"},
		{"trace --seconds 2", "moss.trace", "trace?seconds=2", "moss.trace: read it with 'go tool trace moss.trace'\n"},
		{"pprof heap -o -", "", "heap", "data of heap"},
		{"trace -o -", "", "trace", "data of trace"},
	} {
		stdout, stderr, code := moss(t, engine, "", strings.Fields("debug "+tc.args)...)
		if stdout != tc.stdout || stderr != "" || code != 0 || !slices.Contains(engine.Requests(), "GET /debug/pprof/"+tc.request) {
			t.Errorf("moss debug %s: %q, %q, %d, want %q and %s among %q", tc.args, stdout, stderr, code, tc.stdout, tc.request, engine.Requests())
		}
		if tc.file == "" {
			continue
		}
		name, _, _ := strings.Cut(tc.request, "?")
		if raw, err := os.ReadFile(tc.file); err != nil || string(raw) != "data of "+name {
			t.Errorf("moss debug %s: the file holds %q, %v", tc.args, raw, err)
		}
		if info, err := os.Stat(tc.file); err != nil || info.Mode() != 0o600 {
			t.Errorf("moss debug %s: the file is %v, %v, want mode 0600", tc.args, info.Mode(), err)
		}
	}
}

// TestDebugRefused looks that a refusal is shown and leaves no file.
func TestDebugRefused(t *testing.T) {
	engine := clienttest.New(t)
	engine.Override["GET /debug/pprof/heap"] = func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"message":"profiles are off: debug-profiles"}`)
	}
	dir := t.TempDir()
	t.Chdir(dir)
	for _, tc := range []struct {
		args, says string
		code       int
	}{
		{"pprof heap", "profiles are off: debug-profiles", exitFailed},
		{"pprof nonsense", "want one of profile, heap", exitEngine},
		{"pprof trace", "want one of profile, heap", exitEngine},
		{"pprof heap mutex", "at most one argument", exitEngine},
	} {
		stdout, stderr, code := moss(t, engine, "", strings.Fields("debug "+tc.args)...)
		if stdout != "" || !strings.Contains(stderr, tc.says) || code != tc.code {
			t.Errorf("moss debug %s: %q, %q, %d, want %q and %d", tc.args, stdout, stderr, code, tc.says, tc.code)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v, want nothing", left, err)
	}
}

func TestCompleteProfiles(t *testing.T) {
	engine := clienttest.New(t)
	for args, want := range map[string]string{
		"pprof m":      "mutex\n:4\n",
		"pprof heap m": ":4\n",
		"tr":           "trace\t",
	} {
		if stdout, _, _ := moss(t, engine, "", strings.Fields("__complete debug "+args)...); !strings.HasPrefix(stdout, want) {
			t.Errorf("completion of debug %s: %q, want %q", args, stdout, want)
		}
	}
}
