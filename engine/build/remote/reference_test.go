package remote

import (
	"strings"
	"testing"

	"moss/engine/fault"
)

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		text string
		want reference
		url  string
	}{
		{"https://h/a.git", reference{subdir: ".", submodules: true}, "https://h/a.git"},
		{"https://me:secret@h:1/a.git#v1:sub/x/", reference{ref: "v1", subdir: "sub/x", submodules: true}, "https://h:1/a.git"},
		{"git://h/a#:../../x", reference{subdir: "x", submodules: true}, "git://h/a"},
		{"github.com/me/a#b/c", reference{ref: "b/c", subdir: ".", submodules: true}, "https://github.com/me/a"},
		{"http://h/a.git?branch=b&subdir=s&submodules=false&keep-git-dir&commit=0123abc", reference{ref: "refs/heads/b", subdir: "s", checksum: "0123abc", keep: true}, "http://h/a.git"},
		{"http://h/a.git?tag=v1#refs/tags/v1", reference{ref: "refs/tags/v1", subdir: ".", submodules: true}, "http://h/a.git"},
	} {
		got, err := parseReference(tc.text)
		if err != nil {
			t.Errorf("parse(%q) = %v", tc.text, err)
			continue
		}
		if got.remote.String() != tc.url || (got.user != nil) != strings.Contains(tc.text, "secret") {
			t.Errorf("parse(%q) = %s as %v, want %s", tc.text, got.remote, got.user, tc.url)
		}
		got.remote, got.user = nil, nil
		if *got != tc.want {
			t.Errorf("parse(%q) = %+v, want %+v", tc.text, *got, tc.want)
		}
	}
}

func TestParseFails(t *testing.T) {
	for text, want := range map[string]string{
		"git@h:a/b.git":                          "builds do not use ssh",
		"ssh://git@h/a.git":                      "builds do not use ssh",
		"ext::sh -c touch":                       "not from",
		"file:///srv/a.git":                      "not from file://",
		"/srv/a.git":                             "not from ://",
		"https:///a.git":                         "no good host",
		"https://-oProxyCommand=x/a.git":         "no good host",
		"https://h/-a.git":                       "no good host",
		"https://me:secret@h:x/a.git":            "cannot be read",
		"https://h/a.git#--upload-pack=x":        `the git reference "--upload-pack=x" is none`,
		"https://h/a.git#+refs/*":                "is none",
		"https://h/a.git#a..b":                   "is none",
		"https://h/a.git#a%20b":                  "is none",
		"https://h/a.git#%0a":                    "is none",
		"https://h/a.git?ref=x#y":                "no reference, or several",
		"https://h/a.git?ref=":                   "no reference, or several",
		"https://h/a.git?ref=x&ref=x":            `several "ref"`,
		"https://h/a.git?x=y":                    `unexpected query "x"`,
		"https://h/a.git?submodules=maybe":       "neither true nor false",
		"https://h/a.git?commit=--x":             "not a commit",
		"https://h/" + strings.Repeat("x", 9000): "more than 8192",
	} {
		_, err := parseReference(text)
		if kind := fault.KindOf(err); kind != fault.KindInvalid && kind != fault.KindUnsupported || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("parse(%.60q) = %v, want %q", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("https://me:x@h/a.git?tag=v1#refs/tags/v1:sub")
	f.Add("github.com/a/b#-x")
	f.Add("git@h:x")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := parseReference(text)
		if err != nil {
			if kind := fault.KindOf(err); kind != fault.KindInvalid && kind != fault.KindUnsupported {
				t.Errorf("parse(%q) = %v", text, err)
			}
			return
		}
		if s := r.remote.Scheme; s != "http" && s != "https" && s != "git" || r.remote.User != nil {
			t.Errorf("parse(%q) leads to %s", text, r.remote)
		}
		if strings.HasPrefix(r.ref, "-") || strings.ContainsAny(r.ref, " \n:*") || strings.HasPrefix(r.subdir, "..") || strings.HasPrefix(r.subdir, "/") {
			t.Errorf("parse(%q) = %+v", text, r)
		}
	})
}
