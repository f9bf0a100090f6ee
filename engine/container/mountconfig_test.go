package container

import (
	"encoding/json"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"moss/engine/fault"
	"moss/engine/image"
)

func TestMountConfigs(t *testing.T) {
	must := BindTerms{MustExist: true}
	for asked, want := range map[string]Spec{
		`{"Type":"bind","Source":"/a/../b/","Target":"/x/"}`: {
			Binds: []Bind{{Source: "/b", Destination: "/x", Propagation: "rprivate", BindTerms: must}},
		},
		`{"Type":"bind","Source":"/a","Target":"/x","ReadOnly":true,"Consistency":"cached","BindOptions":{"Propagation":"rslave","CreateMountpoint":true}}`: {
			Binds: []Bind{{Source: "/a", Destination: "/x", ReadOnly: true, Propagation: "rslave"}},
		},
		`{"Type":"bind","Source":"/a","Target":"/x","ReadOnly":true,"BindOptions":{"ReadOnlyForceRecursive":true}}`: {
			Binds: []Bind{{Source: "/a", Destination: "/x", ReadOnly: true, Propagation: "rprivate", BindTerms: BindTerms{MustExist: true, ReadOnlyForceRecursive: true}}},
		},
		`{"Type":"bind","Source":"/a","Target":"/x","ReadOnly":true,"BindOptions":{"NonRecursive":true,"ReadOnlyNonRecursive":true}}`: {
			Binds: []Bind{{Source: "/a", Destination: "/x", ReadOnly: true, Propagation: "rprivate", BindTerms: BindTerms{MustExist: true, NonRecursive: true, ReadOnlyNonRecursive: true}}},
		},
		`{"Type":"volume","Target":"/x"}`: {
			Volumes: []VolumeMount{{Driver: "local", Destination: "/x", Anonymous: true}},
		},
		`{"Type":"volume","Source":"data","Target":"/x","ReadOnly":true,"VolumeOptions":{"NoCopy":true,"Labels":{"a":"b"},"DriverConfig":{"Name":"local","Options":{"type":"tmpfs"}}}}`: {
			Volumes: []VolumeMount{{
				Name: "data", Driver: "local", Destination: "/x", ReadOnly: true, NoCopy: true,
				VolumeTerms: VolumeTerms{Labels: map[string]string{"a": "b"}, Options: map[string]string{"type": "tmpfs"}},
			}},
		},
		`{"Type":"volume","Source":"data","Target":"/x","VolumeOptions":{"Subpath":"a/./b/"}}`: {
			Volumes: []VolumeMount{{Name: "data", Driver: "local", Destination: "/x", NoCopy: true, VolumeTerms: VolumeTerms{Subpath: "a/b"}}},
		},
		`{"Type":"tmpfs","Target":"/x"}`: {
			Tmpfs: []Tmpfs{{Destination: "/x", Options: []string{"noexec", "nosuid", "nodev"}}},
		},
		`{"Type":"tmpfs","Target":"/x","ReadOnly":true,"TmpfsOptions":{"SizeBytes":1048576,"Mode":1023,"Options":[["exec"],["uid","5"]]}}`: {
			Tmpfs: []Tmpfs{{Destination: "/x", Options: []string{"nosuid", "nodev", "ro", "size=1048576", "mode=1777", "exec", "uid=5"}}},
		},
	} {
		spec, warnings, err := ask{host: `{"Mounts":[` + asked + `]}`}.spec(t)
		got := Spec{Binds: spec.Binds, Volumes: spec.Volumes, Tmpfs: spec.Tmpfs}
		if err != nil || len(warnings) > 0 || !reflect.DeepEqual(got, want) {
			t.Errorf("Mounts %s = %+v, %v, %v\nwant %+v", asked, got, warnings, err, want)
		}
	}
	_, warnings, err := ask{host: `{"Mounts":[{"Type":"bind","Source":"/a","Target":"/x","BindOptions":{"Propagation":"rshared"}}]}`}.spec(t)
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "/x") {
		t.Errorf("a shared mount gives %q, %v, want a warning", warnings, err)
	}
}

