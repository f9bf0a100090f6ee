package member

import (
	"fmt"
	"io"
	"regexp"

	"github.com/rs/zerolog"
	"github.com/sirupsen/logrus"
)

// secrets are join tokens and keys: none is to get into a log.
var secrets = regexp.MustCompile(`SWM(TKN|KEY)-[0-9A-Za-z+/-]+`) //nolint:gochecknoglobals // a constant

// hideSecrets takes tokens and keys out of a text.
func hideSecrets(text string) string { return secrets.ReplaceAllString(text, "[hidden]") }

// nodeLog brings what SwarmKit says to the log of this program.
type nodeLog struct {
	log     zerolog.Logger
	failure func(text string) // told of each error
}

// AdoptLog sends to log what SwarmKit says beside its nodes, through logrus' global logger. A program calls it once.
func AdoptLog(log zerolog.Logger) {
	global := logrus.StandardLogger()
	global.SetOutput(io.Discard)
	global.SetLevel(logrusLevel(log.GetLevel()))
	global.AddHook(nodeLog{log: log, failure: func(string) {}})
}

// newNodeLog returns a log for SwarmKit.
func newNodeLog(log zerolog.Logger, failure func(text string)) *logrus.Entry {
	l := logrus.New()
	l.SetOutput(io.Discard)
	l.SetLevel(logrusLevel(log.GetLevel()))
	l.AddHook(nodeLog{log: log, failure: failure})
	return logrus.NewEntry(l)
}

// logrusLevel is the level below which SwarmKit need not say anything. Errors are always wanted.
func logrusLevel(level zerolog.Level) logrus.Level {
	switch level {
	case zerolog.TraceLevel, zerolog.DebugLevel:
		return logrus.DebugLevel
	case zerolog.InfoLevel:
		return logrus.InfoLevel
	case zerolog.WarnLevel:
		return logrus.WarnLevel
	case zerolog.ErrorLevel, zerolog.FatalLevel, zerolog.PanicLevel, zerolog.NoLevel, zerolog.Disabled:
		return logrus.ErrorLevel
	default:
		return logrus.ErrorLevel
	}
}

// Levels returns the levels that are passed on.
func (nodeLog) Levels() []logrus.Level { return logrus.AllLevels }

// Fire passes one entry on.
func (n nodeLog) Fire(entry *logrus.Entry) error {
	level := zerolog.DebugLevel
	switch entry.Level {
	case logrus.PanicLevel, logrus.FatalLevel, logrus.ErrorLevel:
		level = zerolog.ErrorLevel
	case logrus.WarnLevel:
		level = zerolog.WarnLevel
	case logrus.InfoLevel:
		level = zerolog.InfoLevel
	case logrus.DebugLevel, logrus.TraceLevel:
	}
	if entry.Data["module"] == "grpc" { // connections that come and go, which SwarmKit tells as well
		if entry.Level > logrus.WarnLevel {
			return nil
		}
		level = zerolog.DebugLevel
	}
	text := hideSecrets(entry.Message)
	event := n.log.WithLevel(level)
	for key, value := range entry.Data {
		event.Str(key, hideSecrets(fmt.Sprint(value)))
	}
	event.Msg(text)
	if cause, ok := entry.Data[logrus.ErrorKey]; ok && entry.Level <= logrus.ErrorLevel {
		n.failure(hideSecrets(fmt.Sprintf("%s: %v", entry.Message, cause)))
	}
	return nil
}
