package arg_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"moss/api/types"
	"moss/cmd/moss/arg"
)

// flat writes bindings in a form that a table can hold.
func flat(ports arg.Ports) string {
	var out []string
	for key := range ports.Exposed {
		bindings, published := ports.Bindings[key]
		if !published {
			out = append(out, key)
		}
		for _, b := range bindings {
			out = append(out, fmt.Sprintf("%s<-%s|%s", key, b.HostIP, b.HostPort))
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func TestPublish(t *testing.T) {
	for text, want := range map[string]string{
		"80":                    "80/tcp<-|",
		"8080:80":               "80/tcp<-|8080",
		"8080:80/udp":           "80/udp<-|8080",
		"8080:80/UDP":           "80/udp<-|8080",
		":80":                   "80/tcp<-|",
		"0:80":                  "80/tcp<-|",
		"127.0.0.1:8080:80":     "80/tcp<-127.0.0.1|8080",
		"127.0.0.1::80":         "80/tcp<-127.0.0.1|",
		"[::1]:8080:80":         "80/tcp<-::1|8080",
		"[::1]::80":             "80/tcp<-::1|",
		"8080-8082:80-82":       "80/tcp<-|8080 81/tcp<-|8081 82/tcp<-|8082",
		"80-81":                 "80/tcp<-| 81/tcp<-|",
		"8000-8010:80":          "80/tcp<-|8000-8010",
		"65535:65535":           "65535/tcp<-|65535",
		"":                      "!",
		"0":                     "!",
		"65536":                 "!",
		"8080:":                 "!",
		"x:80":                  "!",
		"80/icmp":               "!",
		"80/tcp/udp":            "!",
		"82-80":                 "!",
		"8080-8081:80-82":       "!",
		"0-3:80-83":             "!",
		"1:2:3":                 "!",
		"127.0.0.1:1:2:3":       "!",
		"::1:8080:80":           "!",
		"[::1:80:80":            "!",
		"[::1]:80":              "!",
		"localhost:8080:80":     "!",
		"-1:80":                 "!",
		"+80":                   "!",
		"8_0":                   "!",
		"[127.0.0.1]:8080:80/x": "!",
	} {
		var ports arg.Ports
		err := ports.Publish(text)
		if want == "!" {
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", text)) {
				t.Errorf("Publish(%q) = %v, want an error that names it (got %s)", text, err, flat(ports))
			}
			continue
		}
		if err != nil || flat(ports) != want {
			t.Errorf("Publish(%q) = %v with %s, want %s", text, err, flat(ports), want)
		}
	}
}

func TestExpose(t *testing.T) {
	var ports arg.Ports
	for _, text := range []string{"53/udp", "80-81"} {
		if err := ports.Expose(text); err != nil {
			t.Errorf("Expose(%q) = %v", text, err)
		}
	}
	if want := "53/udp 80/tcp 81/tcp"; flat(ports) != want {
		t.Errorf("exposed %s, want %s", flat(ports), want)
	}
	if err := ports.Expose("1:2"); err == nil {
		t.Error("Expose(1:2) passes, want an error")
	}
}

func FuzzPublish(f *testing.F) {
	for _, seed := range []string{"80", "127.0.0.1:8080-8081:80-81/udp", "[::1]::80", "a:b:c:d"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var ports arg.Ports
		if ports.Publish(text) != nil {
			return
		}
		if len(ports.Exposed) == 0 || len(ports.Exposed) != len(ports.Bindings) {
			t.Errorf("Publish(%q) exposes %d ports and binds %d", text, len(ports.Exposed), len(ports.Bindings))
		}
	})
}

func TestVolume(t *testing.T) {
	for text, want := range map[string]string{
		"/data":           "anonymous /data",
		"/a:/b":           "/a:/b",
		"/a:/b:ro":        "/a:/b:ro",
		"./a:/b":          "/home/me/a:/b",
		"../a:/b":         "/home/a:/b",
		".:/b":            "/home/me:/b",
		"a/b:/b":          "/home/me/a/b:/b",
		"data:/b":         "data:/b",
		"data:/b:ro,Z":    "data:/b:ro,Z",
		"":                "!",
		"data":            "!",
		"/a:b":            "!",
		"/a:/":            "!",
		"/":               "!",
		"/a:":             "!",
		":/b":             "!",
		"/a:/b:ro:x":      "!",
		"//":              "!",
		"/with space:/ b": "/with space:/ b",
	} {
		var volumes arg.Volumes
		err := volumes.Volume(text, "/home/me")
		all := slices.Clone(volumes.Binds)
		for path := range volumes.Anonymous {
			all = append(all, "anonymous "+path)
		}
		got := strings.Join(all, " ")
		if want == "!" {
			if err == nil {
				t.Errorf("Volume(%q) gives %q, want an error", text, got)
			}
			continue
		}
		if err != nil || got != want {
			t.Errorf("Volume(%q) = %v with %q, want %q", text, err, got, want)
		}
	}
}

func FuzzVolume(f *testing.F) {
	for _, seed := range []string{"/a:/b:ro", "./x:/y", "name:/y", "/z", ":::"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var volumes arg.Volumes
		if volumes.Volume(text, "/home/me") != nil {
			return
		}
		for _, bind := range volumes.Binds {
			parts := strings.Split(bind, ":")
			if len(parts) < 2 || len(parts) > 3 || !strings.HasPrefix(parts[1], "/") {
				t.Errorf("Volume(%q) binds %q", text, bind)
			}
		}
	})
}