// TestMountConfigsRefused: what is wrong is named, and a mount point is one mount's.
func TestMountConfigsRefused(t *testing.T) {
	for asked, names := range map[string]string{
		`{"Target":"/x"}`:                                                                           `mount type unknown: ""`,
		`{"Type":"nfs","Target":"/x"}`:                                                              `mount type unknown: "nfs"`,
		`{"Type":"volume"}`:                                                                         "field Target must not be empty",
		`{"Type":"volume","Target":"x"}`:                                                            "mount path must be absolute",
		`{"Type":"volume","Target":"/a/.."}`:                                                        "destination can't be '/'",
		`{"Type":"tmpfs","Target":"/x","Source":"/a"}`:                                              "field Source must not be specified",
		`{"Type":"bind","Target":"/x"}`:                                                             "field Source must not be empty",
		`{"Type":"bind","Source":"a","Target":"/x"}`:                                                "Source",
		`{"Type":"bind","Source":"/\u0000","Target":"/x"}`:                                          "Source",
		`{"Type":"volume","Source":"a/b","Target":"/x"}`:                                            "Source",
		`{"Type":"volume","Source":"/a","Target":"/x"}`:                                             "Source",
		`{"Type":"volume","ReadOnly":true,"Target":"/x"}`:                                           "ReadOnly",
		`{"Type":"volume","Target":"/x","Consistency":"x"}`:                                         "Consistency",
		`{"Type":"volume","Target":"/x","BindOptions":{}}`:                                          "field BindOptions must not be specified",
		`{"Type":"tmpfs","Target":"/x","VolumeOptions":{}}`:                                         "field VolumeOptions must not be specified",
		`{"Type":"volume","Target":"/x","TmpfsOptions":{}}`:                                         "field TmpfsOptions must not be specified",
		`{"Type":"volume","Target":"/x","ImageOptions":{}}`:                                         "field ImageOptions must not be specified",
		`{"Type":"volume","Target":"/x","ClusterOptions":{}}`:                                       "field ClusterOptions must not be specified",
		`{"Type":"bind","Source":"/a","Target":"/x","BindOptions":{"Propagation":"x"}}`:             "BindOptions.Propagation",
		`{"Type":"bind","Source":"/a","Target":"/x","BindOptions":{"ReadOnlyForceRecursive":true}}`: "BindOptions.ReadOnlyForceRecursive",
		`{"Type":"bind","Source":"/a","Target":"/x","BindOptions":{"ReadOnlyNonRecursive":true}}`:   "BindOptions.ReadOnlyNonRecursive is for ReadOnly mounts",
		`{"Type":"bind","Source":"/a","Target":"/x","ReadOnly":true,"BindOptions":{"ReadOnlyForceRecursive":true,"ReadOnlyNonRecursive":true}}`: "ReadOnlyNonRecursive",
		`{"Type":"volume","Target":"/x","VolumeOptions":{"Subpath":"a"}}`:                                                                       "VolumeOptions.Subpath",
		`{"Type":"volume","Source":"v1","Target":"/x","VolumeOptions":{"Subpath":"/a"}}`:                                                        "VolumeOptions.Subpath",
		`{"Type":"volume","Source":"v1","Target":"/x","VolumeOptions":{"Subpath":"a/../.."}}`:                                                   "VolumeOptions.Subpath",
		`{"Type":"tmpfs","Target":"/x","TmpfsOptions":{"SizeBytes":-1}}`:                                                                        "SizeBytes",
		`{"Type":"tmpfs","Target":"/x","TmpfsOptions":{"Mode":4096}}`:                                                                           "Mode",
		`{"Type":"tmpfs","Target":"/x","TmpfsOptions":{"Options":[["bogus"]]}}`:                                                                 "TmpfsOptions",
		`{"Type":"tmpfs","Target":"/x","TmpfsOptions":{"Options":[["mode","7,exec"]]}}`:                                                         "TmpfsOptions: Options",
		`{"Type":"tmpfs","Target":"/x","TmpfsOptions":{"Options":[[]]}}`:                                                                        "TmpfsOptions: Options",
		`{"Type":"tmpfs","Target":"/x"},{"Type":"volume","Target":"/x/"}`:                                                                       "Duplicate mount point: /x",
		`{"Type":"tmpfs","Target":"/bound"}`:                                                                                                    "Duplicate mount point: /bound",
	} {
		_, _, err := ask{host: `{"Binds":["/a:/bound"],"Mounts":[` + asked + `]}`}.spec(t)
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), names) || !strings.HasPrefix(err.Error(), "Mounts: ") {
			t.Errorf("Mounts %s: error %v, want fault.Invalid with Mounts and %s", asked, err, names)
		}
	}
	for _, kind := range []string{"npipe", "cluster"} {
		_, _, err := ask{host: `{"Mounts":[{"Type":"` + kind + `","Target":"/x"}]}`}.spec(t)
		if !fault.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), kind) {
			t.Errorf("type %s: error %v, want fault.Unsupported naming it", kind, err)
		}
	}
	_, _, err := ask{host: `{"Mounts":[{"Type":"tmpfs","Target":"/x"}],"Tmpfs":{"/x":""}}`}.spec(t)
	if !fault.Is(err, fault.Invalid) {
		t.Errorf("Mounts and Tmpfs at one place: error %v, want fault.Invalid", err)
	}
}

