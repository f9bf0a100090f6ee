package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

const (
	logBytes    = 200 * 1000 * 1000
	logLine     = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789abcdefghijklmnopqrstuvwxyz!"
	attachBytes = 500 << 20
	attachLimit = time.Minute
)

// measureLogs measures lines of 100 bytes: until the container has ended and its log is whole, and reading it back.
func (b *bench) measureLogs(ctx context.Context, i *instance) error {
	id, err := i.api.createContainer(ctx, "none", "sh", "-c", "yes "+logLine+" | head -c "+strconv.Itoa(logBytes))
	if err != nil {
		return err
	}
	measured := func() error {
		began := time.Now()
		if err := errors.Join(i.api.startContainer(ctx, id), i.api.waitWithin(ctx, transferLimit, id)); err != nil {
			return err
		}
		written := time.Since(began)
		began = time.Now()
		got, err := i.api.drainAnswer(ctx, http.MethodGet, "/v1.24/containers/"+id+"/logs?stdout=1&stderr=1", nil, "")
		if err != nil {
			return err
		}
		if got < logBytes {
			return fmt.Errorf("the log has %d bytes, want %d", got, logBytes)
		}
		b.report.add(i.name, "logs", samples{
			"written": logBytes / 1e6 / written.Seconds(), "read": logBytes / 1e6 / time.Since(began).Seconds(),
		})
		return nil
	}
	return errors.Join(measured(), i.api.removeContainer(context.WithoutCancel(ctx), id))
}

// measureAttach measures zeros from a container to the docker command line.
func (b *bench) measureAttach(ctx context.Context, i *instance) error {
	docker, err := exec.LookPath("docker")
	if err != nil {
		return err
	}
	return withLimit(ctx, attachLimit, "docker run", func(ctx context.Context) error { return b.attachBy(ctx, i, docker) })
}

func (b *bench) attachBy(ctx context.Context, i *instance, docker string) error {
	cmd := exec.CommandContext(ctx, docker, "run", "--rm", "--network", "none", "--log-driver", "none", imageRef,
		"dd", "if=/dev/zero", "bs=1M", "count="+strconv.Itoa(attachBytes>>20))
	dir := filepath.Dir(i.log)
	cmd.Env = append([]string{"DOCKER_HOST=unix://" + i.socket, "DOCKER_CONFIG=" + filepath.Join(dir, "docker")}, i.env...)
	cmd.WaitDelay = pipeLimit
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	got, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{out}, make([]byte, 1<<20))
	if err := errors.Join(err, cmd.Wait()); err != nil {
		return err
	}
	if got != attachBytes {
		return fmt.Errorf("docker run gave %d bytes, want %d", got, attachBytes)
	}
	b.report.add(i.name, "attach", samples{"500 MiB by docker run": time.Since(began).Seconds()})
	return nil
}
