package container

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"moss/engine/fault"
	"moss/engine/image"
)

func TestParseBindOfVolumes(t *testing.T) {
	for s, want := range map[string]VolumeMount{
		"data:/b":               {Name: "data", Driver: "local", Destination: "/b"},
		"da.ta-1:/b/../c/":      {Name: "da.ta-1", Driver: "local", Destination: "/c"},
		"data:/b:ro":            {Name: "data", Driver: "local", Destination: "/b", ReadOnly: true, Mode: "ro"},
		"data:/b:nocopy,z":      {Name: "data", Driver: "local", Destination: "/b", NoCopy: true, Mode: "nocopy,z"},
		"data:/b:ro,nocopy":     {Name: "data", Driver: "local", Destination: "/b", ReadOnly: true, NoCopy: true, Mode: "ro,nocopy"},
		"/b/":                   {Driver: "local", Destination: "/b", Anonymous: true},
		strings.Repeat("/b", 2): {Driver: "local", Destination: "/b/b", Anonymous: true},
	} {
		if bind, got, err := ParseBind(s); err != nil || !reflect.DeepEqual(got, want) || bind != (Bind{}) {
			t.Errorf("ParseBind(%q) = %+v, %+v, %v, want %+v", s, bind, got, err, want)
		}
	}
	for _, s := range []string{"data:/b:rshared", "/a:/b:nocopy", "data:/b:nocopy,nocopy", "da/ta:/b", "b", "data:b", "/", "data:/", ".data:/b"} {
		if bind, got, err := ParseBind(s); !fault.Is(err, fault.Invalid) {
			t.Errorf("ParseBind(%q) = %+v, %+v, %v, want fault.Invalid", s, bind, got, err)
		}
	}
}

func TestParseVolumesFrom(t *testing.T) {
	for s, want := range map[string]VolumesFrom{
		"web": {Container: "web"}, "/web:rw": {Container: "/web"}, "web:ro": {Container: "web", ReadOnly: true}, "w:z,ro": {Container: "w", ReadOnly: true},
	} {
		if got, err := ParseVolumesFrom(s); err != nil || got != want {
			t.Errorf("ParseVolumesFrom(%q) = %+v, %v, want %+v", s, got, err, want)
		}
	}
	for _, s := range []string{"", ":ro", "web:", "web:x", "web:ro,rw", "web:rslave", "web:nocopy", "web:ro:z", "a\x00"} {
		if got, err := ParseVolumesFrom(s); !fault.Is(err, fault.Invalid) {
			t.Errorf("ParseVolumesFrom(%q) = %+v, %v, want fault.Invalid", s, got, err)
		}
	}
}

func FuzzParseVolumesFrom(f *testing.F) {
	for _, s := range []string{"web", "web:ro", ":", "web:rw,z"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		from, err := ParseVolumesFrom(s)
		if err != nil && !fault.Is(err, fault.Invalid) || err == nil && (from.Container == "" || strings.ContainsAny(from.Container, ":\x00")) {
			t.Errorf("ParseVolumesFrom(%q) = %+v, %v", s, from, err)
		}
	})
}

func TestVolumesOfBothSides(t *testing.T) {
	for _, tc := range []struct {
		name string
		ask
		want []string // destinations of volumes
		bad  string   // in the error
	}{
		{"the client's and the image's", ask{
			config: `{"Cmd":["x"],"Volumes":{"/b/":{}}}`, img: image.Config{Volumes: map[string]struct{}{"/a": {}, "c": {}, "/b": {}}},
		}, []string{"/a", "/b", "/c"}, ""},
		{"a bind, a tmpfs and a named volume in their place", ask{
			config: `{"Cmd":["x"],"Volumes":{"/a":{},"/b":{},"/c":{},"/d":{}}}`,
			host:   `{"Binds":["/h:/a","vol:/b"],"Tmpfs":{"/c":""}}`,
		}, []string{"/b", "/d"}, ""},
		{"twice in Binds", ask{host: `{"Binds":["vol:/b","/b"]}`}, nil, "Duplicate mount point: /b"},
		{"Binds and Tmpfs", ask{host: `{"Binds":["vol:/b"],"Tmpfs":{"/b/":""}}`}, nil, "Duplicate mount point: /b"},
		{"relative", ask{config: `{"Cmd":["x"],"Volumes":{"data":{}}}`}, nil, "mount path must be absolute"},
		{"the root", ask{config: `{"Cmd":["x"],"Volumes":{"/":{}}}`}, nil, "destination can't be '/'"},
		{"volumes-from", ask{host: `{"VolumesFrom":["web:maybe"]}`}, nil, "invalid mode: maybe"},
	} {
		spec, _, err := tc.spec(t)
		if tc.bad != "" {
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.bad) {
				t.Errorf("%s: error %v, want fault.Invalid with %q", tc.name, err, tc.bad)
			}
			continue
		}
		got := make([]string, 0, len(spec.Volumes))
		for _, v := range spec.Volumes {
			got = append(got, v.Destination)
		}
		if err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%s: volumes at %q, %v, want %q", tc.name, got, err, tc.want)
		}
	}
}

