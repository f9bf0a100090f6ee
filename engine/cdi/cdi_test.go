package cdi

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/ocispec"
)

const gpus = `cdiVersion: 0.7.0
kind: example.com/gpu
containerEdits:
  env: [ALL=1]
  hooks:
  - {hookName: createContainer, path: /usr/bin/true, args: [true, x]}
devices:
- name: "0"
  containerEdits:
    env: [GPU=0]
    deviceNodes:
    - {path: /dev/gpu0, hostPath: /dev/null}
    - {path: /dev/full, permissions: r}
    mounts:
    - {hostPath: /etc/passwd, containerPath: /lib/x.so, options: [ro, nosuid]}
- name: all
  containerEdits:
    additionalGids: [44]
`

// write fills a folder of files, which are the user's alone.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func byName(ids ...string) container.DeviceRequest {
	return container.DeviceRequest{Driver: container.DriverCDI, DeviceIDs: ids}
}

func gpu(count int, ids ...string) container.DeviceRequest {
	return container.DeviceRequest{Count: count, DeviceIDs: ids, Capabilities: [][]string{{"compute"}, {"gpu", "utility"}}}
}

func TestResolve(t *testing.T) {
	r := New(Dir{Path: write(t, map[string]string{"gpus.yaml": gpus})}, Dir{Path: "/does/not/exist"})
	for _, tc := range []struct {
		asked []container.DeviceRequest
		want  string // the names; or what the error says
		kind  fault.Kind
	}{
		{nil, "", 0},
		{[]container.DeviceRequest{byName("example.com/gpu=0", "example.com/gpu=all"), byName("example.com/gpu=0")}, "example.com/gpu=0 example.com/gpu=all", 0},
		{[]container.DeviceRequest{gpu(-1)}, "example.com/gpu=all", 0},
		{[]container.DeviceRequest{gpu(1)}, "example.com/gpu=0", 0},
		{[]container.DeviceRequest{gpu(0, "all")}, "example.com/gpu=all", 0},
		{[]container.DeviceRequest{gpu(2)}, "unresolvable CDI device example.com/gpu=1", fault.KindInvalid},
		{[]container.DeviceRequest{byName("example.com/net=0")}, "unresolvable CDI device example.com/net=0", fault.KindInvalid},
	} {
		names, err := r.Resolve(tc.asked)
		if got := strings.Join(names, " "); tc.kind == 0 && (err != nil || got != tc.want) {
			t.Errorf("Resolve(%+v) = %q, %v, want %q", tc.asked, got, err, tc.want)
		}
		if tc.kind != 0 && (fault.KindOf(err) != tc.kind || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("Resolve(%+v) = %q, %v, want %q", tc.asked, names, err, tc.want)
		}
	}
	if _, err := New().Resolve([]container.DeviceRequest{gpu(-1)}); !fault.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "could not select device driver") {
		t.Errorf("GPUs where there is no file: %v", err)
	}
	two := write(t, map[string]string{"a.yaml": gpus, "b.yaml": strings.ReplaceAll(gpus, "example.com", "example.org")})
	if _, err := New(Dir{Path: two}).Resolve([]container.DeviceRequest{gpu(-1)}); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "example.com and example.org") {
		t.Errorf("GPUs of two vendors: %v", err)
	}
}

