package token

import (
	"strings"
	"testing"
)

func TestScopes(t *testing.T) {
	for _, tc := range []struct{ name, list, want string }{
		{"empty", "", ""},
		{"one", "repository:a/b:pull", "repository:a/b:pull"},
		{"several are sorted", "repository:b:pull repository:a:push", "repository:a:push repository:b:pull"},
		{"actions are sorted", "repository:a:push,pull,delete", "repository:a:delete,pull,push"},
		{"given twice", "repository:a:pull  repository:a:pull", "repository:a:pull"}, //nolint:dupword // on purpose,
		{"actions are merged", "repository:a:push repository:b:pull repository:a:pull", "repository:a:pull,push repository:b:pull"},
		{"a port in the name", "repository:host:5000/a:pull", "repository:host:5000/a:pull"},
		{"a class", "repository(plugin):a:pull", "repository(plugin):a:pull"},
		{"registry", "registry:catalog:*", "registry:catalog:*"},
		{"no actions", "repository:a:", "repository:a:"},
		{"another form stays", "openid repository:a:pull offline", "offline openid repository:a:pull"},
		{"another form with colons", "a::b :x: ::", ":: :x: a::b"},
		{"not a scope", "a\"b repository:\x01:pull repository:é:pull x\\y ok", "ok"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := ParseScopes(tc.list).String(); got != tc.want {
				t.Errorf("ParseScopes(%q) = %q, want %q", tc.list, got, tc.want)
			}
		})
	}
}

func TestScopesWith(t *testing.T) {
	challenge := ParseScopes("repository:b:pull repository:a:pull")
	got := challenge.With(Repository("a", "push", "pull"), Repository("c", "pull"))
	if want := "repository:a:pull,push repository:b:pull repository:c:pull"; got.String() != want {
		t.Errorf("With = %q, want %q", got, want)
	}
	if want := "repository:a:pull repository:b:pull"; challenge.String() != want {
		t.Errorf("the list itself became %q, want %q", challenge, want)
	}
}

func FuzzParseScopes(f *testing.F) {
	f.Add("repository:a:pull,push repository:b:pull")
	f.Add(":: a: :b c")
	f.Fuzz(func(t *testing.T, list string) {
		text := ParseScopes(list).String()
		if again := ParseScopes(text).String(); again != text {
			t.Errorf("ParseScopes(%q) = %q, read again %q", list, text, again)
		}
		if strings.ContainsAny(text, "\r\n\x00\"") {
			t.Errorf("ParseScopes(%q) = %q", list, text)
		}
	})
}
