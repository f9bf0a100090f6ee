package rootless

import (
	"bytes"
	"context"
	"io"

	"github.com/rs/zerolog"
	"github.com/sirupsen/logrus"
)

// quietLibrary sends what RootlessKit logs (through logrus' global logger) to the engine's own log, warnings as debug
// facts: they are addressed to users of its command line. The returned function undoes it.
func quietLibrary(ctx context.Context) func() {
	std := logrus.StandardLogger()
	out, hooks := std.Out, std.Hooks
	std.SetOutput(io.Discard)
	std.ReplaceHooks(logrus.LevelHooks{})
	std.AddHook(libraryHook{log: *zerolog.Ctx(ctx)})
	return func() {
		std.SetOutput(out)
		std.ReplaceHooks(hooks)
	}
}

type libraryHook struct{ log zerolog.Logger }

// Levels returns the levels that are passed on.
func (libraryHook) Levels() []logrus.Level {
	return []logrus.Level{logrus.PanicLevel, logrus.FatalLevel, logrus.ErrorLevel, logrus.WarnLevel}
}

// Fire passes one entry on.
func (h libraryHook) Fire(entry *logrus.Entry) error {
	event := h.log.Debug()
	if entry.Level <= logrus.ErrorLevel {
		event = h.log.Error()
	}
	event.Fields(map[string]any(entry.Data)).Str("from", "rootlesskit").Msg(entry.Message)
	return nil
}

// libraryLog returns a writer whose lines become debug facts.
func libraryLog(ctx context.Context, from string) io.Writer {
	return lineLog{log: *zerolog.Ctx(ctx), from: from}
}

type lineLog struct {
	log  zerolog.Logger
	from string
}

// Write logs each line of p.
func (l lineLog) Write(p []byte) (int, error) {
	for line := range bytes.Lines(p) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			l.log.Debug().Str("from", l.from).Bytes("line", line).Msg("helper says")
		}
	}
	return len(p), nil
}
