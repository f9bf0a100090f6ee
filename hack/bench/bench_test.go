package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestQuantile(t *testing.T) {
	for _, tc := range []struct {
		name   string
		values series
		q      float64
		want   float64
	}{
		{"one", series{4}, 0.9, 4},
		{"median of odd", series{3, 1, 2}, 0.5, 2},
		{"median of even", series{4, 1, 2, 3}, 0.5, 2.5},
		{"p90", series{10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0}, 0.9, 9},
		{"highest", series{1, 2, 3}, 1, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.values.quantile(tc.q); got != tc.want {
				t.Errorf("%v.quantile(%g) = %g, want %g", tc.values, tc.q, got, tc.want)
			}
		})
	}
	if got := (series{}).median(); !math.IsNaN(got) {
		t.Errorf("median of nothing = %g, want NaN", got)
	}
}

func TestFamilyFindsWhatLostItsParent(t *testing.T) {
	all := []process{
		{pid: 1, parent: 0, userNS: "host"},
		{pid: 10, parent: 1, name: "mossd", userNS: "host"},
		{pid: 11, parent: 10, name: "child", userNS: "inner"},
		{pid: 12, parent: 1, name: "shim", userNS: "inner"},
		{pid: 13, parent: 12, name: "container", userNS: "deeper"},
		{pid: 20, parent: 1, name: "other", userNS: "host"},
		{pid: 21, parent: 20, name: "another engine's", userNS: "elsewhere"},
		{pid: 22, parent: 1, name: "unreadable"},
	}
	found := engineProcesses(all, 10, "host")
	got := make([]int, len(found))
	for i, p := range found {
		got[i] = p.pid
	}
	if want := []int{10, 11, 12, 13}; !slices.Equal(got, want) {
		t.Errorf("family = %v, want %v", got, want)
	}
}

func TestStrangersAreWhatIsNotToBeThere(t *testing.T) {
	all := []process{
		{pid: 1, name: "bench"},
		{pid: 2, parent: 1, name: "bench"},
		{pid: 3, parent: 2, name: "docker-registry"},
		{pid: 4, parent: 1, name: "podman pause"},
		{pid: 5, parent: 1, name: "conmon", ended: true},
	}
	if got, want := otherProcesses(all, []int{1, 2, 3}), all[3:4]; !slices.Equal(got, want) {
		t.Errorf("strangers = %+v, want %+v", got, want)
	}
}

func TestMemoryIsNotMeasuredBesideAnotherEngine(t *testing.T) {
	b := &bench{running: []*instance{{name: "moss"}}}
	if err := b.ensureAlone(t.Context()); err == nil {
		t.Error("alone with an engine that runs: got no error")
	}
}

func TestHasEnded(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{&os.PathError{Op: "open", Err: unix.ESRCH}, true},
		{&os.PathError{Op: "open", Err: unix.ENOENT}, true},
		{&os.PathError{Op: "open", Err: unix.EACCES}, false},
	} {
		if got := hasEnded(tc.err); got != tc.want {
			t.Errorf("hasEnded(%v) = %t, want %t", tc.err, got, tc.want)
		}
	}
}

func TestParsePeak(t *testing.T) {
	for _, tc := range []struct {
		status string
		want   float64
		bad    bool
	}{
		{status: "Name:\tmossd\nVmHWM:\t  125000 kB\n", want: 128},
		{status: "Name:\tkthreadd\n"},
		{status: "VmHWM:\tmuch kB\n", bad: true},
	} {
		if got, err := parsePeak(tc.status); (err != nil) != tc.bad || got != tc.want {
			t.Errorf("parsePeak(%q) = %g, %v; want %g, error %t", tc.status, got, err, tc.want, tc.bad)
		}
	}
}

func TestMisses(t *testing.T) {
	for _, tc := range []struct {
		line row
		got  float64
		want bool
	}{
		{row{target: 5}, 5, false},
		{row{target: 5}, 6, true},
		{row{target: 5, more: true}, 6, false},
		{row{target: 5, more: true}, 4, true},
		{row{}, 6, false},
		{row{target: 5}, math.NaN(), false},
	} {
		if got := tc.line.misses(tc.got); got != tc.want {
			t.Errorf("%+v misses %g = %t, want %t", tc.line, tc.got, got, tc.want)
		}
	}
}

// TestArchives reads what is sent to the engines.
func TestArchives(t *testing.T) {
	small, err := treeTar(250, func() []byte { return []byte("content") })
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		archive io.Reader
		files   int
		size    int64
	}{
		"big": {bigTar(3 << 20), 1, 3 << 20}, "small": {bytes.NewReader(small), 250, 1750},
	} {
		files, size := 0, int64(0)
		for r := tar.NewReader(tc.archive); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			n, err := io.Copy(io.Discard, r)
			if err != nil {
				t.Fatalf("%s: %s: %v", name, h.Name, err)
			}
			if h.Typeflag == tar.TypeReg {
				files, size = files+1, size+n
			}
		}
		if files != tc.files || size != tc.size {
			t.Errorf("%s: %d files of %d bytes, want %d of %d", name, files, size, tc.files, tc.size)
		}
	}
}

