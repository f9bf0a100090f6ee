package network

import (
	"slices"
	"strings"
	"testing"

	"moss/engine/fault"
)

func TestFilters(t *testing.T) {
	s, _, _ := open(t, t.TempDir())
	red := create(t, s, CreateOptions{Name: "red", Labels: map[string]string{"tier": "web", "keep": ""}})
	create(t, s, CreateOptions{Name: "red2", Labels: map[string]string{"tier": "db"}})
	for _, tc := range []struct {
		filters map[string][]string
		want    string
	}{
		{nil, "bridge host none red red2"},
		{map[string][]string{"name": {"re"}}, "red red2"},
		{map[string][]string{"name": {"^red$"}}, "red"},
		{map[string][]string{"name": {"red", "none"}}, "none red red2"},
		{map[string][]string{"name": {}}, "bridge host none red red2"},
		{map[string][]string{"id": {red.ID}}, "red"},
		{map[string][]string{"id": {red.ID[5:30]}}, "red"},
		{map[string][]string{"type": {"custom"}}, "red red2"},
		{map[string][]string{"type": {"builtin"}}, "bridge host none"},
		{map[string][]string{"type": {"builtin", "custom"}}, "bridge host none red red2"},
		{map[string][]string{"driver": {"null", "host"}}, "host none"},
		{map[string][]string{"driver": {"bri"}}, ""},
		{map[string][]string{"driver": {"bridge"}, "type": {"builtin"}}, "bridge"},
		{map[string][]string{"label": {"tier"}}, "red red2"},
		{map[string][]string{"label": {"tier=web"}}, "red"},
		{map[string][]string{"label": {"tier", "keep"}}, "red"},
		{map[string][]string{"label": {"none"}}, ""},
		{map[string][]string{"dangling": {"true"}}, "red2"},
		{map[string][]string{"dangling": {"0"}}, "bridge host none red"},
		{map[string][]string{"dangling": {}}, "bridge host none red red2"},
	} {
		if got := names(t, s, tc.filters, red.ID); got != tc.want {
			t.Errorf("List(%v) = %q, want %q", tc.filters, got, tc.want)
		}
	}
	for _, filters := range []map[string][]string{
		{"dangling": {"yes and no"}}, {"nope": {}}, {"type": {"swarm"}}, {"name": {"("}}, {"id": {strings.Repeat("a", 5000)}},
	} {
		if _, err := s.List(filters, nil, nil); !fault.Is(err, fault.Invalid) {
			t.Errorf("List(%v) = %v, want fault.Invalid", filters, err)
		}
	}
}

func TestPrune(t *testing.T) {
	s, d, _ := open(t, t.TempDir())
	none := func(string) bool { return false }
	prune := func(filters map[string][]string, used func(string) bool, want ...string) {
		t.Helper()
		removed, err := s.Prune(t.Context(), filters, PruneOptions{Used: used})
		if err != nil || !slices.Equal(removed, want) {
			t.Errorf("Prune(%v) = %q, %v, want %q", filters, removed, err, want)
		}
	}
	prune(nil, none)
	create(t, s, CreateOptions{Name: "a", Labels: map[string]string{"tier": "web"}})
	create(t, s, CreateOptions{Name: "b", Labels: map[string]string{"keep": ""}})
	c := create(t, s, CreateOptions{Name: "c"})
	busy := create(t, s, CreateOptions{Name: "d"})
	d.busy[busy.ID] = true
	prune(map[string][]string{"until": {"1h"}}, none)
	prune(map[string][]string{"label": {"tier=web"}}, none, "a")
	prune(map[string][]string{"label!": {"keep"}}, func(networkID string) bool { return networkID == c.ID })
	prune(map[string][]string{"label!": {"keep"}}, none, "c")
	prune(nil, none, "b")
	if got := names(t, s, nil); got != "bridge d host none" {
		t.Errorf("left: %q, want the built-in ones and the one in use", got)
	}
	for _, filters := range []map[string][]string{{"name": {"d"}}, {"until": {"soon"}}} {
		if _, err := s.Prune(t.Context(), filters, PruneOptions{Used: none}); !fault.Is(err, fault.Invalid) {
			t.Errorf("Prune(%v) = %v, want fault.Invalid", filters, err)
		}
	}
	d.fail = fault.Internal("no namespace")
	if _, err := s.Prune(t.Context(), nil, PruneOptions{Used: none}); err == nil || fault.Is(err, fault.Conflict) {
		t.Errorf("Prune with a broken driver = %v, want its error", err)
	}
}
