package rootless

import (
	"bytes"
	"context"
	"io"

	"github.com/rs/zerolog"
)

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