func TestTmpfs(t *testing.T) {
	var volumes arg.Volumes
	for _, text := range []string{"/run", "/tmp:size=1m,noexec"} {
		if err := volumes.Tmp(text); err != nil {
			t.Errorf("Tmp(%q) = %v", text, err)
		}
	}
	if want := map[string]string{"/run": "", "/tmp": "size=1m,noexec"}; !reflect.DeepEqual(volumes.Tmpfs, want) {
		t.Errorf("tmpfs %v, want %v", volumes.Tmpfs, want)
	}
	if err := volumes.Tmp("run"); err == nil {
		t.Error("Tmp(run) passes, want an error")
	}
}

func TestBytes(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1": 1, "10b": 10, "1k": 1024, "1K": 1024, "1kb": 1024, "1KiB": 1024, "64m": 64 << 20, "1.5g": 3 << 29,
		"2T": 2 << 40, "1 m": 1 << 20,
		"": -9, "m": -9, "-1": -9, "1x": -9, "1mm": -9, "9999999p": -9, "1..5k": -9, "inf": -9, "1bb": -9, "1e3": -9,
	} {
		got, err := arg.Bytes(text)
		if (want == -9) != (err != nil) || (err == nil && got != want) {
			t.Errorf("Bytes(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	if got, err := arg.Swap("-1"); got != -1 || err != nil {
		t.Errorf("Swap(-1) = %d, %v", got, err)
	}
}

func FuzzBytes(f *testing.F) {
	f.Add("1.5g")
	f.Add("64mib")
	f.Fuzz(func(t *testing.T, text string) {
		if size, err := arg.Bytes(text); err == nil && size < 0 {
			t.Errorf("Bytes(%q) = %d", text, size)
		}
	})
}

func TestCPUs(t *testing.T) {
	for text, want := range map[string]int64{
		"1": 1e9, "1.5": 15e8, "0.01": 1e7, ".5": 5e8, "1.000000001": 1e9 + 1, "0": 0, "0.001": 0, "-1": 0, "x": 0, "": 0, "1/2": 0,
		"1e3": 0, "99999999999": 0, "1.0000000001": 0,
	} {
		if got, err := arg.CPUs(text); (want == 0) != (err != nil) || got != want {
			t.Errorf("CPUs(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
}

func environment(name string) (string, bool) {
	value, ok := map[string]string{"SET": "yes", "EMPTY": ""}[name]
	return value, ok
}

func TestEnvFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "env")
	text := "\uFEFF# comment\n\nA=1\r\n  B=two words \nSET\nEMPTY\nUNSET\nC=\nD==#\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := arg.EnvFile(path, environment)
	want := []string{"A=1", "B=two words ", "SET=yes", "EMPTY=", "C=", "D==#"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("EnvFile = %q, %v, want %q", got, err, want)
	}
	for _, text := range []string{"=x", "A B=1", "A=\xff", "\x00=1\n=\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := arg.EnvFile(path, environment); err == nil || !strings.Contains(err.Error(), path+":") {
			t.Errorf("EnvFile of %q = %q, %v, want an error that names the line", text, got, err)
		}
	}
}

func TestLabels(t *testing.T) {
	labels := map[string]string{}
	for _, text := range []string{"a=1", "b", "c=x=y", "a=2"} {
		if err := arg.Labels(labels, text); err != nil {
			t.Errorf("Labels(%q) = %v", text, err)
		}
	}
	if want := map[string]string{"a": "2", "b": "", "c": "x=y"}; !reflect.DeepEqual(labels, want) {
		t.Errorf("labels %v, want %v", labels, want)
	}
	if err := arg.Labels(labels, "=x"); err == nil {
		t.Error("Labels(=x) passes, want an error")
	}
}

func TestUlimitDeviceRestartHost(t *testing.T) {
	for text, want := range map[string]types.Ulimit{
		"nofile=10": {Name: "nofile", Soft: 10, Hard: 10}, "core=0:-1": {Name: "core", Hard: -1},
		"core=-1": {Name: "core", Soft: -1, Hard: -1}, "nofile": {}, "nofile=x": {}, "nofile=5:1": {}, "nofile=-1:5": {}, "=1": {},
	} {
		if got, err := arg.Ulimit(text); got != want || (err != nil) != (want.Name == "") {
			t.Errorf("Ulimit(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]types.Device{
		"/dev/a":           {PathOnHost: "/dev/a", PathInContainer: "/dev/a", CgroupPermissions: "rwm"},
		"/dev/a:/dev/b":    {PathOnHost: "/dev/a", PathInContainer: "/dev/b", CgroupPermissions: "rwm"},
		"/dev/a:r":         {PathOnHost: "/dev/a", PathInContainer: "/dev/a", CgroupPermissions: "r"},
		"/dev/a:/dev/b:rw": {PathOnHost: "/dev/a", PathInContainer: "/dev/b", CgroupPermissions: "rw"},
		"dev/a":            {}, "/dev/a:b": {}, "/dev/a:/b:x": {}, "/dev/a:/b:rr": {}, "": {}, "/a:/b:r:w": {}, "/a:": {},
	} {
		if got, err := arg.Device(text); got != want || (err != nil) != (want.PathOnHost == "") {
			t.Errorf("Device(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"": "no 0", "no": "no 0", "always": "always 0", "on-failure": "on-failure 0", "on-failure:3": "on-failure 3",
		"unless-stopped": "unless-stopped 0", "always:3": "", "on-failure:x": "", "on-failure:-1": "", "often": "",
	} {
		got := ""
		policy, err := arg.Restart(text)
		if err == nil {
			got = fmt.Sprintf("%s %d", policy.Name, policy.MaximumRetryCount)
		}
		if got != want {
			t.Errorf("Restart(%q) = %q, %v, want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"box:1.2.3.4": "box:1.2.3.4", "box:::1": "box:::1", "box:[::1]": "box:::1", "box=1.2.3.4": "box:1.2.3.4",
		"box=::1": "box:::1", "box=[fd00::1]": "box:fd00::1", "box:host-gateway": "box:host-gateway", "box=host-gateway": "box:host-gateway",
		"box": "", ":1.2.3.4": "", "=1.2.3.4": "", "box:x": "", "box:[::1": "", "box:::1]": "", "box:": "", "box:gateway": "",
	} {
		if got, err := arg.ExtraHost(text); got != want || (err != nil) != (want == "") {
			t.Errorf("ExtraHost(%q) = %q, %v, want %q", text, got, err, want)
		}
	}
}

func TestTime(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC)
	for text, want := range map[string]string{
		"": "", "1700000000": "1700000000", "1700000000.5": "1700000000.5", "10m": "1772600167.000000008",
		"2026-03-04T05:06:07Z": "1772600767.000000000", "2026-03-04": "1772582400.000000000",
		"2026-03-04T05:06": "1772600760.000000000", "yesterday": "!", "1.": "!", "1.x": "!",
	} {
		got, err := arg.Time(text, now)
		if (want == "!") != (err != nil) || (err == nil && got != want) {
			t.Errorf("Time(%q) = %q, %v, want %q", text, got, err, want)
		}
	}
}

func TestFilters(t *testing.T) {
	got, err := arg.Filters([]string{"label=a=b", "Label=c", "status= exited"})
	want := map[string][]string{"label": {"a=b", "c"}, "status": {"exited"}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Filters = %v, %v, want %v", got, err, want)
	}
	if _, err := arg.Filters([]string{"label"}); err == nil {
		t.Error("Filters(label) passes, want an error")
	}
}