func TestEdits(t *testing.T) {
	r := New(Dir{Path: write(t, map[string]string{"gpus.yaml": gpus})})
	got, err := r.Edits([]string{"example.com/gpu=0", "example.com/gpu=all"})
	want := ocispec.Additions{
		Env: []string{"ALL=1", "GPU=0"}, Groups: []uint32{44},
		Devices: []container.Device{
			{PathOnHost: "/dev/null", PathInContainer: "/dev/gpu0", CgroupPermissions: "rwm"},
			{PathOnHost: "/dev/full", PathInContainer: "/dev/full", CgroupPermissions: "r"},
		},
		Mounts: []specs.Mount{{Source: "/etc/passwd", Destination: "/lib/x.so", Type: "bind", Options: []string{"rbind", "ro", "nosuid"}}},
		Hooks:  &specs.Hooks{CreateContainer: []specs.Hook{{Path: "/usr/bin/true", Args: []string{"true", "x"}}}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Edits = %+v, %v, want %+v", got, err, want)
	}
	if _, err := r.Edits([]string{"example.com/gpu=1"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("Edits of none: %v", err)
	}
}

// TestFilesThatDoNotCount has files that are damaged, or that others than the user may have written: the error about a device names
// them, and those beside them count.
func TestFilesThatDoNotCount(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(path string) error
		own   bool
		want  string
	}{
		"damaged":        {func(path string) error { return os.WriteFile(path, []byte("cdiVersion: [\n"), 0o600) }, false, "a.yaml"},
		"empty":          {func(path string) error { return os.Truncate(path, 0) }, false, "a.yaml"},
		"too big":        {func(path string) error { return os.Truncate(path, maxSpec+1) }, false, "bytes, more than"},
		"written by all": {func(path string) error { return os.Chmod(path, 0o606) }, false, "others than its owner"},
		"a pipe":         {func(path string) error { return replace(path, func() error { return unix.Mkfifo(path, 0o600) }) }, false, "it is no file"},
		"a folder":       {func(path string) error { return replace(path, func() error { return os.Mkdir(path, 0o700) }) }, false, "unresolvable"},
		"a device":       {func(path string) error { return replace(path, func() error { return os.Symlink("/dev/zero", path) }) }, false, "it is no file"},
		"a dead link":    {func(path string) error { return replace(path, func() error { return os.Symlink("/no/such", path) }) }, false, "no such file"},
		"a loop":         {func(path string) error { return replace(path, func() error { return os.Symlink(path, path) }) }, false, "too many levels"},
		"a bomb":         {func(path string) error { return os.WriteFile(path, yamlBomb(), 0o600) }, false, "excessive aliasing"},
		"deep":           {func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte("["), 1<<20), 0o600) }, false, "max depth"},
		"another form":   {func(path string) error { return os.WriteFile(path, []byte("[1, 2]\n"), 0o600) }, false, "a.yaml"},
		"another field":  {func(path string) error { return os.WriteFile(path, []byte(gpus+"nope: 1\n"), 0o600) }, false, `unknown field "nope"`},
		"a device twice": {func(path string) error {
			return os.WriteFile(path, []byte(gpus+"- {name: all, containerEdits: {env: [A=1]}}\n"), 0o600)
		}, false, "multiple device"},
		"a later format": {func(path string) error {
			return os.WriteFile(path, []byte(strings.Replace(gpus, "0.7.0", "99.0.0", 1)), 0o600)
		}, false, "invalid version"},
		"somebody else's": {func(path string) error {
			return replace(path, func() error { return os.Symlink("/proc/version", path) })
		}, true, "a.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := write(t, map[string]string{"a.yaml": gpus, "b.json": `{"cdiVersion":"0.6.0","kind":"example.com/other","devices":[{"name":"x","containerEdits":{"env":["X=1"]}}]}`})
			if err := tc.spoil(filepath.Join(dir, "a.yaml")); err != nil {
				t.Fatal(err)
			}
			r := New(Dir{Path: dir, Own: tc.own})
			if got := r.Names(); !slices.Equal(got, []string{"example.com/other=x"}) {
				t.Errorf("names %q, want that of the good file", got)
			}
			if _, err := r.Resolve([]container.DeviceRequest{byName("example.com/gpu=0")}); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Resolve = %v, want a word of %q", err, tc.want)
			}
		})
	}
}

// yamlBomb is a small file that would be a large one if each name in it were what it stands for.
func yamlBomb() []byte {
	b := []byte("cdiVersion: 0.7.0\nkind: example.com/gpu\na: &a [" + strings.Repeat("x, ", 9) + "x]\n")
	for c := byte('b'); c < 'k'; c++ {
		b = fmt.Appendf(b, "%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c, ", c-1), 10), ", "))
	}
	return append(b, "devices: [{name: '0', containerEdits: {env: *j}}]\n"...)
}

// TestFolderOfEverybody: where everybody can make a link, no file counts.
func TestFolderOfEverybody(t *testing.T) {
	dir := write(t, map[string]string{"gpus.yaml": gpus})
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	_, err := New(Dir{Path: dir, Own: true}).Resolve([]container.DeviceRequest{byName("example.com/gpu=0")})
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "everybody can write to it") {
		t.Errorf("Resolve = %v, want words about the folder", err)
	}
}

// replace removes a file and makes another thing.
func replace(path string, with func() error) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	return with()
}

