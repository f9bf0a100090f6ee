package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/moby/moby/client"
	tc "github.com/testcontainers/testcontainers-go"
	tcexec "github.com/testcontainers/testcontainers-go/exec"
	"github.com/testcontainers/testcontainers-go/wait"

	"moss/tests/clients/go/scenario"
)

func checkNothing(tc.Container) error { return nil }

// testReadiness waits in each of the library's ways.
func (r *run) testReadiness() {
	r.Step("wait for words in the log", func() error {
		return r.checkOnce(func(c tc.Container) error {
			return r.checkOutput(c, "", "test", "-e", "/tmp/ready")
		}, tc.WithCmd("sh", "-c", "echo one; touch /tmp/ready; echo one; sleep 1000"), tc.WithWaitStrategy(wait.ForLog("one").WithOccurrence(2)))
	})
	r.Step("wait for a command's success", func() error {
		return r.checkOnce(checkNothing, tc.WithCmd("sh", "-c", "sleep 0.2; touch /tmp/ready; sleep 1000"),
			tc.WithWaitStrategy(wait.ForExec([]string{"test", "-e", "/tmp/ready"}).WithPollInterval(20*time.Millisecond)))
	})
	r.Step("wait for a file", func() error {
		return r.checkOnce(checkNothing, tc.WithCmd("sh", "-c", "sleep 0.2; echo there >/tmp/ready; sleep 1000"),
			tc.WithWaitStrategy(wait.ForFile("/tmp/ready").WithPollInterval(20*time.Millisecond).WithMatcher(func(file io.Reader) error {
				text, err := io.ReadAll(file)
				return scenario.First(err, scenario.Equal("file", string(text), "there\n"))
			})))
	})
	r.Step("wait for the end", func() error {
		return r.checkOnce(func(c tc.Container) error {
			state, err := c.State(r.ctx)
			if err != nil {
				return err
			}
			return scenario.First(scenario.Equal("code", state.ExitCode, 3), scenario.Equal("running", state.Running, false))
		}, tc.WithCmd("sh", "-c", "exit 3"), tc.WithWaitStrategy(wait.ForExit()))
	})
	r.Step("wait for what cannot come: the container's code is in the error", func() error {
		made, err := r.startBusybox(tc.WithCmd("sh", "-c", "exit 4"), tc.WithWaitStrategy(wait.ForLog("never")))
		return scenario.First(scenario.Contains("error", fmt.Sprint(err), "container exited with code 4"), tc.TerminateContainer(made))
	})
}

// testServer starts the container that later steps speak to: with a port, files, variables, labels and a log's consumer.
func (r *run) testServer() {
	said := &consumer{lines: make(chan string, 100)}
	r.Step("start a server, wait for its port and its page", func() error {
		made, err := r.startBusybox(
			tc.WithName(r.name+"-web"),
			tc.WithExposedPorts("8080/tcp"),
			tc.WithEnv(map[string]string{"WORD": "of the environment"}),
			tc.WithLabels(map[string]string{"scenario": r.name}),
			tc.WithFiles(tc.ContainerFile{Reader: strings.NewReader("a page\n"), ContainerFilePath: "/www/index.html", FileMode: 0o644}),
			tc.WithEntrypoint("/bin/sh", "-c"),
			tc.WithCmd(`echo "$WORD"; echo err >&2; httpd -p 8080 -h /www; sleep 1000`),
			tc.WithLogConsumers(said),
			tc.WithWaitStrategy(wait.ForListeningPort("8080/tcp"), wait.ForHTTP("/index.html").WithPort("8080/tcp")),
		)
		r.web = made
		return err
	})
	r.Step("read the page at the mapped port", r.checkPage)
	r.Step("inspect", func() error {
		shown, err := r.web.Inspect(r.ctx)
		if err != nil {
			return err
		}
		return scenario.First(
			scenario.Equal("Name", shown.Name, "/"+r.name+"-web"),
			scenario.Equal("label", shown.Config.Labels["scenario"], r.name),
			scenario.Equal("Status", shown.State.Status, "running"))
	})
	r.Step("the log's consumer got the line", said.awaitLine)
}

// testInside reads the log, and runs commands.
func (r *run) testInside() {
	r.Step("logs", func() error {
		logs, err := r.web.Logs(r.ctx)
		if err != nil {
			return err
		}
		text, err := scenario.ReadAll(logs)
		return scenario.First(err, scenario.Contains("logs", text, "of the environment\n", "err\n"))
	})
	r.Step("exec: output, code, user", func() error {
		code, out, err := r.web.Exec(r.ctx, []string{"sh", "-c", "id -u; echo err >&2; exit 5"}, tcexec.Multiplexed(), tcexec.WithUser("0"))
		if err != nil {
			return err
		}
		text, err := io.ReadAll(out)
		return scenario.First(err, scenario.Contains("output", string(text), "0\n", "err\n"), scenario.Equal("code", code, 5))
	})
	r.Step("exec with variables and a folder", func() error {
		_, out, err := r.web.Exec(r.ctx, []string{"sh", "-c", "echo $A $PWD"}, tcexec.Multiplexed(), tcexec.WithEnv([]string{"A=b"}), tcexec.WithWorkingDir("/tmp"))
		if err != nil {
			return err
		}
		text, err := io.ReadAll(out)
		return scenario.First(err, scenario.Equal("output", string(text), "b /tmp\n"))
	})
}

