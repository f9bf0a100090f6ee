package lifecycle

import (
	"context"
	"path/filepath"

	"moss/engine/container"
	"moss/engine/logdriver"
	"moss/engine/logs"
	"moss/engine/logs/journal"
)

// journalEnd is the file that tells of a container's last entry in the journal. It is the container's own, which the files
// of its /etc need not be.
func (m *Manager) journalEnd(r *container.Record) string {
	return filepath.Join(m.dataDir(r.ID), "journal.end")
}

// readLog reads a container's log, wherever its driver keeps it.
func (m *Manager) readLog(ctx context.Context, r *container.Record, opts logs.ReadOptions, fn func(logs.Entry) error) error {
	if r.LogDriver().Writes != logdriver.Journal {
		opts.Watcher = &m.logChanges
		return logs.Read(ctx, r.LogPath, opts, fn)
	}
	spec, err := container.SpecOf(r)
	if err != nil {
		return err
	}
	attrs := spec.Log.Attrs.Of(r) // as the writer had them: they do not change
	return journal.Read(ctx, journal.Source{ID: r.ID, EndFile: m.journalEnd(r)}, opts, func(e logs.Entry) error {
		e.Attrs = attrs
		return fn(e)
	})
}
