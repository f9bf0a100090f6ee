package token

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
)

func TestChallenges(t *testing.T) {
	bearer := func(params ...string) Challenge {
		c := Challenge{Scheme: "bearer", Params: map[string]string{}}
		for i := 0; i < len(params); i += 2 {
			c.Params[params[i]] = params[i+1]
		}
		return c
	}
	basic := Challenge{Scheme: "basic", Params: map[string]string{"realm": "r"}}
	for _, tc := range []struct {
		name   string
		values []string
		want   []Challenge
	}{
		{"none", nil, nil},
		{"registry's", []string{`Bearer realm="https://a/t",service="s",scope="repository:a:pull repository:b:pull"`}, []Challenge{
			bearer("realm", "https://a/t", "service", "s", "scope", "repository:a:pull repository:b:pull"),
		}},
		{"error", []string{`Bearer realm="x",error="insufficient_scope"`}, []Challenge{bearer("realm", "x", "error", "insufficient_scope")}},
		{"two in one header", []string{`Basic realm="r", Bearer realm="x"`}, []Challenge{basic, bearer("realm", "x")}},
		{"two headers", []string{`Basic realm="r"`, `Bearer realm="x"`}, []Challenge{basic, bearer("realm", "x")}},
		{"case", []string{`bEARER ReAlM="X"`}, []Challenge{bearer("realm", "X")}},
		{"spaces", []string{" ,, Bearer \t realm = \"x\" , , service\t=\ty ,"}, []Challenge{bearer("realm", "x", "service", "y")}},
		{"escapes", []string{`Bearer realm="a\"b\\c\d, Basic realm=e"`}, []Challenge{bearer("realm", `a"b\cd, Basic realm=e`)}},
		{"comma and equals in quotes", []string{`Bearer realm="http://a/?x=1,y=2",service=s`}, []Challenge{bearer("realm", "http://a/?x=1,y=2", "service", "s")}},
		{"scheme alone", []string{"Negotiate"}, []Challenge{{Scheme: "negotiate"}}},
		{"scheme alone, then another", []string{`Negotiate, Basic realm="r"`}, []Challenge{{Scheme: "negotiate"}, basic}},
		{"token68", []string{`Negotiate YWJj+/==, Basic realm="r"`}, []Challenge{{Scheme: "negotiate", Token68: "YWJj+/=="}, basic}},
		{"not token68", []string{`Bearer a=b`}, []Challenge{bearer("a", "b")}},
		{"scope twice", []string{`Bearer scope="a:b:pull",scope="c:d:pull"`}, []Challenge{bearer("scope", "a:b:pull c:d:pull")}},
		{"realm twice", []string{`Bearer realm="a",realm="b"`}, []Challenge{bearer("realm", "a")}},
		{"open quote", []string{`Bearer realm="a`}, nil},
		{"open escape", []string{`Bearer realm="a\`}, nil},
		{"no value", []string{`Bearer a=b, realm=, service="s"`}, nil},
		{"no value and no other", []string{`Bearer realm=, Basic realm="r"`}, []Challenge{{Scheme: "bearer", Token68: "realm="}, basic}},
		{"no comma", []string{`Bearer realm="a" service="s"`}, nil},
		{"broken after a good one", []string{`Basic realm="r", Bearer realm="`, `Bearer realm="x"`}, []Challenge{basic, bearer("realm", "x")}},
		{"not a scheme", []string{`"Bearer"`, `=`, `Bearer="x"`, "\x00"}, nil},
		{"empty value", []string{`Bearer realm=""`}, []Challenge{bearer("realm", "")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Challenges(http.Header{"Www-Authenticate": tc.values}); !reflect.DeepEqual(got, tc.want) {
				t.Errorf("Challenges(%q) = %q, want %q", tc.values, got, tc.want)
			}
		})
	}
}

func TestChallengesAreBounded(t *testing.T) {
	got := Challenges(http.Header{"Www-Authenticate": {strings.Repeat("Basic,", 1000)}})
	if len(got) != maxChallenges {
		t.Errorf("%d challenges, want %d", len(got), maxChallenges)
	}
}

func FuzzChallenges(f *testing.F) {
	for _, seed := range []string{
		`Bearer realm="https://a/t",service="s",scope="repository:a:pull"`, `Negotiate YWJj==, Basic realm="r"`,
		`Bearer realm="a\"b`, "Basic\t=\t", ",, ,Digest a=b c=d",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		for _, c := range Challenges(http.Header{"Www-Authenticate": {value}}) {
			if c.Scheme == "" || c.Scheme != strings.ToLower(c.Scheme) || (c.Token68 != "" && c.Params != nil) {
				t.Errorf("Challenges(%q) has %q", value, c)
			}
			list := c.Scopes().String()
			if again := ParseScopes(list).String(); again != list {
				t.Errorf("scopes of %q: %q, read again %q", value, list, again)
			}
		}
	})
}
