package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	docker "github.com/fsouza/go-dockerclient"

	"moss/tests/clients/go/scenario"
)

// execCommand runs a command in a container, and returns its outputs and its code.
func (r *run) execCommand(id, input string, command ...string) (out, errs string, code int, err error) {
	made, err := r.client.CreateExec(docker.CreateExecOptions{
		Container: id, Cmd: command, AttachStdin: input != "", AttachStdout: true, AttachStderr: true,
	})
	if err != nil {
		return "", "", 0, err
	}
	o, e := &bytes.Buffer{}, &bytes.Buffer{}
	options := docker.StartExecOptions{OutputStream: o, ErrorStream: e}
	if input != "" {
		options.InputStream = strings.NewReader(input)
	}
	if err := r.client.StartExec(made.ID, options); err != nil {
		return "", "", 0, err
	}
	shown, err := r.client.InspectExec(made.ID)
	if err != nil {
		return "", "", 0, err
	}
	if shown.Running {
		return "", "", 0, errors.New("exec: still running after its output has ended")
	}
	return o.String(), e.String(), shown.ExitCode, nil
}

// testExecs runs commands in the container.
func (r *run) testExecs() {
	r.Step("exec: both outputs and the code", func() error {
		out, errs, code, err := r.execCommand(r.web, "", "sh", "-c", "cat /data/kept; echo err >&2; exit 3")
		return scenario.First(err, scenario.Equal("stdout", out, "kept\n"), scenario.Equal("stderr", errs, "err\n"), scenario.Equal("code", code, 3))
	})
	r.Step("exec: input", func() error {
		input := strings.Repeat("to and fro\n", 10000)
		out, _, code, err := r.execCommand(r.web, input, "cat")
		return scenario.First(err, scenario.Equal("bytes", len(out), len(input)), scenario.Equal("code", code, 0))
	})
	r.Step("exec: a terminal with a size", func() error {
		made, err := r.client.CreateExec(docker.CreateExecOptions{
			Container: r.web, AttachStdin: true, AttachStdout: true, Tty: true,
			// The pty may be there before its size. BusyBox's stty prints nothing then, and exits with 0.
			Cmd: []string{"sh", "-c", `until size=$(stty size 2>/dev/null) && [ "$size" ]; do sleep 0.02; done; echo "$size"; read -r _`},
		})
		if err != nil {
			return err
		}
		if err := r.client.ResizeExecTTY(made.ID, 31, 97); err != nil {
			return err
		}
		input, keys := io.Pipe()
		out := &prompt{keys: keys}
		err = r.client.StartExec(made.ID, docker.StartExecOptions{InputStream: input, OutputStream: out, Tty: true, RawTerminal: true})
		size, _, _ := strings.Cut(out.shown.String(), "\r\n")
		return scenario.First(err, scenario.Equal("size", size, "31 97"))
	})
}

// prompt is the output of a terminal whose command prints a line and waits for one. It answers, and ends the input. A command
// that does not wait may lose the line: when the leader of a terminal's session ends, the kernel drops what it has not
// passed on yet.
type prompt struct {
	shown bytes.Buffer
	keys  *io.PipeWriter // nil once it is closed
}

// Write keeps what the terminal shows.
func (p *prompt) Write(shown []byte) (int, error) {
	n, err := p.shown.Write(shown)
	if p.keys != nil && bytes.Contains(p.shown.Bytes(), []byte("\r\n")) {
		keys := p.keys
		p.keys = nil
		go func() {
			_, err := io.WriteString(keys, "\n")
			_ = keys.CloseWithError(err)
		}()
	}
	return n, err
}

// testStreams reads and writes what containers do.
func (r *run) testStreams() {
	r.Step("attach: input and both outputs", func() error {
		id, err := r.createContainer("attached", docker.CreateContainerOptions{Config: &docker.Config{OpenStdin: true, StdinOnce: true}},
			"sh", "-c", "cat; echo err >&2")
		if err != nil {
			return err
		}
		out, errs, success := &bytes.Buffer{}, &bytes.Buffer{}, make(chan struct{})
		waiter, err := r.client.AttachToContainerNonBlocking(docker.AttachToContainerOptions{
			Container: id, InputStream: strings.NewReader("words\n"), OutputStream: out, ErrorStream: errs, Success: success,
			Stream: true, Stdin: true, Stdout: true, Stderr: true,
		})
		if err != nil {
			return err
		}
		<-success
		success <- struct{}{}
		if err := r.client.StartContainer(id, nil); err != nil {
			return err
		}
		return scenario.First(waiter.Wait(), scenario.Equal("stdout", out.String(), "words\n"), scenario.Equal("stderr", errs.String(), "err\n"), r.removeContainer(id))
	})
	r.Step("logs, with times and the last line alone", func() error {
		out := &bytes.Buffer{}
		err := r.client.Logs(docker.LogsOptions{Container: r.web, OutputStream: out, Stdout: true, Stderr: true, Tail: "1", Timestamps: true})
		if err != nil {
			return err
		}
		stamp, text, _ := strings.Cut(out.String(), " ")
		return scenario.First(scenario.Equal("line", text, "up\n"), scenario.Contains("time", stamp, "T", "Z"))
	})
	r.Step("logs, followed to the end", func() error {
		id, err := r.startContainer("talks", docker.CreateContainerOptions{}, "sh", "-c", "for i in 1 2 3; do echo $i; done")
		if err != nil {
			return err
		}
		out := &bytes.Buffer{}
		err = r.client.Logs(docker.LogsOptions{Container: id, OutputStream: out, Stdout: true, Follow: true})
		return scenario.First(err, scenario.Equal("lines", out.String(), "1\n2\n3\n"), r.removeContainer(id))
	})
	r.Step("stats", func() error {
		readings, done := make(chan *docker.Stats, 4), make(chan error, 1)
		go func() { done <- r.client.Stats(docker.StatsOptions{ID: r.web, Stats: readings, Stream: r.minor < 19}) }()
		one := <-readings
		if one == nil {
			return fmt.Errorf("stats: %w", <-done)
		}
		if one.MemoryStats.Usage == 0 || one.CPUStats.SystemCPUUsage == 0 {
			return fmt.Errorf("stats: got %+v", one)
		}
		return nil
	})
	r.Step("top", func() error {
		top, err := r.client.TopContainer(r.web, "")
		if err != nil {
			return err
		}
		return scenario.Contains("processes", fmt.Sprint(top.Titles, top.Processes), "PID", "httpd", "sleep 1000")
	})
}
