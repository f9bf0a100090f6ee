package main

import (
	"io"
	"time"

	"github.com/rs/zerolog"
	"github.com/sirupsen/logrus"

	"moss/engine/config"
	"moss/engine/fault"
)

// logger writes to stderr, for people or for machines.
func logger(cfg config.Config, stderr io.Writer) zerolog.Logger {
	level, err := zerolog.ParseLevel(cfg.LogLevel)
	if err != nil {
		level = zerolog.InfoLevel
	}
	zerolog.TimeFieldFormat = time.RFC3339Nano
	zerolog.ErrorMarshalFunc = func(err error) any { return fault.Text(err) } //nolint:reassign // its way to be set up
	out := stderr
	if cfg.LogFormat != "json" {
		out = zerolog.ConsoleWriter{Out: stderr, NoColor: true, TimeFormat: time.RFC3339}
	}
	return zerolog.New(out).Level(level).With().Timestamp().Logger()
}

// adoptLibraries sends to log what RootlessKit and containers/storage say through logrus' global logger. Their warnings
// are addressed to users of their own command lines: here they are facts for debugging.
func adoptLibraries(log zerolog.Logger) {
	logrus.SetOutput(io.Discard)
	logrus.AddHook(libraryHook{log: log})
}

type libraryHook struct{ log zerolog.Logger }

// Levels returns the levels that are passed on.
func (libraryHook) Levels() []logrus.Level {
	return []logrus.Level{logrus.PanicLevel, logrus.FatalLevel, logrus.ErrorLevel, logrus.WarnLevel}
}

// Fire passes one entry on.
func (h libraryHook) Fire(entry *logrus.Entry) error {
	level := zerolog.DebugLevel
	if entry.Level <= logrus.ErrorLevel {
		level = zerolog.ErrorLevel
	}
	h.log.WithLevel(level).Fields(map[string]any(entry.Data)).Str("from", "library").Msg(entry.Message)
	return nil
}
