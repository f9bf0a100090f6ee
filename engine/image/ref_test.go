package image

import (
	"strings"
	"testing"

	"moss/engine/fault"
)

const hexID = "4bcff63911fcb4448bd4fdacec207030997caf25e9bea4045fa6c8c44de311d1"

func TestParseRef(t *testing.T) {
	for _, tc := range []struct {
		name, in, familiar, canonical, tag, digest string
	}{
		{"bare", "alpine", "alpine:latest", "docker.io/library/alpine:latest", "latest", ""},
		{"tag", "alpine:3", "alpine:3", "docker.io/library/alpine:3", "3", ""},
		{"user", "me/app", "me/app:latest", "docker.io/me/app:latest", "latest", ""},
		{"registry", "127.0.0.1:5000/a/b:t", "127.0.0.1:5000/a/b:t", "127.0.0.1:5000/a/b:t", "t", ""},
		{"localhost", "localhost/x", "localhost/x:latest", "localhost/x:latest", "latest", ""},
		{"legacy", "index.docker.io/library/x", "x:latest", "docker.io/library/x:latest", "latest", ""},
		{"digest", "a@sha256:" + hexID, "a@sha256:" + hexID, "docker.io/library/a@sha256:" + hexID, "", "sha256:" + hexID},
		{"both", "a:t@sha256:" + hexID, "a:t@sha256:" + hexID, "docker.io/library/a:t@sha256:" + hexID, "t", "sha256:" + hexID},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := ParseRef(tc.in)
			if err != nil {
				t.Fatalf("ParseRef(%q): %v", tc.in, err)
			}
			if got := r.Familiar(); got != tc.familiar {
				t.Errorf("Familiar(%q) = %q, want %q", tc.in, got, tc.familiar)
			}
			if got := r.Canonical(); got != tc.canonical {
				t.Errorf("Canonical(%q) = %q, want %q", tc.in, got, tc.canonical)
			}
			if r.Tag() != tc.tag || r.Digest() != tc.digest {
				t.Errorf("Tag, Digest of %q = %q, %q, want %q, %q", tc.in, r.Tag(), r.Digest(), tc.tag, tc.digest)
			}
		})
	}
}

func TestParseRefRefuses(t *testing.T) {
	for _, in := range []string{"", "UPPER", "a b", "a:", ":t", "a@sha256:1", "-x", "a//b", hexID, "../etc", strings.Repeat("a", 300)} {
		_, err := ParseRef(in)
		if !fault.Is(err, fault.Invalid) {
			t.Errorf("ParseRef(%q) = %v, want an invalid fault", in, err)
			continue
		}
		if !strings.HasPrefix(err.Error(), "invalid reference format") {
			t.Errorf("ParseRef(%q) says %q, want it to begin with invalid reference format", in, err)
		}
	}
}

func TestParseRepoTag(t *testing.T) {
	for _, tc := range []struct{ repo, tag, want string }{
		{"a", "", "a:latest"},
		{"a:x", "", "a:x"},
		{"a", "t", "a:t"},
		{"a:x", "t", "a:t"},
		{"h:1/a", "t", "h:1/a:t"},
		{"a", "sha256:" + hexID, "a@sha256:" + hexID},
	} {
		r, err := ParseRepoTag(tc.repo, tc.tag)
		if err != nil || r.Familiar() != tc.want {
			t.Errorf("ParseRepoTag(%q, %q) = %q, %v, want %q", tc.repo, tc.tag, r.Familiar(), err, tc.want)
		}
	}
	for _, tc := range [][2]string{{"a", "b c"}, {"A", "t"}, {"a", "sha256:12"}, {"", "t"}} {
		if r, err := ParseRepoTag(tc[0], tc[1]); !fault.Is(err, fault.Invalid) {
			t.Errorf("ParseRepoTag(%q, %q) = %q, %v, want an invalid fault", tc[0], tc[1], r.Familiar(), err)
		}
	}
}

func TestCanName(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "sha256/a": true, "h:1/sha256": true, "sha256": false, "sha256:abc": false, "docker.io/library/sha256:abc": false,
	} {
		r, err := ParseRef(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.CanName(); err == nil != want || err != nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("CanName(%q) = %v, want it to be right: %t", name, err, want)
		}
	}
}

