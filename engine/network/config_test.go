package network

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"moss/engine/fault"
	"moss/engine/id"
)

// TestConfigurationNetworks: one that holds settings is none of the driver's, another one takes them and keeps it, and the next
// engine has both.
func TestConfigurationNetworks(t *testing.T) {
	dir := t.TempDir()
	s, d, events := open(t, dir)
	config := create(t, s, CreateOptions{
		Name: "config", ConfigOnly: true, EnableIPv6: true, Labels: map[string]string{"a": "1"}, Options: map[string]string{OptionMTU: "1400"},
		IPAM: IPAMRequest{Pools: []PoolRequest{{Subnet: "10.1.0.0/16"}, {Subnet: "fd00:1::/64", Gateway: "fd00:1::7"}}},
	})
	if config.Driver != DriverNull || config.Device != "" || config.CheckJoin(t.Context()) == nil || len(d.ids()) != 1 {
		t.Errorf("made %+v, the driver has %q; want a network that nothing can be in", config, d.ids())
	}
	made := create(t, s, CreateOptions{Name: "front", Driver: "bridge", Internal: true, ConfigFrom: config.ID[:20]})
	v4, _ := made.Pool(false)
	v6, _ := made.Pool(true)
	if made.ConfigFrom != "config" || made.ConfigOnly || made.Driver != DriverBridge || !made.Internal || !made.EnableIPv6 || made.Labels["a"] != "1" ||
		made.Options[OptionMTU] != "1400" || v4.Gateway != netip.MustParseAddr("10.1.0.1") || v6.Gateway != netip.MustParseAddr("fd00:1::7") || made.CheckJoin(t.Context()) != nil {
		t.Errorf("made %+v of %+v", made, config)
	}
	if config.IPAM.Pools[0].Gateway.IsValid() {
		t.Error("the driver's gateway came into the settings")
	}
	again, _, _ := open(t, dir)
	for _, want := range []*Network{config, made} {
		if got, err := again.Find(want.Name); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("the next engine has %+v, %v; want %+v", got, err, want)
		}
	}
	if err := s.Remove(t.Context(), "config"); !fault.Is(err, fault.Forbidden) || !strings.Contains(err.Error(), "network front has its settings") {
		t.Errorf("Remove = %v, want fault.Forbidden and who has the settings", err)
	}
	removed, err := s.Prune(t.Context(), nil, PruneOptions{Used: func(string) bool { return false }})
	must(t, err)
	if len(removed) != 1 || removed[0] != "front" {
		t.Errorf("pruned %q, want front alone", removed)
	}
	must(t, s.Remove(t.Context(), "config"))
	if len(files(t, dir)) != 1 || events.list[0] != "network create "+config.ID+" config null" {
		t.Errorf("left %q, events %q", files(t, dir), events.list)
	}
}

func TestConfigurationNetworksRefused(t *testing.T) {
	s, d, _ := open(t, t.TempDir())
	create(t, s, CreateOptions{Name: "plain"})
	for range 2 {
		create(t, s, CreateOptions{Name: "twin", ConfigOnly: true})
	}
	create(t, s, CreateOptions{Name: "config", ConfigOnly: true})
	before, listed := len(d.ids()), names(t, s, nil)
	for name, tc := range map[string]struct {
		opt  CreateOptions
		kind fault.Constructor
		text string
	}{
		"both":           {CreateOptions{ConfigOnly: true, ConfigFrom: "config"}, fault.Forbidden, "another one"},
		"internal":       {CreateOptions{ConfigOnly: true, Internal: true}, fault.Forbidden, "Internal"},
		"attachable":     {CreateOptions{ConfigOnly: true, Attachable: true}, fault.Forbidden, "Attachable"},
		"own IPv6":       {CreateOptions{ConfigFrom: "config", EnableIPv6: true}, fault.Forbidden, "EnableIPv6"},
		"own labels":     {CreateOptions{ConfigFrom: "config", Labels: map[string]string{"a": ""}}, fault.Forbidden, "Labels"},
		"own options":    {CreateOptions{ConfigFrom: "config", Options: map[string]string{"a": ""}}, fault.Forbidden, "Options"},
		"own subnet":     {CreateOptions{ConfigFrom: "config", IPAM: pool("10.1.0.0/16")}, fault.Forbidden, "IPAM.Config"},
		"own IPAM":       {CreateOptions{ConfigFrom: "config", IPAM: IPAMRequest{Driver: "null"}}, fault.Forbidden, "IPAM.Driver"},
		"IPAM options":   {CreateOptions{ConfigFrom: "config", IPAM: IPAMRequest{Options: map[string]string{"a": ""}}}, fault.Forbidden, "IPAM.Options"},
		"not there":      {CreateOptions{ConfigFrom: "nosuch"}, fault.NotFound, "configuration network nosuch not found"},
		"no such one":    {CreateOptions{ConfigFrom: "plain"}, fault.NotFound, "configuration network plain not found"},
		"two":            {CreateOptions{ConfigFrom: "twin"}, fault.Conflict, "ambiguous"},
		"wrong settings": {CreateOptions{ConfigOnly: true, IPAM: pool("10.1.2.3/16")}, fault.Invalid, "10.1.0.0/16"},
	} {
		tc.opt.Name = "x"
		if _, _, err := s.Create(t.Context(), tc.opt); !fault.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.text) {
			t.Errorf("%s: error %v, want another kind or %q", name, err, tc.text)
		}
	}
	if got := names(t, s, nil); got != listed || len(d.ids()) != before {
		t.Errorf("networks %q, want %q as before; the driver has %q", got, listed, d.ids())
	}
}

// TestConfigurationRecords: what no engine has written is set aside.
func TestConfigurationRecords(t *testing.T) {
	dir := t.TempDir()
	for text, digit := range map[string]string{
		`"Name":"good","Driver":"null","IPAM":{"Pools":[{"Subnet":"10.1.0.0/16"}]}`:                   "1",
		`"Name":"bridge","Driver":"null"`:                                                             "2",
		`"Name":"a/b","Driver":"null"`:                                                                "3",
		`"Name":"x","Driver":"bridge"`:                                                                "4",
		`"Name":"x","Driver":"null","Device":"eth0"`:                                                  "5",
		`"Name":"x","Driver":"null","IPAM":{"Pools":[{"Subnet":"10.1.0.0/16","Gateway":"10.2.0.1"}]}`: "6",
		`"Name":"x","Driver":"null","IPAM":{"Pools":[{}]}`:                                            "7",
		`"Name":"x","Driver":"null","Options":{"` + OptionMTU + `":"x"}`:                              "8",
		`"Name":"x","Driver":"null","ConfigFrom":"good"`:                                              "9",
	} {
		networkID := strings.Repeat(digit, 64)
		if !id.Is(networkID) {
			t.Fatal(networkID)
		}
		must(t, os.WriteFile(filepath.Join(dir, networkID+".json"), []byte(`{"ID":"`+networkID+`","ConfigOnly":true,`+text+`}`), 0o600))
	}
	s, _, _ := open(t, dir)
	if got := names(t, s, nil); got != "bridge good host none" {
		t.Errorf("networks %q, want the good one beside the built-in ones", got)
	}
}
