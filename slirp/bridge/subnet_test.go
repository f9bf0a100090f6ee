package bridge

import (
	"net/netip"
	"os"
	"path/filepath"
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
		got, err := choose(wish, tc.taken)
		if tc.want == "" {
			if !fault.Is(err, fault.Unavailable) {
				t.Errorf("%s: choose = %s, %v; want an Unavailable fault", tc.name, got, err)
			}
			continue
		}
		if err != nil || got.String() != tc.want {
			t.Errorf("%s: choose = %s, %v; want %s", tc.name, got, err, tc.want)
		}
	}
}

func TestCandidatesAreNetworksAndDiffer(t *testing.T) {
	var seen []netip.Prefix
	uplink := netip.MustParsePrefix("10.0.2.0/24")
	for p := range candidates {
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

func TestStoreAndLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "networks", "bridge.json")
	if s, err := load(path); err != nil || s != (saved{}) {
		t.Errorf("load of a missing file = %+v, %v; want nothing", s, err)
	}
	for _, subnet := range []string{"172.17.0.0/16", "192.168.16.0/20"} { // the second replaces the first
		want := saved{ID: NewID(), Subnet: netip.MustParsePrefix(subnet)}
		if err := store(path, want); err != nil {
			t.Fatal(err)
		}
		if got, err := load(path); err != nil || got != want {
			t.Errorf("load = %+v, %v; want %+v", got, err, want)
		}
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("beside the file: %v, %v; want nothing", entries, err)
	}
}

func TestParseSavedRefusesWhatCannotBe(t *testing.T) {
	const id = `"id":"1111111111111111111111111111111111111111111111111111111111111111"`
	for _, tc := range []struct {
		text         string
		id, isSubnet bool
	}{
		{`{` + id + `,"subnet":"172.17.0.0/16"}`, true, true},
		{`{` + id + `,"subnet":"172.17.0.1/16"}`, true, false},
		{`{` + id + `,"subnet":"fd00::/16"}`, true, false},
		{`{` + id + `,"subnet":"172.17.0.0/30"}`, true, false},
		{`{` + id + `,"subnet":"0.0.0.0/0"}`, true, false},
		{`{` + id + `}`, true, false},
		{`{"id":"x","subnet":"172.17.0.0/16"}`, false, false},
		{`{` + id + `,"subnet":"172.17.0.0/16"`, false, false},
		{``, false, false},
	} {
		s := parseSaved([]byte(tc.text))
		if (s.ID != "") != tc.id || s.Subnet.IsValid() != tc.isSubnet {
			t.Errorf("parseSaved(%s) = %+v, want id %v, subnet %v", tc.text, s, tc.id, tc.isSubnet)
		}
	}
}

func FuzzParseSaved(f *testing.F) {
	f.Add([]byte(`{"id":"1111111111111111111111111111111111111111111111111111111111111111","subnet":"172.17.0.0/16"}`))
	f.Add([]byte(`{"subnet":"::/0"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := parseSaved(data)
		if s.ID != "" && len(s.ID) != 64 {
			t.Errorf("id %q", s.ID)
		}
		if s.Subnet.IsValid() && (!s.Subnet.Addr().Is4() || s.Subnet != s.Subnet.Masked() || s.Subnet.Bits() > 24) {
			t.Errorf("subnet %s", s.Subnet)
		}
	})
}
