package main

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/rs/zerolog"

	"moss/engine/config"
	"moss/engine/event"
)

func TestReloadEvent(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		cfg  config.Config
		want map[string]string
	}{
		{
			"what is set",
			config.Config{LogLevel: "debug", NetworkDriver: "pasta", RegistryMirrors: []string{"a", "b:5"}, MaxUploads: 3, BuildCacheSize: 5 << 30},
			map[string]string{
				"name": host, "log-level": "debug", "network-driver": "pasta", "registry-mirrors": `["a","b:5"]`,
				"max-concurrent-uploads": "3", "build-cache-size": "5368709120",
			},
		},
		{"nothing", config.Config{}, map[string]string{"name": host}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := reloadEvent(tc.cfg, "ID")
			want := event.Event{Type: "daemon", Action: "reload", ID: "ID", Attributes: tc.want}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

// TestEventsWithoutAFolder has a file where the journal's folder should be: events are told all the same.
func TestEventsWithoutAFolder(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "events"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p := &parts{}
	p.openEvents(zerolog.Nop().WithContext(t.Context()), root)
	p.bus.Publish(event.Event{Action: "start"})
	s := p.bus.Subscribe(event.Options{Past: true})
	defer s.Close()
	var into [1]*event.Published
	if n, err := s.Take(t.Context(), into[:]); n != 1 || err != nil {
		t.Errorf("Take = %d, %v, want the event", n, err)
	}
	if err := p.closeEvents(); err != nil {
		t.Error(err)
	}
}