func TestTakeOver(t *testing.T) {
	spec, _, err := ask{
		config: `{"Cmd":["x"],"Volumes":{"/implied":{},"/other":{}}}`,
		host:   `{"Binds":["/h:/bind","own:/volume"],"Tmpfs":{"/tmp":""},"VolumesFrom":["a:ro","b"]}`,
	}.spec(t)
	if err != nil {
		t.Fatal(err)
	}
	volume := func(name, dst string) Mount {
		return Mount{Type: "volume", Name: name, Driver: "local", Source: "/v/" + name, Destination: dst, RW: true, Mode: "z", Anonymous: true}
	}
	others := [][]Mount{
		{volume("1", "/bind"), volume("2", "/volume"), volume("3", "/tmp"), volume("4", "/implied"), volume("5", "/both")},
		{volume("6", "/both"), {Type: "bind", Source: "/src", Destination: "/theirs", Mode: "ro", Propagation: "rslave"}},
	}
	spec.TakeOver(slices.Concat(spec.VolumesFrom[0].Take(others[0]), spec.VolumesFrom[1].Take(others[1])))
	got := map[string]Mount{}
	for _, m := range spec.Mounts() {
		got[m.Destination] = m
	}
	want := map[string]Mount{
		"/bind":    {Type: "bind", Source: "/h", Destination: "/bind", RW: true, Propagation: "rprivate"},
		"/volume":  {Type: "volume", Name: "own", Driver: "local", Destination: "/volume", RW: true},
		"/other":   {Type: "volume", Driver: "local", Destination: "/other", RW: true, Anonymous: true},
		"/implied": {Type: "volume", Name: "4", Driver: "local", Source: "/v/4", Destination: "/implied", Anonymous: true, NoCopy: true},
		"/both":    {Type: "volume", Name: "6", Driver: "local", Source: "/v/6", Destination: "/both", RW: true, Anonymous: true, NoCopy: true},
		"/theirs":  {Type: "bind", Source: "/src", Destination: "/theirs", Propagation: "rslave", NoCopy: true},
	}
	got["/theirs"] = func(m Mount) Mount { m.NoCopy = true; return m }(got["/theirs"]) // a bind does not keep it
	if !reflect.DeepEqual(got, want) || len(spec.Mounts()) != len(want) {
		t.Errorf("mounts %+v\nwant %+v", got, want)
	}
	if !others[0][0].RW || others[0][0].Mode != "z" {
		t.Errorf("Take changed its argument: %+v", others[0][0])
	}
}

// FuzzSpecOf starts a container again from its record, whatever it asked for.
func FuzzSpecOf(f *testing.F) {
	f.Add("/a:/b:ro", "data:/c:nocopy", "/d")
	f.Fuzz(func(t *testing.T, bind, volume, anonymous string) {
		host := HostConfig{Binds: []string{bind, volume}}
		spec, _, err := NewSpec(Config{Cmd: []string{"x"}, Volumes: map[string]struct{}{anonymous: {}}}, host, nil, image.Config{})
		if err != nil {
			return
		}
		for i := range spec.Volumes {
			spec.Volumes[i].Implied = false
		}
		raw, err := json.Marshal(&Record{Config: spec.Config, Host: spec.Host, Mounts: spec.Mounts()})
		if err != nil {
			t.Fatal(err)
		}
		var r Record
		if err := json.Unmarshal(raw, &r); err != nil {
			t.Fatal(err)
		}
		again, err := SpecOf(&r)
		if err != nil {
			t.Fatalf("SpecOf(%s): %v", raw, err)
		}
		if strings.ToValidUTF8(bind+volume+anonymous, "") == bind+volume+anonymous &&
			(!slices.Equal(spec.Binds, again.Binds) || !reflect.DeepEqual(spec.Volumes, again.Volumes)) {
			t.Errorf("SpecOf(%s) has %+v and %+v, want %+v and %+v", raw, again.Binds, again.Volumes, spec.Binds, spec.Volumes)
		}
	})
}