func TestParseStat(t *testing.T) {
	for _, tc := range []struct {
		stat string
		want process
		bad  bool
	}{
		{stat: "7 (mossd) S 3 7 7", want: process{pid: 7, parent: 3, name: "mossd"}},
		{stat: "7 (a) b (c) S 3 7", want: process{pid: 7, parent: 3, name: "a) b (c"}},
		{stat: "7 (mossd) Z 3 7", want: process{pid: 7, parent: 3, name: "mossd", ended: true}},
		{stat: "7 mossd S 3", bad: true},
		{stat: "7 (mossd)", bad: true},
		{stat: "x (mossd) S 3", bad: true},
		{stat: ")(", bad: true},
	} {
		got, err := parseStat(tc.stat)
		if (err != nil) != tc.bad || got != tc.want {
			t.Errorf("parseStat(%q) = %+v, %v; want %+v, error %t", tc.stat, got, err, tc.want, tc.bad)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add("7 (a) b (c) S 3 7")
	f.Fuzz(func(t *testing.T, stat string) {
		if p, err := parseStat(stat); err == nil && !strings.Contains(stat, "("+p.name+")") {
			t.Errorf("parseStat(%q): name %q is not in it", stat, p.name)
		}
	})
}

func TestParsePSS(t *testing.T) {
	got, err := parsePSS([]byte("00400000-7fff rollup\nRss:   4096 kB\nPss:    2048 kB\nPss_Anon:  1 kB\n"))
	if err != nil || got != 2 {
		t.Errorf("parsePSS = %g, %v; want 2 MiB", got, err)
	}
	if _, err := parsePSS([]byte("Pss: many kB\n")); err == nil {
		t.Error("parsePSS of a word: got no error")
	}
}

func TestImageTarIsWhole(t *testing.T) {
	busybox := filepath.Join(t.TempDir(), "busybox")
	if err := os.WriteFile(busybox, []byte("binary"), 0o600); err != nil {
		t.Fatal(err)
	}
	raw, err := imageTar(busybox)
	if err != nil {
		t.Fatal(err)
	}
	if end := raw[len(raw)-1024:]; !bytes.Equal(end, make([]byte, 1024)) {
		t.Errorf("the archive has no end")
	}
	var names []string
	for r := tar.NewReader(bytes.NewReader(raw)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
	for _, want := range []string{"bin/busybox", "bin/true", "bin/sleep", "etc/passwd"} {
		if !slices.Contains(names, want) {
			t.Errorf("the archive has no %s: %v", want, names)
		}
	}
}

func TestReportNamesWhatWasMissed(t *testing.T) {
	r := newReport(options{rounds: 3})
	r.add("moss", "none", samples{"sum": 41})
	r.add("moss", "default", samples{"sum": 54})
	r.add("podman", "none", samples{"sum": 82})
	r.add("floor", "crun-bpf", samples{"run": 10.25})
	if got, want := r.missedTargets(), []string{"none sum"}; !slices.Equal(got, want) {
		t.Errorf("missed = %v, want %v", got, want)
	}
	var out strings.Builder
	if err := r.writeTable(&out); err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(out.String(), "\n") {
		if !strings.HasPrefix(line, "none sum") {
			continue
		}
		if got, want := strings.Fields(line), []string{"none", "sum", "ms", "41", "1", "41", "41", "82", "1", "82", "82", "10.25", "0.5", "4", "40", "MISSED"}; !slices.Equal(got, want) {
			t.Errorf("row = %q, want %q", got, want)
		}
		return
	}
	t.Errorf("no row for none sum in\n%s", out.String())
}

func TestSaveWritesEveryValue(t *testing.T) {
	t.Setenv(envOut, "")
	r := newReport(options{rounds: 1})
	r.add("moss", "run", samples{"wall": 33})
	r.add("moss", "run", samples{"wall": 35})
	path := filepath.Join(t.TempDir(), "out.json")
	if err := r.save(path); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var back report
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	if got, want := back.seriesOf("moss", "run", "wall"), (series{33, 35}); !slices.Equal(got, want) {
		t.Errorf("values = %v, want %v", got, want)
	}
}

func TestParseRefuses(t *testing.T) {
	bin := t.TempDir()
	for _, name := range programNames() {
		if err := os.WriteFile(filepath.Join(bin, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		name string
		args []string
		bad  bool
	}{
		{"nothing", nil, false},
		{"some metrics", []string{"--only", "none,memory"}, false},
		{"unknown metric", []string{"--only", "none,nine"}, true},
		{"rounds below zero", []string{"--rounds", "-1"}, true},
		{"word", []string{"quick"}, true},
		{"no such build", []string{"--beside", filepath.Join(bin, "nothing")}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := parseOptions(append([]string{"--bin", bin}, tc.args...), io.Discard)
			if (err != nil) != tc.bad {
				t.Errorf("parse(%q): %v, want error: %t", tc.args, err, tc.bad)
			}
		})
	}
}
