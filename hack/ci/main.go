// Command ci runs stages of the tests side by side and says of each what it took.
//
//	go run ./hack/ci [-logs DIR] STAGE...
//
// Stages of one lane run one after the other, in the order of the table in stages.go, and a stage that reads the results of
// others comes after them. What a stage prints goes into DIR/STAGE.log and, in one piece, to standard output when it ends.
// At the end come the closing lines of all, the first lines of each failure, and the CPU time: the sum, divided by the number
// of processors, is the time below which no order of the stages gets.
// Exit status: 0 all passed, 1 a stage failed, 2 usage.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"golang.org/x/sys/unix"

	"moss/hack/reaper"
)

// envStage is set in the process that runs one stage and becomes the parent of what it leaves behind. The kernel adds up
// the CPU time of ended processes at their parents, and so at this one.
const envStage = "MOSS_CI_STAGE"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	var code int
	if os.Getenv(envStage) != "" {
		code = runCommand(ctx, os.Args[1:])
	} else {
		code = run(ctx, os.Args[1:], os.Stdout)
	}
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout io.Writer) int {
	flags := flag.NewFlagSet("ci", flag.ContinueOnError)
	logs := flags.String("logs", ".cache/ci", "folder for what the stages print")
	if flags.Parse(args) != nil {
		return 2
	}
	chosen, err := chooseStages(allStages(), flags.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "ci:", err)
		return 2
	}
	results, err := runStages(ctx, chosen, *logs, stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "ci:", err)
		return 1
	}
	text, passed := summarizeResults(results)
	if _, err := io.WriteString(stdout, text); err != nil || !passed {
		return 1
	}
	return 0
}

// chooseStages returns the stages of the table with these names, in the table's order.
func chooseStages(table []stage, names []string) ([]stage, error) {
	wanted := map[string]bool{}
	for _, name := range names {
		wanted[name] = true
	}
	var chosen []stage
	known := make([]string, 0, len(table))
	for _, s := range table {
		known = append(known, s.name)
		if wanted[s.name] {
			chosen = append(chosen, s)
			delete(wanted, s.name)
		}
	}
	for name := range wanted {
		return nil, fmt.Errorf("no stage %q: there are %s", name, strings.Join(known, ", "))
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no stage given: there are %s", strings.Join(known, ", "))
	}
	return chosen, nil
}

// runCommand is the process of one stage.
func runCommand(ctx context.Context, argv []string) int {
	code, err := reaper.Run(ctx, append([]string{"/usr/bin/env"}, argv...), []string{envStage + "="}, []*os.File{os.Stdin, os.Stdout, os.Stderr})
	if err != nil {
		fmt.Fprintln(os.Stderr, "ci:", err)
	}
	return code
}