func TestWithoutTag(t *testing.T) {
	for in, want := range map[string]string{
		"a":                     "a:latest",
		"a@sha256:" + hexID:     "a@sha256:" + hexID,
		"a:1.2@sha256:" + hexID: "a@sha256:" + hexID,
	} {
		r, err := ParseRef(in)
		if err != nil {
			t.Fatalf("ParseRef(%q): %v", in, err)
		}
		if got := r.WithoutTag().Familiar(); got != want {
			t.Errorf("WithoutTag(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestMatch(t *testing.T) {
	r, err := ParseRef("alpine:3.1")
	if err != nil {
		t.Fatal(err)
	}
	for pattern, want := range map[string]bool{
		"alpine": true, "alp*": true, "alpine:3*": true, "alpine:4": false, "me/*": false, "*:3.1": true,
	} {
		if got, err := r.Match(pattern); err != nil || got != want {
			t.Errorf("Match(alpine:3.1, %q) = %v, %v, want %v", pattern, got, err, want)
		}
	}
	if _, err := r.Match("["); !fault.Is(err, fault.Invalid) {
		t.Errorf("Match([) = %v, want an invalid fault", err)
	}
}

func TestParseLookup(t *testing.T) {
	for _, tc := range []struct{ in, show, id, prefix string }{
		{"alpine", "alpine:latest", "", ""},
		{"4bcf", "4bcf:latest", "", "4bcf"},
		{"sha256:4bcf", "sha256:4bcf", "", "4bcf"},
		{hexID, "sha256:" + hexID, "sha256:" + hexID, hexID},
		{"sha256:" + hexID, "sha256:" + hexID, "sha256:" + hexID, hexID},
	} {
		l, err := ParseLookup(tc.in)
		if err != nil {
			t.Errorf("ParseLookup(%q): %v", tc.in, err)
			continue
		}
		if l.String() != tc.show || l.ID != tc.id || l.Prefix != tc.prefix {
			t.Errorf("ParseLookup(%q) = %q, id %q, prefix %q, want %q, %q, %q", tc.in, l, l.ID, l.Prefix, tc.show, tc.id, tc.prefix)
		}
	}
	if _, err := ParseLookup("Not a name"); !fault.Is(err, fault.Invalid) {
		t.Errorf("ParseLookup(Not a name) = %v, want an invalid fault", err)
	}
	l, err := ParseLookup("4bcf")
	if err != nil || !l.IsIDOf("sha256:"+hexID) || l.IsIDOf("sha256:5"+hexID[1:]) {
		t.Errorf("IsIDOf: 4bcf is the beginning of %s only", hexID)
	}
	if got := NoSuch(l.String()).Error(); got != "No such image: 4bcf:latest" {
		t.Errorf("NoSuch says %q", got)
	}
}

func FuzzParseRef(f *testing.F) {
	for _, s := range []string{"alpine", "h:1/a/b:t@sha256:" + hexID, hexID, "sha256:ab", "", "A:b", "a:b:c", "a@b"} {
		f.Add(s, "t")
	}
	f.Fuzz(func(t *testing.T, s, tag string) {
		r, err := ParseRef(s)
		if err == nil {
			again, err := ParseRef(r.Canonical())
			if err != nil || again.Canonical() != r.Canonical() {
				t.Errorf("ParseRef(%q).Canonical() = %q does not parse to itself: %q, %v", s, r.Canonical(), again.Canonical(), err)
			}
			again, err = ParseRef(r.Familiar())
			if err != nil || again.Canonical() != r.Canonical() {
				t.Errorf("ParseRef(%q).Familiar() = %q means %q, %v, want %q", s, r.Familiar(), again.Canonical(), err, r.Canonical())
			}
			if r.Tag() == "" && r.Digest() == "" {
				t.Errorf("ParseRef(%q) has neither tag nor digest", s)
			}
		} else if !fault.Is(err, fault.Invalid) {
			t.Errorf("ParseRef(%q): %v is no invalid fault", s, err)
		}
		if l, err := ParseLookup(s); err == nil && l.Ref.IsZero() && l.Prefix == "" {
			t.Errorf("ParseLookup(%q) means nothing", s)
		}
		if _, err := ParseRepoTag(s, tag); err != nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("ParseRepoTag(%q, %q): %v is no invalid fault", s, tag, err)
		}
	})
}
