package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"moss/cmd/moss/launch"
)

// logPoll is the time between two looks at the end of a log.
const logPoll = 100 * time.Millisecond

func (a *app) engineLogsCommand() *cobra.Command {
	var follow bool
	var tail string
	cmd := &cobra.Command{
		Use:   "logs [flags]",
		Short: "Show the engine's own log",
		Long: "Show the engine's own log: the file of an engine that was started in the background, or what systemd's journal has of\n" +
			"moss.service. 'moss logs' shows what containers write.",
		Example: "  moss system logs -f --tail 20",
		Args:    requireArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			lines := -1
			if tail != "all" {
				number, err := strconv.ParseUint(tail, 10, 31)
				if err != nil {
					return usageError(cmd, fmt.Errorf("--tail %s: want a number of lines or all", tail))
				}
				lines = int(number)
			}
			starter, err := a.ownStarter()
			if err != nil {
				return err
			}
			return a.engineLogs(cmd.Context(), starter, lines, follow)
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&follow, "follow", "f", false, "follow the log output")
	flags.StringVarP(&tail, "tail", "n", "all", "show only the last `LINES` lines")
	return cmd
}

// engineLogs shows the last lines of the log, all if that is negative, and goes on if follow says so.
func (a *app) engineLogs(ctx context.Context, starter *launch.Starter, lines int, follow bool) error {
	path := starter.LogPath()
	running, found, err := starter.Running()
	if err != nil {
		return err
	}
	if found {
		path = running.Log()
	}
	file, err := openLog(path)
	if err == nil {
		defer func() { _ = file.Close() }()
		return a.showLog(ctx, file, lines, follow)
	}
	if starter.Unit(ctx) != "" && (!found || strings.HasPrefix(path, "socket:")) {
		return a.showJournal(ctx, lines, follow)
	}
	if found {
		return fmt.Errorf("the log of the engine (pid %d) cannot be shown: %w", running.Process.Pid, err)
	}
	return fmt.Errorf("no engine was started in the background here: %w", err)
}

func openLog(path string) (*os.File, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("it goes to %s", path)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no file %s", path)
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("it goes to %s, which is no file", path)
	}
	return os.Open(path)
}

// showLog copies a file, from its last lines on.
func (a *app) showLog(ctx context.Context, file *os.File, lines int, follow bool) error {
	at, err := lastLines(file, lines)
	if err != nil {
		return err
	}
	for {
		n, err := io.Copy(a.stdout, io.NewSectionReader(file, at, 1<<62-at))
		if at += n; err != nil || !follow {
			return err
		}
		if info, err := file.Stat(); err == nil && info.Size() < at {
			at = 0 // somebody emptied it
		}
		select {
		case <-time.After(logPoll):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lastLines returns where the last lines of a file begin; a negative number means all.
func lastLines(file *os.File, lines int) (at int64, err error) {
	const block = 64 << 10
	info, err := file.Stat()
	switch {
	case err != nil || lines < 0:
		return 0, err
	case lines == 0:
		return info.Size(), nil
	}
	end := info.Size()
	buf := make([]byte, block)
	wanted := lines + 1 // line ends; the last byte is one of them
	if end > 0 {
		if _, err := file.ReadAt(buf[:1], end-1); err != nil {
			return 0, err
		}
		if buf[0] != '\n' {
			wanted--
		}
	}
	for end > 0 {
		start := max(0, end-block)
		part := buf[:end-start]
		if _, err := file.ReadAt(part, start); err != nil {
			return 0, err
		}
		for i := len(part); wanted > 0; wanted-- {
			if i = bytes.LastIndexByte(part[:i], '\n'); i < 0 {
				break
			}
			if wanted == 1 {
				return start + int64(i) + 1, nil
			}
		}
		end = start
	}
	return 0, nil
}

// showJournal shows what systemd's journal has of the unit.
func (a *app) showJournal(ctx context.Context, lines int, follow bool) error {
	args := []string{"--user", "--unit", "moss.service", "--no-pager", "--output", "cat"}
	if lines >= 0 {
		args = append(args, "--lines", strconv.Itoa(lines))
	}
	if follow {
		args = append(args, "--follow")
	}
	cmd := exec.CommandContext(ctx, "journalctl", args...)
	cmd.Stdout, cmd.Stderr = a.stdout, a.stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("journalctl: %w", err)
	}
	return nil
}
