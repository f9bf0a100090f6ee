package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"moss/api/client/clienttest"
)

func TestLastLines(t *testing.T) {
	long := strings.Repeat("x", 100<<10)
	for _, tc := range []struct {
		name, text string
		lines      int
		want       string
	}{
		{"all", "a\nb\n", -1, "a\nb\n"},
		{"none", "a\nb\n", 0, ""},
		{"none of an open line", "a\nb", 0, ""},
		{"one", "a\nb\n", 1, "b\n"},
		{"one, open", "a\nb", 1, "b"},
		{"two, open", "a\nb\nc", 2, "b\nc"},
		{"more than there are", "a\nb\n", 9, "a\nb\n"},
		{"empty", "", 2, ""},
		{"empty lines", "\n\n\n", 2, "\n\n"},
		{"longer than a block", "a\n" + long + "\nb\n", 2, long + "\nb\n"},
	} {
		path := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		at, err := lastLines(file, tc.lines)
		if err != nil || tc.text[at:] != tc.want {
			t.Errorf("%s: the last %d lines begin at %d, %v", tc.name, tc.lines, at, err)
		}
		_ = file.Close()
	}
}

// TestEngineCommandsAreForTheDefaultOne: they touch no engine at another host.
func TestEngineCommandsAreForTheDefaultOne(t *testing.T) {
	engine := clienttest.New(t)
	for _, verb := range []string{"start", "stop", "status", "logs", "reset --force"} {
		_, stderr, code := moss(t, engine, "", append([]string{"system"}, strings.Fields(verb)...)...)
		if code != exitFailed || !strings.Contains(stderr, "--host names the engine at "+engine.Host()) || len(engine.Requests()) > 0 {
			t.Errorf("system %s: %q, %d after %q", verb, stderr, code, engine.Requests())
		}
		_, stderr, code = mossAt(t, nil, map[string]string{"DOCKER_HOST": engine.Host()}, "", append([]string{"system"}, strings.Fields(verb)...)...)
		if code != exitFailed || !strings.Contains(stderr, "DOCKER_HOST names the engine at ") {
			t.Errorf("system %s with DOCKER_HOST: %q, %d", verb, stderr, code)
		}
	}
}
