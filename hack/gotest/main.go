// Command gotest runs go test and keeps the names of the tests that passed.
//
//	go run ./hack/gotest -passed FILE -- ARG...
//
// It prints what go test prints without -v: a line per package, and all that a failed test said; then
// "go: N passed, N failed, N skipped", subtests included. FILE gets a line "package test" per test that passed; it is
// replaced whole. The exit status is that of go test.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	file := flag.String("passed", "", "where the names go")
	flag.Parse()
	err := run(context.Background(), *file, flag.Args(), os.Stdout)
	var ended *exec.ExitError
	switch {
	case errors.As(err, &ended):
		os.Exit(max(ended.ExitCode(), 1))
	case err != nil:
		fmt.Fprintln(os.Stderr, "gotest:", err)
		os.Exit(2)
	}
}

func run(ctx context.Context, file string, args []string, w io.Writer) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended, err := followEvents(out, w)
	err = errors.Join(err, cmd.Wait()) // in this order: Wait closes the pipe
	_, told := fmt.Fprintf(w, "go: %d passed, %d failed, %d skipped\n", len(ended.passed), ended.failed, ended.skipped)
	err = errors.Join(err, told)
	if file == "" {
		return err
	}
	return errors.Join(err, replaceFile(file, ended.passed))
}

// counts is what came of the tests.
type counts struct {
	passed          []string // "package test"
	failed, skipped int
}

// event is a line of go test -json (go doc test2json).
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// followEvents prints what matters of the events and counts the tests.
func followEvents(r io.Reader, w io.Writer) (ended counts, err error) {
	said := map[string]string{} // by package and test, until the test has ended
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), 16<<20)
	for lines.Scan() && err == nil {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Action == "" {
			_, err = io.WriteString(w, lines.Text()+"\n") // not an event: the go command's own words
			continue
		}
		key, show := e.Package+" "+e.Test, ""
		switch {
		case e.Action == "build-output", e.Action == "output" && e.Test == "":
			if e.Output != "PASS\n" {
				show = e.Output
			}
		case e.Action == "output":
			if !strings.HasPrefix(e.Output, "=== ") {
				said[key] += e.Output
			}
		case e.Test == "":
		case e.Action == "pass":
			ended.passed = append(ended.passed, key)
			delete(said, key)
		case e.Action == "skip":
			ended.skipped++
			delete(said, key)
		case e.Action == "fail":
			ended.failed++
			show = said[key]
			delete(said, key)
		}
		_, err = io.WriteString(w, show)
	}
	for _, text := range said { // of a program that ended in the middle of a test
		if err == nil {
			_, err = io.WriteString(w, text)
		}
	}
	return ended, errors.Join(err, lines.Err())
}

func replaceFile(file string, lines []string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	next := file + ".new"
	if err := os.WriteFile(next, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		return err
	}
	return os.Rename(next, file)
}
