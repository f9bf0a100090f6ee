package imagesvc

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"moss/engine/fault"
	"moss/engine/image"
	"moss/storage"
)

func TestPrune(t *testing.T) {
	now := time.Now()
	for _, tc := range []struct {
		name    string
		filters map[string][]string
		want    string // short names of the images that go
		events  string
	}{
		{name: "dangling", want: "digested loose old", events: "delete,delete,delete,untag"},
		{name: "dangling=true", filters: map[string][]string{"dangling": {"true"}}, want: "digested loose old", events: "delete,delete,delete,untag"},
		{
			name: "all", filters: map[string][]string{"dangling": {"false"}}, want: "base child digested labelled loose old step",
			events: "delete,delete,delete,delete,delete,delete,delete,untag,untag,untag,untag,untag",
		},
		{name: "until", filters: map[string][]string{"until": {"1h"}}, want: "old", events: "delete"},
		{name: "until a time", filters: map[string][]string{"until": {now.Add(-time.Hour).Format(time.RFC3339)}}, want: "old", events: "delete"},
		{name: "label", filters: map[string][]string{"dangling": {"0"}, "label": {"a=1"}}, want: "labelled", events: "delete,untag"},
		{name: "label that none has", filters: map[string][]string{"dangling": {"0"}, "label": {"a=2"}}},
		{name: "not the label", filters: map[string][]string{"label!": {"b"}}, want: "digested old", events: "delete,delete,untag"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, st, events := newService(t, Limits{})
			names := map[string]string{}
			add := func(short, base string, spec storage.ImageSpec, as ...string) *image.Image {
				spec.Comment = short
				img := made(t, st, base, short, spec, as...)
				names[img.ID] = short
				return img
			}
			label := func(l string) image.Config { return image.Config{Labels: map[string]string{l: "1"}} }
			base := add("base", "", storage.ImageSpec{}, "base", "base:2")
			step := add("step", base.ID, storage.ImageSpec{})
			add("child", step.ID, storage.ImageSpec{}, "child")
			add("loose", "", storage.ImageSpec{Config: label("b")})
			add("old", "", storage.ImageSpec{Created: now.Add(-2 * time.Hour)})
			add("labelled", "", storage.ImageSpec{Config: label("a")}, "labelled")
			add("digested", "", storage.ImageSpec{}, "h/d@"+digest.FromString("d").String())
			used := add("used", "", storage.ImageSpec{Created: now.Add(-3 * time.Hour)})
			usedToo := add("used too", "", storage.ImageSpec{Config: label("a")}, "used", "used:2")
			held := add("held", "", storage.ImageSpec{Config: label("a"), Created: now.Add(-3 * time.Hour)}, "held")
			s.SetUsers(keepers{used.ID: {{ContainerID: "1"}}, usedToo.ID: {{ContainerID: "2", Running: true}}})
			_, release, err := s.holdImage(t.Context(), held.ID, "saved")
			if err != nil {
				t.Fatal(err)
			}
			defer release()
			before, err := s.Usage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			removed, reclaimed, err := s.Prune(t.Context(), tc.filters)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range removed {
				if name := names[r.Deleted]; name != "" {
					got = append(got, name)
				}
			}
			slices.Sort(got)
			if strings.Join(got, " ") != tc.want {
				t.Errorf("Prune(%v) = %v, want %s", tc.filters, got, tc.want)
			}
			after, err := s.Usage(t.Context())
			if err != nil || reclaimed != before.LayersSize-after.LayersSize {
				t.Errorf("reclaimed = %d, %v, want %d", reclaimed, err, before.LayersSize-after.LayersSize)
			}
			actions := strings.Split(events.take(), ",")
			slices.Sort(actions)
			if strings.Join(actions, ",") != tc.events {
				t.Errorf("events = %v, want %s", actions, tc.events)
			}
			for _, img := range []*image.Image{used, usedToo, held} {
				if now, err := s.Get(t.Context(), img.ID); err != nil || len(now.RepoTags) != len(img.RepoTags) {
					t.Errorf("an image that is in use = %+v, %v, want it with its names", now, err)
				}
			}
		})
	}
}

func TestPruneRefuses(t *testing.T) {
	s, _, _ := newService(t, Limits{})
	for _, filters := range []map[string][]string{
		{"dangling": {"maybe"}}, {"until": {}}, {"until": {"1h", "2h"}}, {"until": {"yesterday"}}, {"reference": {"x"}}, {"dangling": {"0", "1"}},
	} {
		if _, _, err := s.Prune(t.Context(), filters); !fault.Is(err, fault.Invalid) {
			t.Errorf("Prune(%v) = %v, want an invalid fault", filters, err)
		}
	}
}
