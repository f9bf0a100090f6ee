package main

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	stoppedContainers = 1000
	stoppedClients    = 4
	stoppedCycles     = 40 // of a container beside those that have ended, and as many beside none
)

// measureStopped measures what many containers that have ended cost: the verbs of another one beside them and beside none, and
// their removal.
func (b *bench) measureStopped(ctx context.Context, i *instance) error {
	ids, err := runClients(ctx, stressClients, stoppedContainers, func(ctx context.Context) (string, error) {
		id, err := i.api.createContainer(ctx, "none", "true")
		if err != nil {
			return "", err
		}
		return id, errors.Join(i.api.startContainer(ctx, id), i.api.waitContainer(ctx, id))
	})
	if err == nil {
		err = b.compareStopped(ctx, i)
	}
	if err != nil {
		return errors.Join(err, b.removeContainers(context.WithoutCancel(ctx), i, ids))
	}
	if err := b.writeBack(); err != nil {
		return err
	}
	var next atomic.Int64
	began := time.Now()
	_, err = runClients(ctx, stoppedClients, len(ids), func(ctx context.Context) (string, error) {
		return "", i.api.call(ctx, http.MethodDelete, "/v1.24/containers/"+ids[next.Add(1)-1], nil, "", nil)
	})
	if err == nil {
		b.report.add(i.name, "stopped", samples{"1000 removed by 4 clients": time.Since(began).Seconds()})
	}
	return err
}

// compareStopped measures the verbs of one container beside those of full, which have ended, and in an engine that has none, by
// turns: whatever else the machine does falls on both alike.
func (b *bench) compareStopped(ctx context.Context, full *instance) error {
	none, err := b.launchFresh(ctx, full.name, "none")
	if err != nil {
		return err
	}
	if err := b.writeBack(); err != nil {
		return errors.Join(err, none.stop())
	}
	var took [2]map[string]series
	for turn := range 2 * (warmups + stoppedCycles) {
		k := (turn + turn/2) % 2 // 0 1 1 0: neither always comes after the other
		s, err := []*instance{none, full}[k].api.cycleContainer(ctx, "none")
		if err != nil {
			return errors.Join(err, none.stop())
		}
		if turn < 2*warmups {
			continue
		}
		if took[k] == nil {
			took[k] = map[string]series{}
		}
		for verb, ms := range s {
			took[k][verb] = append(took[k][verb], ms)
		}
	}
	s := samples{}
	for _, verb := range []string{"create", "start", "remove"} {
		s[verb+" beside 1000 / 0"] = took[1][verb].median() / took[0][verb].median()
	}
	b.report.add(full.name, "stopped", s)
	return none.stop()
}
