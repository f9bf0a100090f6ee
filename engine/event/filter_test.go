package event_test

import (
	"strings"
	"testing"

	"moss/engine/event"
	"moss/engine/fault"
)

func TestFilterMatch(t *testing.T) {
	id := strings.Repeat("3f", 32)
	ctr := event.Event{
		Type: event.TypeContainer, Action: "start", ID: id,
		Attributes: map[string]string{"name": "web", "image": "localhost:5000/team/app:v2", "tier": "front", "empty": ""},
	}
	exec := event.Event{Type: event.TypeContainer, Action: "exec_create: sh -c 'a: b'", ID: id}
	img := event.Event{Type: event.TypeImage, Action: "pull", ID: "busybox:latest", Attributes: map[string]string{"name": "busybox"}}
	byID := event.Event{Type: event.TypeImage, Action: "delete", ID: "sha256:" + id}
	hub := event.Event{Type: event.TypeContainer, Action: "die", ID: id, Attributes: map[string]string{"image": "docker.io/library/busybox:1.36"}}
	network := event.Event{Type: event.TypeNetwork, Action: "connect", ID: "ab12", Attributes: map[string]string{"name": "bridge", "container": id}}
	volume := event.Event{Type: event.TypeVolume, Action: "mount", ID: "data"}
	daemon := event.Event{Type: event.TypeDaemon, Action: "reload", ID: "XYZ", Attributes: map[string]string{"name": "host1"}}

	for _, tc := range []struct {
		name  string
		wants map[string][]string
		ev    event.Event
		want  bool
	}{
		{"nothing asked", nil, ctr, true},
		{"no values", map[string][]string{"type": {}}, ctr, true},
		{"type", map[string][]string{"type": {"container"}}, ctr, true},
		{"other type", map[string][]string{"type": {"image", "daemon"}}, ctr, false},
		{"type one of", map[string][]string{"type": {"image", "container"}}, ctr, true},
		{"event", map[string][]string{"event": {"start"}}, ctr, true},
		{"event one of", map[string][]string{"event": {"die", "start"}}, ctr, true},
		{"event is no prefix", map[string][]string{"event": {"sta"}}, ctr, false},
		{"event empty", map[string][]string{"event": {""}}, ctr, false},
		{"exec_create", map[string][]string{"event": {"exec_create"}}, exec, true},
		{"exec_create with command", map[string][]string{"event": {"exec_create: sh -c 'a: b'"}}, exec, true},
		{"exec_start is another", map[string][]string{"event": {"exec_start"}}, exec, false},
		{"exec_cr", map[string][]string{"event": {"exec_cr"}}, exec, false},
		{"container id", map[string][]string{"container": {id}}, ctr, true},
		{"container short id", map[string][]string{"container": {id[:12]}}, ctr, true},
		{"container name", map[string][]string{"container": {"web"}}, ctr, true},
		{"container name with slash", map[string][]string{"container": {"/web"}}, ctr, true},
		{"container name is no prefix", map[string][]string{"container": {"we"}}, ctr, false},
		{"container empty", map[string][]string{"container": {""}}, ctr, false},
		{"container of a network event", map[string][]string{"container": {id}}, network, false},
		{"image exact", map[string][]string{"image": {"localhost:5000/team/app:v2"}}, ctr, true},
		{"image without tag", map[string][]string{"image": {"localhost:5000/team/app"}}, ctr, true},
		{"image other tag", map[string][]string{"image": {"localhost:5000/team/app:v1"}}, ctr, false},
		{"image host only", map[string][]string{"image": {"localhost"}}, ctr, false},
		{"image event by tag", map[string][]string{"image": {"busybox:latest"}}, img, true},
		{"image event by name", map[string][]string{"image": {"busybox"}}, img, true},
		{"image event full name", map[string][]string{"image": {"docker.io/library/busybox"}}, img, true},
		{"image of the hub", map[string][]string{"image": {"busybox"}}, hub, true},
		{"image id", map[string][]string{"image": {"sha256:" + id}}, byID, true},
		{"image id's beginning", map[string][]string{"image": {"sha256:3f"}}, byID, true},
		{"image short id", map[string][]string{"image": {id[:12]}}, byID, true},
		{"image other short id", map[string][]string{"image": {"ab" + id[:12]}}, byID, false},
		{"image few digits are a name", map[string][]string{"image": {id[:4]}}, byID, false},
		{"image without digits", map[string][]string{"image": {"sha256:"}}, byID, false},
		{"image one of", map[string][]string{"image": {"other", "busybox"}}, img, true},
		{"image id is no tag", map[string][]string{"image": {"sha256"}}, byID, false},
		{"image of a volume event", map[string][]string{"image": {""}}, volume, false},
		{"label key", map[string][]string{"label": {"tier"}}, ctr, true},
		{"label value", map[string][]string{"label": {"tier=front"}}, ctr, true},
		{"label other value", map[string][]string{"label": {"tier=back"}}, ctr, false},
		{"label empty value", map[string][]string{"label": {"empty="}}, ctr, true},
		{"label missing", map[string][]string{"label": {"nope"}}, ctr, false},
		{"labels all", map[string][]string{"label": {"tier=front", "nope"}}, ctr, false},
		{"network name", map[string][]string{"network": {"bridge"}}, network, true},
		{"network id", map[string][]string{"network": {"ab"}}, network, true},
		{"volume", map[string][]string{"volume": {"data"}}, volume, true},
		{"daemon name", map[string][]string{"daemon": {"host1"}}, daemon, true},
		{"daemon id", map[string][]string{"daemon": {"XYZ"}}, daemon, true},
		{"daemon against a container", map[string][]string{"daemon": {"web"}}, ctr, false},
		{"keys add up", map[string][]string{"type": {"container"}, "event": {"die"}}, ctr, false},
		{"docker run's", map[string][]string{"type": {"container"}, "container": {id}, "event": {"die", "start"}}, ctr, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, err := event.NewFilter(tc.wants)
			if err != nil {
				t.Fatal(err)
			}
			if got := f.Match(&tc.ev); got != tc.want {
				t.Errorf("%v against %s %s %s: %t, want %t", tc.wants, tc.ev.Type, tc.ev.Action, tc.ev.ID, got, tc.want)
			}
		})
	}
}

func TestNewFilterRefusesUnknownKeys(t *testing.T) {
	_, err := event.NewFilter(map[string][]string{"colour": {"red"}})
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), `"colour"`) {
		t.Errorf("NewFilter = %v, want an Invalid that names the key", err)
	}
}
