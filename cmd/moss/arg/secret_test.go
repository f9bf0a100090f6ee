package arg_test

import (
	"strings"
	"testing"

	"moss/cmd/moss/arg"
)

func TestParseSecret(t *testing.T) {
	for _, tc := range []struct {
		text string
		want arg.Secret
		err  string
	}{
		{"id=a,src=f", arg.Secret{ID: "a", Path: "f"}, ""},
		{"source=/x=y/f,id=a", arg.Secret{ID: "a", Path: "/x=y/f"}, ""},
		{"type=file,id=a,src=f", arg.Secret{ID: "a", Path: "f"}, ""},
		{"id=a,env=V", arg.Secret{ID: "a", Variable: "V"}, ""},
		{"id=a,type=env,src=V", arg.Secret{ID: "a", Variable: "V"}, ""},
		{"id=HOME", arg.Secret{ID: "HOME", Variable: "HOME"}, ""},
		{"id=HOME,type=file", arg.Secret{ID: "HOME", Path: "HOME"}, ""},
		{"id=nothing", arg.Secret{ID: "nothing", Path: "nothing"}, ""},
		{"id=nothing,type=env", arg.Secret{ID: "nothing", Variable: "nothing"}, ""},
		{"", arg.Secret{}, `unknown key ""`},
		{"a", arg.Secret{}, `unknown key "a"`},
		{"src=f", arg.Secret{}, "it has no id"},
		{"id", arg.Secret{}, "id has no value"},
		{"id=a,src=", arg.Secret{}, "src has no value"},
		{"id=a,src=f,env=V", arg.Secret{}, "cannot be combined"},
		{"id=a,env=V,type=file", arg.Secret{}, "env cannot be combined with type=file"},
		{"id=a,type=ssh", arg.Secret{}, `unknown type "ssh"`},
		{"id=a,mode=1", arg.Secret{}, `unknown key "mode"`},
	} {
		lookup := func(name string) (string, bool) { return "", name == "HOME" }
		got, err := arg.ParseSecret(tc.text, lookup)
		if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) || got != tc.want {
			t.Errorf("ParseSecret(%q) = %+v, %v, want %+v, %q", tc.text, got, err, tc.want, tc.err)
		}
	}
}

func FuzzParseSecret(f *testing.F) {
	f.Add("id=a,src=f")
	f.Add("type=env,id=,env")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := arg.ParseSecret(text, func(string) (string, bool) { return "", len(text)%2 == 0 })
		if err == nil && (s.ID == "" || (s.Path == "") == (s.Variable == "")) {
			t.Errorf("ParseSecret(%q) = %+v", text, s)
		}
	})
}
