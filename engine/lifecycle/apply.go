package lifecycle

import (
	"strconv"
	"time"

	"github.com/rs/zerolog"

	"moss/engine/container"
	"moss/engine/container/life"
)

// lives changes the lives of containers, by events alone.
type lives struct {
	events   events
	log      zerolog.Logger
	volumes  *volumes
	networks *Networks
	verbs    followUps
}

// followUps are the verbs that an event may lead to.
type followUps interface {
	restartAfter(c *ctr, delay time.Duration)
	removeSoon(c *ctr)
	thawSoon(c *ctr)
}

// applyEvent is the way in which a container's life changes: by an event, one at a time. It returns the record after the
// event, and with an error, which is that of life.Step, the one before. A record that could not be saved is logged.
func (l *lives) applyEvent(c *ctr, e life.Event) (*container.Record, error) {
	c.files.Lock()
	before, after, actions, err := c.stepLife(e)
	for len(actions) > 0 && actions[0].Do <= life.Disarm {
		l.doLocked(c, actions[0], before, after)
		actions = actions[1:]
	}
	c.files.Unlock()
	for _, a := range actions {
		l.doBeside(c, a)
	}
	return after, err
}

// noteEvent is applyEvent of an event that is never refused, or whose refusal means that it is no news: the watcher has noted the
// end of the process.
func (l *lives) noteEvent(c *ctr, e life.Event) { _, _ = l.applyEvent(c, e) }

// doLocked does an action that other events wait for.
func (l *lives) doLocked(c *ctr, a life.Action, before, after *container.Record) {
	switch a.Do {
	case life.Tell:
		if a.Event == "die" {
			publishEvent(l.events, a.Event, after, "exitCode", strconv.Itoa(after.ExitCode))
			return
		}
		publishEvent(l.events, a.Event, after)
	case life.TellReleased:
		l.networks.publishNetwork("disconnect", before)
		l.volumes.publishVolumes("unmount", before)
	case life.Save, life.SaveStop, life.SavePhase:
		if err := c.saveLocked(a.Do); err != nil {
			l.log.Error().Err(err).Str("container", c.id).Str("state", after.State.String()).Msg("state of container not saved")
		}
	case life.Wake:
		c.wakeWaiters(after)
	case life.Arm:
		l.verbs.restartAfter(c, a.Delay)
	case life.Disarm:
		c.cancelRestart()
	case life.Thaw, life.Remove: // beside
	}
}

// doBeside does an action after which nothing of the container is held back.
func (l *lives) doBeside(c *ctr, a life.Action) {
	switch a.Do {
	case life.Thaw:
		l.verbs.thawSoon(c)
	case life.Remove:
		l.verbs.removeSoon(c)
	case life.Tell, life.TellReleased, life.Save, life.SaveStop, life.SavePhase, life.Wake, life.Arm, life.Disarm: // done
	}
}
