package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/rs/zerolog"

	"moss/engine/config"
	"moss/engine/event"
	"moss/engine/event/journal"
)

// openEvents makes the bus, with its journal below the data folder. Without one the engine works too: clients then only
// get the past that is in memory.
func (p *parts) openEvents(ctx context.Context, root string) {
	log := zerolog.Ctx(ctx)
	var err error
	p.journal, err = journal.Open(journal.Options{Dir: filepath.Join(root, "events"), Trouble: func(err error) {
		log.Warn().Err(err).Msg("events are not kept for later listeners")
	}, SetAside: p.damage.SetAside})
	if err != nil {
		log.Warn().Err(err).Msg("events are kept in memory only")
		p.bus = event.NewBus()
		return
	}
	p.bus = event.NewBusWith(p.journal)
}

// closeEvents ends all listeners and writes down what they were told.
func (p *parts) closeEvents() error {
	p.bus.Close()
	if p.journal == nil {
		return nil
	}
	return p.journal.Close()
}

// publishReload tells that another engine takes over, with what it will find in the settings. cfg are those of this
// engine, which are shown if others cannot be read: the next one will say why.
func (p *parts) publishReload(cfg config.Config) {
	if next, _, err := readSettings(os.Args[1:], io.Discard); err == nil {
		next.NetworkDriver = cfg.NetworkDriver // the outer process keeps it
		cfg = next.Config
	}
	p.bus.Publish(reloadEvent(cfg, p.identity))
}

func reloadEvent(cfg config.Config, identity string) event.Event {
	attributes := map[string]string{
		"log-level": cfg.LogLevel, "network-driver": cfg.NetworkDriver, "storage-driver": cfg.StorageDriver,
		"runtime":                  cfg.Runtime,
		"registry-mirrors":         jsonList(cfg.RegistryMirrors),
		"insecure-registries":      jsonList(cfg.InsecureRegistries),
		"registry-redirects":       jsonList(cfg.RegistryRedirects),
		"max-concurrent-downloads": strconv.Itoa(cfg.MaxDownloads),
		"max-concurrent-uploads":   strconv.Itoa(cfg.MaxUploads),
		"build-cache-size":         strconv.FormatInt(cfg.BuildCacheSize, 10),
	}
	for key, value := range attributes {
		if value == "" || value == "0" { // the engine's own
			delete(attributes, key)
		}
	}
	if name, err := os.Hostname(); err == nil {
		attributes["name"] = name
	}
	return event.Event{Type: event.TypeDaemon, Action: "reload", ID: identity, Attributes: attributes}
}

// jsonList shows a setting of several values as clients know it from other engines: a JSON array, empty for none.
func jsonList(values []string) string {
	if len(values) == 0 {
		return ""
	}
	raw, err := json.Marshal(values)
	if err != nil {
		return "" // strings always have a form
	}
	return string(raw)
}
