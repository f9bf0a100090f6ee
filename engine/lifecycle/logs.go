package lifecycle

import (
	"context"

	"moss/engine/container"
	"moss/engine/logdriver"
	"moss/engine/logs"
	"moss/engine/logs/journal"
)

// logReader reads the logs of containers.
type logReader struct {
	folders folders
	changes logs.Watcher
}

// readLog reads a container's log, wherever its driver keeps it.
func (l *logReader) readLog(ctx context.Context, r *container.Record, opts logs.ReadOptions, fn func(logs.Entry) error) error {
	if r.LogDriver().Writes != logdriver.Journal {
		opts.Watcher = &l.changes
		return logs.Read(ctx, r.LogPath, opts, fn)
	}
	spec, err := container.SpecOf(r)
	if err != nil {
		return err
	}
	attrs := spec.Log.Attrs.Of(r) // as the writer had them: they do not change
	return journal.Read(ctx, journal.Source{ID: r.ID, EndFile: l.folders.journalEnd(r.ID)}, opts, func(e logs.Entry) error {
		e.Attrs = attrs
		return fn(e)
	})
}