// TestMountConfigsInARecord: a start from the record has the very same mounts, and inspect shows those in memory too.
func TestMountConfigsInARecord(t *testing.T) {
	first, _, err := ask{
		config: `{"Cmd":["x"],"Volumes":{"/v":{},"/implied":{}}}`,
		host: `{"Mounts":[
			{"Type":"bind","Source":"/a","Target":"/b","ReadOnly":true,"BindOptions":{"NonRecursive":true}},
			{"Type":"volume","Source":"data","Target":"/v","VolumeOptions":{"Subpath":"s","Labels":{"a":"b"},"DriverConfig":{"Options":{"type":"tmpfs"}}}},
			{"Type":"image","Source":"busybox","Target":"/i","ImageOptions":{"Subpath":"usr/./lib"}},
			{"Type":"tmpfs","Target":"/t/","ReadOnly":true,"TmpfsOptions":{"SizeBytes":5}}]}`,
	}.spec(t)
	if err != nil {
		t.Fatal(err)
	}
	if len(first.Volumes) != 2 || first.Volumes[1].Destination != "/implied" {
		t.Fatalf("volumes %+v, want that of Mounts and /implied", first.Volumes)
	}
	if want := []ImageMount{{Source: "busybox", Destination: "/i", ImageTerms: ImageTerms{Subpath: "usr/lib"}}}; !reflect.DeepEqual(first.Images, want) {
		t.Fatalf("images %+v, want %+v", first.Images, want)
	}
	first.Volumes[1].Implied = false
	raw, err := json.Marshal(&Record{Config: first.Config, Host: first.Host, Mounts: first.Mounts()})
	if err != nil {
		t.Fatal(err)
	}
	var r Record
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	again, err := SpecOf(&r)
	if err != nil || !reflect.DeepEqual(first.Binds, again.Binds) || !reflect.DeepEqual(first.Volumes, again.Volumes) || !reflect.DeepEqual(first.Images, again.Images) ||
		!reflect.DeepEqual(first.Tmpfs, again.Tmpfs) || !reflect.DeepEqual(first.Host.Mounts, again.Host.Mounts) {
		t.Errorf("SpecOf = %+v, %v\nwant %+v", again, err, first)
	}
	points := r.MountPoints()
	if want := (Mount{Type: "tmpfs", Destination: "/t"}); len(points) != len(r.Mounts)+1 || !reflect.DeepEqual(points[len(points)-1], want) {
		t.Errorf("MountPoints() = %+v, want %+v at the end", points, want)
	}
	taken := &Spec{}
	taken.TakeOver(VolumesFrom{}.Take(r.Mounts))
	if len(taken.Volumes) == 0 || len(taken.Binds) != 1 || !taken.Binds[0].NonRecursive || len(taken.Tmpfs) > 0 ||
		!slices.ContainsFunc(taken.Volumes, func(v VolumeMount) bool { return v.Subpath == "s" }) {
		t.Errorf("taken over: %+v, want the bind and the volumes as they are, and no memory", taken)
	}
}

func FuzzMountConfig(f *testing.F) {
	f.Add(`{"Type":"bind","Source":"/a","Target":"/b","BindOptions":{"Propagation":"rslave"}}`)
	f.Add(`{"Type":"volume","Source":"v1","Target":"/b","VolumeOptions":{"Subpath":"a/../b"}}`)
	f.Add(`{"Type":"tmpfs","Target":"/b","TmpfsOptions":{"SizeBytes":1,"Mode":7,"Options":[["a","b"]]}}`)
	f.Fuzz(func(t *testing.T, raw string) {
		var asked MountConfig
		if json.Unmarshal([]byte(raw), &asked) != nil {
			return
		}
		spec, _, err := NewSpec(Config{Cmd: []string{"x"}}, HostConfig{Mounts: []MountConfig{asked}}, nil, image.Config{})
		if err != nil {
			if !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.Unsupported) {
				t.Errorf("%s: error %v of another kind", raw, err)
			}
			return
		}
		if len(spec.Binds)+len(spec.Volumes)+len(spec.Tmpfs) != 1 {
			t.Fatalf("%s: %+v, want one mount", raw, spec)
		}
		for _, b := range spec.Binds {
			if !path.IsAbs(b.Source) || strings.ContainsRune(b.Source, 0) {
				t.Errorf("%s: bind %+v", raw, b)
			}
		}
		for _, v := range spec.Volumes {
			if strings.ContainsAny(v.Name, "/\x00") || v.Subpath != "" && (!filepath.IsLocal(v.Subpath) || strings.ContainsRune(v.Subpath, 0)) {
				t.Errorf("%s: volume %+v", raw, v)
			}
		}
		for _, m := range spec.Tmpfs {
			for _, option := range m.Options {
				if strings.ContainsAny(option, ",\x00") {
					t.Errorf("%s: tmpfs %+v", raw, m)
				}
			}
		}
	})
}
