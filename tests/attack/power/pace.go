package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"
)

// pace notes for how long the machine kept this program waiting, and so the engine: what an engine has a second for takes
// longer by that.
type pace struct {
	delays []delay
	done   chan error
}

type delay struct {
	end  time.Time
	long time.Duration
}

// look is the time between two looks at the machine.
const look = 50 * time.Millisecond

// watchPace looks until ctx ends: for the processors by sleeping, and for the disk below that of the round by a file in dir.
func watchPace(ctx context.Context, dir string) *pace {
	p := &pace{done: make(chan error, 1)}
	go func() { p.done <- p.watch(ctx, filepath.Join(dir, "pace")) }()
	return p
}

func (p *pace) watch(ctx context.Context, path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	for last := time.Now(); ctx.Err() == nil && err == nil; {
		waitFor(ctx, look)
		_, err = file.WriteAt([]byte("x"), 0)
		err = errors.Join(err, file.Sync())
		now := time.Now()
		p.delays = append(p.delays, delay{now, now.Sub(last) - look})
		last = now
	}
	return errors.Join(err, file.Close())
}

// waitedBetween returns for how long the machine kept this program waiting between two moments. The watch has ended.
func (p *pace) waitedBetween(from, to time.Time) (sum time.Duration) {
	for _, d := range p.delays {
		if d.end.After(from) && d.end.Add(-d.long).Before(to) {
			sum += d.long
		}
	}
	return sum
}