// TestWhichFileCounts: a later folder hides names of an earlier one, and two files of one folder that have a name both lose it.
func TestWhichFileCounts(t *testing.T) {
	mine := strings.Replace(gpus, "GPU=0", "GPU=mine", 1)
	system, own := write(t, map[string]string{"gpus.yaml": gpus}), write(t, map[string]string{"gpus.yaml": mine})
	got, err := New(Dir{Path: system}, Dir{Path: own, Own: true}).Edits([]string{"example.com/gpu=0"})
	if err != nil || !slices.Contains(got.Env, "GPU=mine") || slices.Contains(got.Env, "GPU=0") {
		t.Errorf("Edits = %+v, %v, want those of the later folder", got, err)
	}
	twice := New(Dir{Path: write(t, map[string]string{"a.yaml": gpus, "b.yaml": mine})})
	if _, err := twice.Resolve([]container.DeviceRequest{byName("example.com/gpu=0")}); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "another file has example.com/gpu=0") {
		t.Errorf("a name of two files: %v", err)
	}
}

func TestEditsRefused(t *testing.T) {
	for edit, want := range map[string]string{
		"netDevices: [{hostInterfaceName: eth0, name: eth1}]":       "network devices",
		"intelRdt: {closID: x}":                                     "intelRdt",
		"mounts: [{hostPath: x, containerPath: /x}]":                "a mount from",
		"mounts: [{hostPath: /x, containerPath: /}]":                "a mount from",
		"mounts: [{hostPath: /no/such, containerPath: /x}]":         "/no/such: no such file",
		"mounts: [{hostPath: /etc, containerPath: \"/x\\0y\"}]":     "a mount from",
		"mounts: [{hostPath: /etc, containerPath: /x/..}]":          "a mount from",
		"deviceNodes: [{path: /dev/x, type: z}]":                    "unresolvable",
		"deviceNodes: [{path: x, hostPath: /dev/null}]":             "a device node from",
		"deviceNodes: [{path: /dev/x, hostPath: null/x}]":           "a device node from",
		"deviceNodes: [{path: \"/dev/x\\0y\"}]":                     "a device node from",
		"deviceNodes: [{path: /, hostPath: /dev/null}]":             "a device node from",
		"env: [\"A=b\\0c\"]":                                        "zero byte",
		"env: [A]":                                                  "unresolvable",
		"additionalGids: [4294967295]":                              "4294967295 is no group",
		"hooks: [{hookName: poststop, path: bin/true}]":             "the hook poststop calls",
		"hooks: [{hookName: prestart, path: /no/such}]":             "the hook prestart: ",
		"hooks: [{hookName: poststop, path: /bin/sh, timeout: -1}]": "timeout -1",
		"hooks: [{hookName: never, path: /bin/true}]":               "unresolvable",
	} {
		text := "cdiVersion: 1.1.0\nkind: example.com/xx\ndevices:\n- name: dev\n  containerEdits:\n    " + edit + "\n"
		_, err := New(Dir{Path: write(t, map[string]string{"a.yaml": text})}).Edits([]string{"example.com/xx=dev"})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", edit, err, want)
		}
	}
}

// FuzzSpec reads files of any bytes: an error or devices, and no panic. Devices that can be had are fit to be put into a container.
func FuzzSpec(f *testing.F) {
	f.Add([]byte(gpus))
	f.Add(yamlBomb())
	f.Add([]byte(`{"cdiVersion":"1.0.0","kind":"a/b","devices":[{"name":"x","containerEdits":{"mounts":[{"hostPath":"/","containerPath":"."}]}}]}`))
	f.Add([]byte("cdiVersion: 0.3.0\nkind: v/c\ndevices: [{name: d, containerEdits: {deviceNodes: [{path: ../x}]}}]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r := New(Dir{Path: write(t, map[string]string{"a.yaml": string(text)})})
		for _, name := range r.Names() {
			found, err := r.Edits([]string{name})
			if err != nil {
				if !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.Unsupported) {
					t.Errorf("Edits of %q = %v, want fault.Invalid or fault.Unsupported", name, err)
				}
				continue
			}
			for _, d := range found.Devices {
				if !isPlace(d.PathOnHost) || !isPlace(d.PathInContainer) {
					t.Errorf("%q has a device node from %q to %q", name, d.PathOnHost, d.PathInContainer)
				}
			}
		}
	})
}