// testEnds asks for exit codes as soon as streams end.
func (r *run) testEnds() {
	r.Step("read the output to its end, then ask for the state: the exit code is there", func() error {
		return r.checkOnce(func(c tc.Container) error {
			output, err := r.provider.Client().ContainerLogs(r.ctx, c.GetContainerID(), client.ContainerLogsOptions{ShowStdout: true, Follow: true})
			if err != nil {
				return err
			}
			if _, err := scenario.ReadAll(output); err != nil {
				return err
			}
			state, err := c.State(r.ctx)
			if err != nil {
				return err
			}
			return scenario.First(scenario.Equal("running", state.Running, false), scenario.Equal("code", state.ExitCode, 7))
		}, tc.WithCmd("sh", "-c", "echo out; exit 7"))
	})
	r.Step("kill during an exec: it ends, and its code is not 0", func() error {
		return r.checkOnce(func(c tc.Container) error {
			killed := make(chan error, 1)
			go func() {
				err := scenario.Eventually(r.ctx, func() error { return r.checkOutput(c, "", "test", "-e", "/tmp/here") })
				killed <- errors.Join(err, r.killContainer(c))
			}()
			code, out, err := c.Exec(r.ctx, []string{"sh", "-c", "touch /tmp/here; sleep 1000"})
			if err != nil {
				return err
			}
			if _, err := io.Copy(io.Discard, out); err != nil {
				return err
			}
			if code == 0 {
				return errors.New("exec of a killed container: code 0")
			}
			return <-killed
		}, withSleep())
	})
}

// testRestart stops the server, and starts it again.
func (r *run) testRestart() {
	r.Step("stop, and start again", func() error {
		timeout := time.Duration(0)
		if err := r.web.Stop(r.ctx, &timeout); err != nil {
			return err
		}
		state, err := r.web.State(r.ctx)
		if err != nil {
			return err
		}
		return scenario.First(scenario.Equal("running", state.Running, false), r.web.Start(r.ctx), r.checkPage())
	})
}

func (r *run) checkPage() error {
	endpoint, err := r.web.PortEndpoint(r.ctx, "8080/tcp", "http")
	if err != nil {
		return err
	}
	text, err := scenario.Page(r.ctx, endpoint+"/")
	return scenario.First(err, scenario.Equal("page", text, "a page\n"))
}

// testCopies moves files in and out of the server.
func (r *run) testCopies() {
	r.Step("copy bytes in", func() error {
		if err := r.web.CopyToContainer(r.ctx, []byte("bytes"), "/tmp/bytes", 0o640); err != nil {
			return err
		}
		return r.checkOutput(r.web, "640\nbytes", "sh", "-c", "stat -c %a /tmp/bytes; cat /tmp/bytes")
	})
	folder := filepath.Join(os.TempDir(), r.name)
	r.Step("copy a file and a folder in", func() error {
		if err := os.MkdirAll(filepath.Join(folder, "sub"), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, "sub", "file"), []byte("of the host."), 0o600); err != nil {
			return err
		}
		return scenario.First(
			r.web.CopyFileToContainer(r.ctx, filepath.Join(folder, "sub", "file"), "/tmp/file", 0o644),
			r.web.CopyDirToContainer(r.ctx, folder, "/tmp/"+r.name, 0o755),
			r.checkOutput(r.web, "of the host.of the host.", "cat", "/tmp/file", "/tmp/"+r.name+"/sub/file"),
			os.RemoveAll(folder))
	})
	r.Step("copy a file out", func() error {
		file, err := r.web.CopyFileFromContainer(r.ctx, "/www/index.html")
		if err != nil {
			return err
		}
		text, err := scenario.ReadAll(file)
		return scenario.First(err, scenario.Equal("file", text, "a page\n"))
	})
	r.Step("copy out what is not there", func() error {
		_, err := r.web.CopyFileFromContainer(r.ctx, "/none")
		return scenario.Contains("error", fmt.Sprint(err), "/none")
	})
}

// consumer keeps the lines of a log.
type consumer struct {
	lines chan string
}

// Accept implements the library's LogConsumer.
func (c *consumer) Accept(l tc.Log) { c.lines <- l.LogType + ": " + string(l.Content) }

// awaitLine waits for the line that the server writes first.
func (c *consumer) awaitLine() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		select {
		case line := <-c.lines:
			if line == "STDOUT: of the environment\n" {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("line of the log: %w", ctx.Err())
		}
	}
}
