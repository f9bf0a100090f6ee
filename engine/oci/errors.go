package oci

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"moss/engine/fault"
)

// actionCreate is what clients call the start of a container's first process.
const actionCreate = "create"

// launchFault turns the failure of a run or exec into a fault; action is how clients know the verb. The texts end the way
// clients look for: "executable file not found in $PATH" and "no such file or directory" become exit code 127 there,
// "permission denied" 126. Command lines up to 1.11 know a start's by how they begin.
func launchFault(action, runtime, command string, msgs []string, err error) error {
	gone, barred := "", ""
	if action == actionCreate {
		gone = fmt.Sprintf("Container command '%s' not found or does not exist: ", command)
		barred = fmt.Sprintf("Container command '%s' could not be invoked: ", command)
	}
	text := strings.Join(msgs, ": ")
	if _, ok := errors.AsType[*exec.ExitError](err); !ok {
		return fmt.Errorf("run %s: %w", runtime, err) // the runtime itself was not executed
	}
	switch classifyMessage(text) {
	case missing:
		if strings.Contains(command, "/") {
			return fault.NotFound("%sOCI runtime %s failed: %s: exec: %q: stat %s: no such file or directory", gone, action, runtime,
				command, command)
		}
		return fault.NotFound("%sOCI runtime %s failed: %s: exec: %q: executable file not found in $PATH", gone, action, runtime,
			command)
	case refused:
		return fault.Forbidden("%sOCI runtime %s failed: %s: exec: %q: permission denied", barred, action, runtime, command)
	case other:
	}
	if text == "" {
		text = err.Error()
	}
	if lacksID(text) {
		text += lastIDs("/proc/self/uid_map", "/proc/self/gid_map")
	}
	return fmt.Errorf("OCI runtime %s failed: %s: %s", action, runtime, text)
}

// lacksID reports whether a runtime's message means that a user or a group has no id of the host behind it.
func lacksID(text string) bool {
	about := func(call string) bool { return strings.Contains(text, call) }
	return strings.Contains(strings.ToLower(text), "invalid argument") &&
		slices.ContainsFunc([]string{"setresuid", "setresgid", "setuid", "setgid", "setgroups"}, about)
}

// lastIDs says up to where there are ids, by the maps of this process, and who gives more.
func lastIDs(uidMap, gidMap string) string {
	uid, errUser := lastID(uidMap)
	gid, errGroup := lastID(gidMap)
	if errUser != nil || errGroup != nil {
		return ""
	}
	return fmt.Sprintf("; users go up to %d and groups up to %d here: longer ranges in /etc/subuid and /etc/subgid, and a "+
		"restart of mossd, give more",
		uid, gid)
}

// lastID returns the last id of a map of the kernel's: lines of the first id inside, the first outside, and how many.
func lastID(path string) (last uint64, err error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(raw)) {
		var inside, outside, count uint64
		if _, err := fmt.Sscan(line, &inside, &outside, &count); err != nil {
			return 0, fmt.Errorf("%s: %w", path, err)
		}
		last = max(last, inside+count-1)
	}
	return last, nil
}

type class int

const (
	other class = iota
	missing
	refused
)

// classifyMessage says what a runtime's message means for the command. Only messages about the command count: a missing mount
// source is "no such file" as well.
func classifyMessage(text string) class {
	lower := strings.ToLower(text)
	about := false
	for _, sign := range []string{
		"executable file",        // crun: executable file `x` not found in $PATH; runc: exec: "x": executable file not found
		"open executable",        // crun: open executable: Permission denied
		"exec container process", // crun: exec container process `x`: …
		`exec: "`,                // runc: exec: "/x": stat /x: no such file or directory
	} {
		about = about || strings.Contains(lower, sign)
	}
	if !about {
		return other
	}
	for _, sign := range []string{"permission denied", "operation not permitted", "is a directory", "exec format error"} {
		if strings.Contains(lower, sign) {
			return refused
		}
	}
	for _, sign := range []string{"not found", "no such file", "not a directory"} {
		if strings.Contains(lower, sign) {
			return missing
		}
	}
	return other
}

// verbError wraps the failure of a verb that starts no process with what the runtime printed.
func verbError(runtime, verb, stderr string, err error) error {
	msgs := parseMessages(stderr)
	if len(msgs) == 0 {
		return fmt.Errorf("%s %s: %w", runtime, verb, err)
	}
	return &runtimeError{prefix: runtime + " " + verb, text: strings.Join(msgs, ": "), err: err}
}

// runtimeError keeps the runtime's text beside the exit status.
type runtimeError struct {
	prefix, text string
	err          error
}

func (e *runtimeError) Error() string { return e.prefix + ": " + e.text }
func (e *runtimeError) Unwrap() error { return e.err }

// isAbsent reports whether a runtime's error means that it knows no such container.
func isAbsent(err error) bool {
	var e *runtimeError
	if !errors.As(err, &e) {
		return false
	}
	// runc: container does not exist; crun: cannot open directory '<root>/<id>': …, error opening file '<root>/<id>/status': …
	return strings.Contains(e.text, "does not exist") ||
		strings.Contains(e.text, "No such file or directory") &&
			(strings.Contains(e.text, "cannot open directory") || strings.Contains(e.text, "/status"))
}
