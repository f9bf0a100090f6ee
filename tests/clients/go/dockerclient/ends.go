package main

import (
	"bytes"
	"errors"
	"fmt"

	docker "github.com/fsouza/go-dockerclient"

	"moss/tests/clients/go/scenario"
)

// testEnds asks for exit codes as soon as streams end.
func (r *run) testEnds() {
	r.Step("attach to the end, then inspect: the exit code is there", func() error {
		for range 5 { // an engine that tells too late does so now and then
			if err := r.attachThenInspect(); err != nil {
				return err
			}
		}
		return nil
	})
	r.Step("kill during an exec: its stream ends, and its code is not 0", func() error {
		id, err := r.startContainer("killed", docker.CreateContainerOptions{}, "sleep", "1000")
		if err != nil {
			return err
		}
		made, err := r.client.CreateExec(docker.CreateExecOptions{
			Container: id, Cmd: []string{"sh", "-c", "echo here; sleep 1000"}, AttachStdout: true, AttachStderr: true,
		})
		if err != nil {
			return err
		}
		out := &trigger{do: func() error {
			return r.client.KillContainer(docker.KillContainerOptions{ID: id, Signal: docker.SIGKILL})
		}}
		if err := r.client.StartExec(made.ID, docker.StartExecOptions{OutputStream: out, ErrorStream: out}); err != nil {
			return err
		}
		if out.done == nil {
			return errors.New("exec: no output")
		}
		if err := <-out.done; err != nil {
			return err
		}
		shown, err := r.client.InspectExec(made.ID)
		if err != nil {
			return err
		}
		if shown.Running || shown.ExitCode == 0 {
			return fmt.Errorf("exec of a killed container: Running %t, ExitCode %d", shown.Running, shown.ExitCode)
		}
		return r.removeContainer(id)
	})
}

func (r *run) attachThenInspect() error {
	id, err := r.createContainer("told", docker.CreateContainerOptions{}, "sh", "-c", "echo out; exit 7")
	if err != nil {
		return err
	}
	out, success := &bytes.Buffer{}, make(chan struct{})
	waiter, err := r.client.AttachToContainerNonBlocking(docker.AttachToContainerOptions{
		Container: id, OutputStream: out, Success: success, Stream: true, Stdout: true, Stderr: true,
	})
	if err != nil {
		return err
	}
	<-success
	success <- struct{}{}
	if err := r.client.StartContainer(id, nil); err != nil {
		return err
	}
	if err := waiter.Wait(); err != nil {
		return err
	}
	shown, err := r.inspectContainer(id)
	if err != nil {
		return err
	}
	return scenario.First(
		scenario.Equal("output", out.String(), "out\n"),
		scenario.Equal("Running", shown.State.Running, false),
		scenario.Equal("ExitCode", shown.State.ExitCode, 7),
		r.removeContainer(id))
}

// trigger does something when the first output comes.
type trigger struct {
	do   func() error
	done chan error // nil before that
}

// Write drops what it gets.
func (t *trigger) Write(p []byte) (int, error) {
	if t.done == nil {
		t.done = make(chan error, 1)
		go func() { t.done <- t.do() }()
	}
	return len(p), nil
}
