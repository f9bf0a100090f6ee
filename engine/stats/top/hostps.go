package top

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
)

const (
	// psPatience is how long the host's ps may take.
	psPatience = 10 * time.Second
	// maxOutput is how many bytes it may print.
	maxOutput = 16 << 20
)

// hostPS has the host's ps make the table and keeps the lines of the container's processes.
func (s *Service) hostPS(ctx context.Context, pids []int, words []string) (*Table, error) {
	ps, err := s.findPS()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, psPatience)
	defer cancel()
	var out, complaint limited
	cmd := exec.CommandContext(ctx, ps, words...)
	cmd.Env = []string{"PATH=" + s.opt.Path, "LC_ALL=C.UTF-8", "COLUMNS=100000"}
	cmd.Stdout, cmd.Stderr = &out, &complaint
	err = cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); exited && out.Len() > 0 && complaint.Len() == 0 {
		err = nil // it has found no process
	}
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.E2BIG) { // a zero byte in them, or too many
		return nil, fault.Invalid("ps: no program can be given these arguments: %w", err)
	}
	if err != nil {
		if text := strings.TrimSpace(complaint.String()); ctx.Err() == nil && text != "" {
			first, _, _ := strings.Cut(text, "\n")
			return nil, fault.Invalid("ps %s: %s", strings.Join(words, " "), toPrintable(first))
		}
		return nil, fault.Internal("run ps %s: %v", strings.Join(words, " "), errors.Join(err, ctx.Err()))
	}
	return parseTable(out.String(), pids)
}

func (s *Service) findPS() (string, error) {
	for _, dir := range filepath.SplitList(s.opt.Path) {
		path := filepath.Join(dir, "ps")
		if filepath.IsAbs(path) && unix.Access(path, unix.X_OK) == nil {
			return path, nil
		}
	}
	return "", fault.Unsupported("these arguments need a ps on the host, and it has none: known without it are -ef, aux and -o LIST")
}

// parseTable reads what a ps prints: a line of titles, then one for each process. Lines of its threads follow a process
// with - for a pid. The last column takes what is left of its line.
func parseTable(text string, pids []int) (*Table, error) {
	head, lines, _ := strings.Cut(text, "\n")
	table := &Table{Titles: strings.Fields(toPrintable(head)), Rows: [][]string{}}
	at := slices.Index(table.Titles, "PID")
	if at < 0 {
		return nil, errNoPid()
	}
	ours := false // the process that the line before was of
	for line := range strings.Lines(lines) {
		row := splitFields(toPrintable(strings.TrimSuffix(line, "\n")), len(table.Titles))
		if row[at] != "-" {
			pid, err := strconv.Atoi(row[at])
			ours = err == nil && slices.Contains(pids, pid)
		}
		if ours {
			table.Rows = append(table.Rows, row)
		}
	}
	return table, nil
}

// splitFields takes a line apart at blanks into n texts, the last of which holds the rest.
func splitFields(line string, n int) []string {
	row := make([]string, n)
	for i := range row {
		line = strings.TrimLeft(line, " ")
		if i == n-1 {
			row[i] = strings.TrimRight(line, " ")
			break
		}
		row[i], line, _ = strings.Cut(line, " ")
	}
	return row
}

// limited keeps the first bytes of what is written and takes no more.
type limited struct{ bytes.Buffer }

// Write fails once there is too much.
func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > maxOutput {
		return 0, fault.Invalid("ps printed more than %d bytes", maxOutput)
	}
	return l.Buffer.Write(p)
}
