package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"moss/engine/config"
	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/logdriver"
)

// newLogger returns a log that goes to stderr, for people or for machines.
func newLogger(cfg config.Config, stderr io.Writer) zerolog.Logger {
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

// logDefaults returns the log configuration of containers that name no log driver.
func logDefaults(cfg config.Config) container.LogConfig {
	c := container.LogConfig{Type: cmp.Or(cfg.LogDriver, logdriver.Default), Config: map[string]string{}}
	for _, pair := range cfg.LogOptions {
		key, value, _ := strings.Cut(pair, "=") // it was checked
		c.Config[key] = value
	}
	return c
}

// reportFailure says why this process ends: in a sentence to a person at a terminal, in the log otherwise. A log in JSON is for
// machines wherever it goes.
func reportFailure(log zerolog.Logger, cfg config.Config, stderr io.Writer, err error, what string) {
	if file, ok := stderr.(*os.File); ok && cfg.LogFormat != "json" && isTerminal(file) {
		fmt.Fprintf(stderr, "mossd: %s\n", fault.Text(err)) //nolint:errcheck // nowhere left to report it
		return
	}
	log.Error().Err(err).Msg(what)
}

func isTerminal(file *os.File) bool {
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
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
