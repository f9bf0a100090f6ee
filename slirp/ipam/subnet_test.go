package ipam

import (
	"net/netip"
	"testing"

	"moss/engine/fault"
)

func prefixes(all ...string) []netip.Prefix {
	ps := make([]netip.Prefix, 0, len(all))
	for _, s := range all {
		ps = append(ps, netip.MustParsePrefix(s))
	}
	return ps
}

func TestChoose(t *testing.T) {
	for _, tc := range []struct {
		name  string
		wish  string
		taken []netip.Prefix
		want  string
	}{
		{"nothing taken", "", nil, "172.17.0.0/16"},
		{"a small part taken", "", prefixes("172.17.255.0/30"), "172.18.0.0/16"},
		{"a larger network taken", "", prefixes("172.16.0.0/12"), "192.168.0.0/20"},
		{"the home network too", "", prefixes("172.16.0.0/12", "192.168.0.0/24", "192.168.16.1/32"), "192.168.32.0/20"},
		{"all but ten", "", prefixes("172.16.0.0/12", "192.168.0.0/16", "10.255.0.0/16"), "10.254.0.0/16"},
		{"the wish is free", "172.25.0.0/16", prefixes("172.17.0.0/16"), "172.25.0.0/16"},
		{"the wish is taken", "172.25.0.0/16", prefixes("172.25.3.0/24"), "172.17.0.0/16"},
		{"nothing left", "", prefixes("172.16.0.0/12", "192.168.0.0/16", "10.0.0.0/8"), ""},
	} {
		var wish netip.Prefix
		if tc.wish != "" {
			wish = netip.MustParsePrefix(tc.wish)
		}
		got, err := Choose(wish, tc.taken)
		if tc.want == "" {
			if !fault.Is(err, fault.Unavailable) {
				t.Errorf("%s: Choose = %s, %v; want an Unavailable fault", tc.name, got, err)
			}
			continue
		}
		if err != nil || got.String() != tc.want {
			t.Errorf("%s: Choose = %s, %v; want %s", tc.name, got, err, tc.want)
		}
	}
}

func TestCandidatesAreNetworksAndDiffer(t *testing.T) {
	var seen []netip.Prefix
	uplink := netip.MustParsePrefix("10.0.2.0/24")
	for p := range candidateSubnets {
		if p != p.Masked() {
			t.Errorf("candidate %s is no network", p)
		}
		if p.Overlaps(uplink) {
			t.Errorf("candidate %s overlaps the uplink", p)
		}
		for _, s := range seen {
			if s.Overlaps(p) {
				t.Errorf("candidates %s and %s overlap", s, p)
			}
		}
		seen = append(seen, p)
	}
	if len(seen) != 15+16+255 {
		t.Errorf("%d candidates, want %d", len(seen), 15+16+255)
	}
}

func TestUnique(t *testing.T) {
	a, again, b := Unique("a"), Unique("a"), Unique("b")
	if a != again || a.Overlaps(b) {
		t.Errorf("Unique(a) = %s and %s, Unique(b) = %s; want the same for the same", a, again, b)
	}
	if a.Bits() != 64 || a != a.Masked() || !a.Addr().IsPrivate() {
		t.Errorf("Unique(a) = %s, want /64 of the unique local addresses", a)
	}
}

// TestDefaultSources: each subnet that may be chosen lies in one source, with its size, and each source has one.
func TestDefaultSources(t *testing.T) {
	used := map[netip.Prefix]int{}
	for p := range candidateSubnets {
		in := 0
		for _, source := range DefaultSources() {
			if source.Base.Contains(p.Addr()) {
				used[source.Base]++
				in++
				if p.Bits() != source.Size {
					t.Errorf("%s is of %s, whose subnets have %d bits", p, source.Base, source.Size)
				}
			}
		}
		if in != 1 {
			t.Errorf("%s lies in %d sources, want one", p, in)
		}
	}
	if len(used) != len(DefaultSources()) {
		t.Errorf("%d of %d sources are used", len(used), len(DefaultSources()))
	}
}
