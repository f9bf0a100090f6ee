package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	treeEntries    = 100_000
	hungContainers = 200
	hungMonitors   = 5
	oldEnough      = 15 * time.Second // an engine that dies young is not followed by the next at once
)

// measureEntries measures a container with many files: what asking for its size takes beside du, and its removal until
// its files are off the disk beside rm.
func (b *bench) measureEntries(ctx context.Context, i *instance) error {
	made := 0
	archive, err := treeTar(treeEntries, func() []byte {
		made++
		return make([]byte, made%100/99) // one in a hundred has a block: giving blocks back takes the disk longer than all else
	})
	if err != nil {
		return err
	}
	id, err := i.api.createContainer(ctx, "none", "true")
	if err != nil {
		return err
	}
	if err := i.api.putArchive(ctx, id, "/data", bytes.NewReader(archive)); err != nil {
		return errors.Join(err, i.api.removeContainer(context.WithoutCancel(ctx), id))
	}
	s, twin := samples{}, filepath.Join(b.dir, "twin")
	var folder string
	for _, step := range []func() error{
		func() (err error) { folder, err = upperOf(i); return err },
		func() error { return inTurn(ctx, s, i, id, folder) },
		func() error { return runProgram(ctx, "cp", "-r", folder, twin) },
		b.writeBack,
	} {
		if err := step(); err != nil {
			return errors.Join(err, i.api.removeContainer(context.WithoutCancel(ctx), id))
		}
	}
	began := time.Now()
	if err := i.api.removeContainer(ctx, id); err != nil {
		return err
	}
	s["removal answered"] = time.Since(began).Seconds()
	if err := awaitEmpty(ctx, filepath.Join(filepath.Dir(i.log), "root", "storage", "moss-trash")); err != nil {
		return err
	}
	s["files gone"] = time.Since(began).Seconds()
	began = time.Now()
	if err := runProgram(ctx, "rm", "-r", twin); err != nil {
		return err
	}
	s["files gone / rm"] = s["files gone"] / time.Since(began).Seconds()
	b.report.add(i.name, "entries", s)
	return nil
}

// inTurn asks for the container's size and runs du on its files, one after the other, so that both have the same caches.
func inTurn(ctx context.Context, s samples, i *instance, id, folder string) error {
	var asked, du series
	for range 5 {
		began := time.Now()
		var found struct{ SizeRw int64 }
		if err := i.api.call(ctx, http.MethodGet, "/v1.24/containers/"+id+"/json?size=1", nil, "", &found); err != nil {
			return err
		}
		if found.SizeRw < treeEntries/100 {
			return fmt.Errorf("the container has %d bytes, want %d or more", found.SizeRw, treeEntries/100)
		}
		asked = append(asked, time.Since(began).Seconds())
		began = time.Now()
		if err := runProgram(ctx, "du", "-s", folder); err != nil {
			return err
		}
		du = append(du, time.Since(began).Seconds())
	}
	s["size"], s["size / du"] = asked.median(), asked.median()/du.median()
	return nil
}

// upperOf returns the folder of the only container's files that were sent into /data.
func upperOf(i *instance) (string, error) {
	found, err := filepath.Glob(filepath.Join(filepath.Dir(i.log), "root", "storage", "overlay", "*", "diff", "data", "tree"))
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("the files of the container are in %q, want one folder", found)
	}
	return strings.Join(found, ""), err
}

func runProgram(ctx context.Context, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

// awaitEmpty returns once a folder has no entries.
func awaitEmpty(ctx context.Context, folder string) error {
	for {
		entries, err := os.ReadDir(folder)
		if err != nil || len(entries) == 0 {
			return err
		}
		if err := pause(ctx, pollEvery); err != nil {
			return err
		}
	}
}

// measureHung measures how soon the next engine answers after a kill beside containers that run, of which some have a
// monitor that does not answer.
func (b *bench) measureHung(ctx context.Context, main *instance) error {
	i, err := b.launchFresh(ctx, main.name, "hung")
	if err != nil {
		return err
	}
	ids, err := runClients(ctx, stressClients, hungContainers, func(ctx context.Context) (string, error) {
		id, err := i.api.createContainer(ctx, "none", "sleep", "86400")
		if err != nil {
			return "", err
		}
		return id, i.api.startContainer(ctx, id)
	})
	if err != nil {
		return errors.Join(err, b.removeContainers(context.WithoutCancel(ctx), i, ids), i.stop())
	}
	s := samples{}
	for _, count := range []int{0, hungMonitors} {
		took, err := measureComeback(ctx, i, count)
		if err != nil {
			return errors.Join(err, b.removeContainers(context.WithoutCancel(ctx), i, ids), i.stop())
		}
		s["200 run, "+strconv.Itoa(count)+" monitors hang"] = took.Seconds()
	}
	b.report.add(main.name, "hung", s)
	return errors.Join(b.removeContainers(ctx, i, ids), i.stop())
}

// measureComeback kills the engine beside so many monitors that were stopped, and returns how long a request waits for
// the next one.
func measureComeback(ctx context.Context, i *instance, hang int) (_ time.Duration, err error) {
	if err := pause(ctx, oldEnough); err != nil {
		return 0, err
	}
	inner, monitors, err := engineParts(i.cmd.Process.Pid)
	if err != nil {
		return 0, err
	}
	for _, pid := range monitors[:hang] {
		defer func() { err = errors.Join(err, unix.Kill(pid, unix.SIGCONT)) }()
		if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
			return 0, err
		}
	}
	began := time.Now()
	if err := unix.Kill(inner, unix.SIGKILL); err != nil {
		return 0, err
	}
	for {
		err := i.api.callWithin(ctx, heavyLimit, http.MethodGet, "/_ping", nil, "", nil)
		took := time.Since(began)
		if next, _, partsErr := engineParts(i.cmd.Process.Pid); err == nil && partsErr == nil && next != inner {
			return took, nil
		}
		if ctx.Err() != nil {
			return 0, errors.Join(ctx.Err(), err)
		}
	}
}

// engineParts returns the process that answers the API below the one that was started, and the monitors of its containers.
func engineParts(root int) (inner int, monitors []int, err error) {
	all, err := listProcesses()
	if err != nil {
		return 0, nil, err
	}
	own, err := os.Readlink("/proc/self/ns/user")
	if err != nil {
		return 0, nil, err
	}
	supervisor := 0
	all = engineProcesses(all, root, own)
	for _, p := range all {
		line, err := os.ReadFile(procFile(p.pid, "cmdline"))
		switch words := strings.Split(string(line), "\x00"); {
		case err != nil || p.ended || p.name != "moss-shim" && p.name != "moss-supervisor":
		case words[1] == "supervise":
			supervisor = p.pid
		case words[1] == "run":
			monitors = append(monitors, p.pid)
		}
	}
	for _, p := range all {
		if p.name == "mossd-engine" && p.parent == supervisor && !p.ended {
			return p.pid, monitors, nil
		}
	}
	return 0, nil, errors.New("the engine has no process that answers")
}
