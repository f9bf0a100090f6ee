package system

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"

	"moss/engine/fault"
)

func TestInfo(t *testing.T) {
	s, err := New(Facts{ID: "abc", Version: "1.2.3", DataRoot: "/data", Warnings: []string{"no limits"}}, Counters{
		Containers: func(context.Context) (Counts, error) { return Counts{Running: 2, Paused: 1, Stopped: 4}, nil },
		Images:     func(context.Context) (int, error) { return 5, nil },
		Listeners:  func() int { return 3 },
		Registries: func() []Registry { return []Registry{{Name: "reg.example"}} },
	})
	if err != nil {
		t.Fatal(err)
	}
	info, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.Counts.Total() != 7 || info.Images != 5 || info.Listeners != 3 ||
		len(info.Registries) != 1 || info.Registries[0].Name != "reg.example" {
		t.Errorf("counts = %+v, %d images, %d listeners, want 7 containers, 5, 3", info.Counts, info.Images, info.Listeners)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if info.Name != host || info.CPUs != runtime.NumCPU() || info.MemTotal < 1<<20 || info.Files < 3 || info.Goroutines < 1 {
		t.Errorf("Info = %+v, want this machine", info)
	}
	if info.KernelVersion == "" || info.OperatingSystem == "" || info.ID != "abc" || info.DataRoot != "/data" {
		t.Errorf("Info = %+v, want the facts and the kernel", info)
	}
	if v := s.Version(); v.Version != "1.2.3" || v.KernelVersion != info.KernelVersion || v.GoVersion != runtime.Version() {
		t.Errorf("Version = %+v", v)
	}
}

func TestInfoErrors(t *testing.T) {
	broken := errors.New("broken")
	for name, counters := range map[string]Counters{
		"containers": {Containers: func(context.Context) (Counts, error) { return Counts{}, broken }},
		"images":     {Images: func(context.Context) (int, error) { return 0, broken }},
	} {
		s, err := New(Facts{ID: "a", Version: "1"}, counters)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Info(t.Context()); !errors.Is(err, broken) || !strings.Contains(err.Error(), name) {
			t.Errorf("Info = %v, want %v about %s", err, broken, name)
		}
	}
	if _, err := New(Facts{Version: "1"}, Counters{}); !fault.Is(err, fault.Invalid) {
		t.Errorf("New without an id = %v, want an invalid fault", err)
	}
}

func TestParseOSRelease(t *testing.T) {
	for _, tc := range []struct{ name, in, want, version string }{
		{"pretty", "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nVERSION_ID=\"12\"\n", "Debian GNU/Linux 12 (bookworm)", "12"},
		{"no quotes", "PRETTY_NAME=Arch\n", "Arch", ""},
		{"single quotes", "PRETTY_NAME='A \\ B'", "A \\ B", ""},
		{"escapes", `PRETTY_NAME="a \"b\" \$c"`, `a "b" $c`, ""},
		{"name and version", "NAME=Void\nVERSION=1\n", "Void 1", ""},
		{"comment", "#PRETTY_NAME=x\n", "", ""},
		{"one quote", `PRETTY_NAME="`, `"`, ""},
		{"empty", "", "", ""},
	} {
		if got := parseOSRelease([]byte(tc.in)); got.name != tc.want || got.version != tc.version {
			t.Errorf("%s: parseOSRelease(%q) = %q, want %q of version %q", tc.name, tc.in, got, tc.want, tc.version)
		}
	}
}

func TestParseMemTotal(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want int64
		ok   bool
	}{
		{"MemTotal:       16000 kB\nMemFree: 1 kB\n", 16000 << 10, true},
		{"MemFree: 1 kB\nMemTotal: 2 kB", 2 << 10, true},
		{"MemTotal: 2 MB", 0, false},
		{"MemTotal: -2 kB", -2 << 10, false},
		{"", 0, false},
	} {
		if got, ok := parseMemTotal([]byte(tc.in)); ok != tc.ok || ok && got != tc.want {
			t.Errorf("parseMemTotal(%q) = %d, %v, want %d, %v", tc.in, got, ok, tc.want, tc.ok)
		}
	}
}

func FuzzHostFiles(f *testing.F) {
	f.Add([]byte("PRETTY_NAME=\"a\\\"\nMemTotal: 3 kB\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		parseOSRelease(raw)
		if n, ok := parseMemTotal(raw); ok && n < 0 {
			t.Fatalf("parseMemTotal(%q) = %d", raw, n)
		}
	})
}
