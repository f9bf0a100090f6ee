package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"moss/api/client"
	"moss/api/types"
)

// leftover says what becomes of a container that could not be started.
type leftover struct {
	isNew  bool // this command has created it
	remove bool // it goes with its end
}

// startFailed gives a failed start its exit code, and removes the container if it was to be removed.
func (a *app) startFailed(ctx context.Context, id string, err error, left leftover) error {
	code := startCode(err)
	ctr, inspected := a.engine.ContainerInspect(ctx, id, false)
	// The engine writes 126 or 127 into the record when it was the command.
	if inspected == nil && code == exitEngine && (ctr.State.ExitCode == exitNotRunable || ctr.State.ExitCode == exitNotFound) {
		code = ctr.State.ExitCode
	}
	err = a.nameHolder(ctx, err)
	switch {
	case left.remove:
		if gone := a.engine.ContainerRemove(ctx, id, client.RemoveOptions{Force: true, Volumes: true}); !isGone(gone) {
			err = errors.Join(err, gone)
		}
	case left.isNew && inspected == nil:
		name := cmp.Or(strings.TrimPrefix(ctr.Name, "/"), shortenID(id, false))
		err = fmt.Errorf("%w (container %s is created and not started; remove it with 'moss rm %s')", err, name, name)
	}
	return &exit{code: code, err: err}
}

// portTaken finds the port in the engine's words about one that is taken.
var portTaken = regexp.MustCompile(`:([0-9]+) failed: port is already allocated`) //nolint:gochecknoglobals // compiled once

// nameHolder adds to the failure of a start which container publishes the port that it wanted, if one does.
func (a *app) nameHolder(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	found := portTaken.FindStringSubmatch(err.Error())
	if found == nil {
		return err
	}
	list, failed := a.engine.Containers(ctx, client.ContainersOptions{})
	if failed != nil {
		return err // the cause counts
	}
	var holders []string
	for _, ctr := range list {
		if slices.ContainsFunc(ctr.Ports, func(p types.Port) bool { return strconv.Itoa(int(p.PublicPort)) == found[1] }) {
			holders = append(holders, nameText(ctr.Names, false))
		}
	}
	if len(holders) == 0 {
		return err
	}
	return fmt.Errorf("%w to container %s", err, strings.Join(holders, ", "))
}

// startCode reads the exit code out of the engine's words about the container's command, as other command lines do. Words
// about anything else (a bind source, a device, a port) are a failure of the engine, whatever its reason was.
func startCode(err error) int {
	text := strings.ToLower(err.Error())
	if client.StatusOf(err) == 0 || !holdsOne(text, commandWords) {
		return exitEngine
	}
	switch {
	case holdsOne(text, []string{"permission denied", "is a directory", "exec format error"}):
		return exitNotRunable
	case holdsOne(text, []string{"not found", "no such file or directory"}):
		return exitNotFound
	default:
		return exitEngine
	}
}

// commandWords begin what runtimes say of the command, in lower case.
//
//nolint:gochecknoglobals // a constant list
var commandWords = []string{
	`exec: "`,                                      // exec: "x": executable file not found in $PATH
	"exec /",                                       // exec /x: exec format error
	"executable file `",                            // crun: executable file `x` not found in $PATH
	"open executable:",                             // crun: open executable: Permission denied
	"exec container process", "exec user process ", // exec container process `/x`: …
}

func holdsOne(text string, words []string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(text, word) })
}
