package arg_test

import (
	"encoding/json"
	"strings"
	"testing"

	"moss/cmd/moss/arg"
)

func TestMount(t *testing.T) {
	for text, want := range map[string]string{
		"dst=/x":                                             `{"Type":"volume","Target":"/x"}`,
		"type=volume,source=data,target=/x":                  `{"Type":"volume","Source":"data","Target":"/x"}`,
		"src=data,destination=/x,readonly":                   `{"Type":"volume","Source":"data","Target":"/x","ReadOnly":true}`,
		"src=data,dst=/x,ro=0":                               `{"Type":"volume","Source":"data","Target":"/x"}`,
		"type=BIND,src=/a,dst=/x,ro=true":                    `{"Type":"bind","Source":"/a","Target":"/x","ReadOnly":true}`,
		"type=bind,src=./a,dst=/x":                           `{"Type":"bind","Source":"/home/me/a","Target":"/x"}`,
		"type=bind,src=..,dst=/x":                            `{"Type":"bind","Source":"/home","Target":"/x"}`,
		"type=bind,src=a,dst=/x":                             `{"Type":"bind","Source":"a","Target":"/x"}`,
		`type=bind,"src=/a,b",dst=/x`:                        `{"Type":"bind","Source":"/a,b","Target":"/x"}`,
		"type=bind,src=/a,dst=/x,consistency=cached":         `{"Type":"bind","Source":"/a","Target":"/x","Consistency":"cached"}`,
		"type=bind,src=/a,dst=/x,bind-create-src":            `{"Type":"bind","Source":"/a","Target":"/x","BindOptions":{"CreateMountpoint":true}}`,
		"type=bind,src=/a,dst=/x,bind-nonrecursive":          `{"Type":"bind","Source":"/a","Target":"/x","BindOptions":{"NonRecursive":true}}`,
		"type=bind,src=/a,dst=/x,bind-recursive=disabled":    `{"Type":"bind","Source":"/a","Target":"/x","BindOptions":{"NonRecursive":true}}`,
		"type=bind,src=/a,dst=/x,bind-recursive=enabled":     `{"Type":"bind","Source":"/a","Target":"/x","BindOptions":{}}`,
		"type=bind,src=/a,dst=/x,ro,bind-recursive=writable": `{"Type":"bind","Source":"/a","Target":"/x","ReadOnly":true,"BindOptions":{"ReadOnlyNonRecursive":true}}`,
		"type=bind,src=/a,dst=/x,ro,bind-recursive=readonly,bind-propagation=rprivate": `{"Type":"bind","Source":"/a","Target":"/x","ReadOnly":true,` +
			`"BindOptions":{"Propagation":"rprivate","ReadOnlyForceRecursive":true}}`,
		"src=data,dst=/x,volume-nocopy,volume-subpath=a/b,volume-label=k=v,volume-label=l,volume-driver=local,volume-opt=type=tmpfs,volume-opt=o=a=b": `{"Type":"volume","Source":"data","Target":"/x",` +
			`"VolumeOptions":{"NoCopy":true,"Labels":{"k":"v","l":""},"DriverConfig":{"Name":"local","Options":{"o":"a=b","type":"tmpfs"}},"Subpath":"a/b"}}`,
		`dst=/x,"volume-opt=o=size=1m,mode=1777"`:         `{"Type":"volume","Target":"/x","VolumeOptions":{"DriverConfig":{"Options":{"o":"size=1m,mode=1777"}}}}`,
		"type=tmpfs,dst=/x,tmpfs-size=1m,tmpfs-mode=1770": `{"Type":"tmpfs","Target":"/x","TmpfsOptions":{"SizeBytes":1048576,"Mode":1016}}`,
		"type=image,src=box,dst=/x,image-subpath=etc":     `{"Type":"image","Source":"box","Target":"/x","ImageOptions":{"Subpath":"etc"}}`,
		"type=npipe,src=x,dst=/x":                         `{"Type":"npipe","Source":"x","Target":"/x"}`,
		"":                                                "!", "type=bind,src=/a": "target",
		"type=bind,src=/a,dst=/x,volume-nocopy": "volume-", "dst=/x,tmpfs-size=1m": "tmpfs-", "dst=/x,image-subpath=a": "image-", "dst=/x,bind-propagation=rslave": "bind-",
		"dst=/x,colour=red": `unknown key "colour"`, "dst=/x,type": "want KEY=VALUE", "dst=/x,ro=maybe": "ro",
		"type=tmpfs,dst=/x,tmpfs-size=x": "tmpfs-size", "type=tmpfs,dst=/x,tmpfs-mode=8": "tmpfs-mode", "type=tmpfs,dst=/x,tmpfs-mode=10000": "tmpfs-mode",
		"type=bind,src=/a,dst=/x,bind-recursive=x": "bind-recursive", "type=bind,src=/a,dst=/x,bind-recursive=readonly": "needs readonly",
		"dst=/x,volume-label==v": "KEY=VALUE", `dst=/x,"`: "!", "dst=/x\ndst=/y": "more than one line", "dst=/x,": "want KEY=VALUE",
	} {
		got, err := arg.Mount(text, "/home/me")
		raw, _ := json.Marshal(got)
		if strings.HasPrefix(want, "{") {
			if err != nil || string(raw) != want {
				t.Errorf("Mount(%q) = %s, %v, want %s", text, raw, err, want)
			}
			continue
		}
		if err == nil || want != "!" && !strings.Contains(err.Error(), want) {
			t.Errorf("Mount(%q) = %s, %v, want an error with %q", text, raw, err, want)
		}
	}
}

func FuzzMount(f *testing.F) {
	for _, seed := range []string{"type=bind,src=/a,dst=/b,ro", "dst=/x,volume-opt=a=b", `"a`, "type=tmpfs,dst=/t,tmpfs-size=1g", "ro="} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := arg.Mount(text, "/home/me")
		if err == nil && (m.Target == "" || m.BindOptions != nil && m.Type != "bind" || m.TmpfsOptions != nil && m.Type != "tmpfs") {
			t.Errorf("Mount(%q) = %+v", text, m)
		}
	})
}
