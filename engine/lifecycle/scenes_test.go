package lifecycle

import (
	"testing/synctest"
	"time"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/task"
)

// scenes are what happens to a container, in the order of the issue of each.
var scenes = map[string]func(*stage){
	"exit": func(s *stage) {
		s.begin()
		ended := s.waits(s.engine, s.id, container.WaitNextExit)
		s.start()
		s.exit(3)
		ended.hears("after the exit", "3 <nil>")
		s.do("start again", func() error { return s.engine.Start(s.life(), s.id) })
		s.do("start twice", func() error { return s.engine.Start(s.life(), s.id) })
	},
	"stop": func(s *stage) {
		s.begin()
		s.start()
		s.stop()
		s.stop()
	},
	"stop-kills": func(s *stage) {
		s.stubborn = true
		s.begin()
		s.start()
		s.stop()
	},
	"kill": func(s *stage) {
		s.begin(policy("unless-stopped", 0))
		s.start()
		s.kill("USR1")
		s.kill("KILL")
		s.kill("KILL")
		s.start()
		s.kill("TERM")
	},
	"restart": func(s *stage) {
		s.begin()
		restart := func() error {
			second := time.Second
			return s.engine.Restart(s.life(), s.id, container.StopOptions{Timeout: &second})
		}
		s.do("restart", restart)
		s.do("restart", restart)
	},
	"policy": func(s *stage) {
		s.begin(always)
		s.start()
		s.exit(1)
		s.later(time.Second)
		s.exit(2)
		s.stop()
		s.later(time.Minute)
	},
	"policy-kill": func(s *stage) {
		s.begin(policy("unless-stopped", 0))
		s.start()
		s.exit(1)
		s.kill("KILL")
		s.later(time.Minute)
	},
	"policy-kill-at-start": func(s *stage) { // the restarted process runs already when the kill comes
		s.begin(always)
		s.start()
		s.tasks.StartErr = func(task.Spec) error {
			s.tasks.StartErr = nil
			s.note("kill while it starts")
			s.must(s.engine.Kill(s.life(), s.id, "KILL"))
			return nil
		}
		s.exit(1)
		s.later(time.Second)
	},
	"policy-retries": func(s *stage) {
		s.begin(policy("on-failure", 1))
		s.start()
		s.exit(1)
		s.later(time.Second)
		s.exit(2)
		s.start()
		s.exit(0)
	},
	"policy-remove": func(s *stage) {
		s.begin(always)
		s.start()
		s.exit(1)
		s.do("remove", func() error { return s.engine.Remove(s.life(), s.id, container.RemoveOptions{}) })
		s.do("remove by force", func() error { return s.engine.Remove(s.life(), s.id, container.RemoveOptions{Force: true}) })
	},
	"policy-update": func(s *stage) {
		s.begin(always)
		s.start()
		s.exit(1)
		s.do("update to no", func() error {
			_, err := s.engine.Update(s.life(), s.id, container.HostConfig{RestartPolicy: container.RestartPolicy{Name: "no"}})
			return err
		})
		s.later(time.Minute)
	},
	"no-such-command": func(s *stage) {
		s.tasks.StartErr = func(task.Spec) error { return fault.NotFound("no such command") }
		s.begin()
		ended := s.waits(s.engine, s.id, container.WaitNextExit)
		s.start()
		ended.hears("after the start", "127 <nil>")
	},
	"no-such-command-policy": func(s *stage) {
		s.begin(always)
		s.start()
		s.tasks.StartErr = func(task.Spec) error { return fault.NotFound("no such command") }
		s.exit(1)
		s.later(time.Second)
	},
	"no-such-command-rm": func(s *stage) {
		s.tasks.StartErr = func(task.Spec) error { return fault.Forbidden("not executable") }
		s.begin(autoRemove)
		gone := s.waits(s.engine, s.id, container.WaitRemoved)
		s.start()
		gone.hears("after the start", "126 <nil>")
	},
	"rm": func(s *stage) {
		s.begin(autoRemove)
		gone := s.waits(s.engine, s.id, container.WaitRemoved)
		s.start()
		s.exit(5)
		gone.hears("after the exit", "5 <nil>")
	},
	"pause": func(s *stage) {
		s.begin()
		s.start()
		s.do("pause", func() error { return s.engine.Pause(s.life(), s.id) })
		s.do("unpause", func() error { return s.engine.Unpause(s.life(), s.id) })
		s.do("commit", func() error {
			_, err := s.engine.commits.Commit(s.life(), s.id, container.CommitOptions{Pause: true})
			return err
		})
		s.do("pause", func() error { return s.engine.Pause(s.life(), s.id) })
		s.stop()
	},
	"pause-exit": func(s *stage) {
		s.begin(always)
		s.start()
		s.do("pause", func() error { return s.engine.Pause(s.life(), s.id) })
		s.exit(1)
		s.later(time.Second)
	},
	"remove": func(s *stage) {
		s.begin()
		s.start()
		s.do("remove", func() error { return s.engine.Remove(s.life(), s.id, container.RemoveOptions{}) })
		s.do("remove by force", func() error { return s.engine.Remove(s.life(), s.id, container.RemoveOptions{Force: true}) })
	},
	"stop-while-it-ends": func(s *stage) { // what the process held is not released yet when the stop comes
		s.begin(always)
		s.start()
		s.nets.leave = make(chan struct{})
		s.exit(1)
		s.do("stop while it ends", func() error {
			stopped := make(chan error)
			go func() {
				second := time.Second
				stopped <- s.engine.Stop(s.life(), s.id, container.StopOptions{Timeout: &second})
			}()
			synctest.Wait()
			close(s.nets.leave)
			return <-stopped
		})
		s.later(time.Minute)
	},
	"shutdown": func(s *stage) {
		s.begin(policy("unless-stopped", 0))
		s.start()
		s.do("shutdown", func() error { s.engine.Shutdown(s.life()); return nil })
		s.do("start", func() error { return s.engine.Start(s.life(), s.id) })
		s.next()
	},
	"shutdown-restarting": func(s *stage) {
		s.begin(always)
		s.start()
		s.exit(1)
		s.do("shutdown", func() error { s.engine.Shutdown(s.life()); return nil })
		s.later(time.Second)
		s.next()
		s.later(time.Second)
	},
}

func autoRemove(_ *container.Config, h *container.HostConfig) { h.AutoRemove = true }
