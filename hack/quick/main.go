// Command quick checks what touches a change, in about three minutes on two processors for one package.
//
//	go run ./hack/quick [-base REV] [-budget TIME] [-n]
//
// The change is everything that is not committed, new files too, and the commits since the branch left the default one
// (origin/HEAD, origin/main or main, whichever is there first; on the default branch, those not pushed yet). -base names
// another revision to compare with. quick builds the programs and runs
//
//   - the unit tests of the changed packages, with the race detector,
//   - a type check of everything that imports them, test files included,
//   - the unit tests of what imports them, nearest first, without the race detector, as many as begin within -budget,
//   - the files tests/NN-*.bats that tests/map.txt names for what has changed,
//   - format, lint, layers and compat, as far as the change can break them.
//
// It says what it leaves out. It is no replacement for make test. -n only prints the selection. It is started by make quick,
// which sets the build tags.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// mapFile says which bats files exercise which folder.
var mapFile = filepath.Join("tests", "map.txt")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errFailed):
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, "quick:", err)
		os.Exit(2)
	}
}

// run selects what touches the change, runs it and writes what came of it to w.
func run(ctx context.Context, args []string, w io.Writer) error {
	flags := flag.NewFlagSet("quick", flag.ContinueOnError)
	base := flags.String("base", "", "revision to compare with (default: where the branch left the default branch)")
	budget := flags.Duration("budget", 105*time.Second, "no tests of dependants begin after this time")
	list := flags.Bool("n", false, "only print the selection")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	tags := buildTags(os.Getenv("GOFLAGS"))
	if tags == nil {
		return errors.New("GOFLAGS has no -tags: start it by make quick")
	}
	began := time.Now()
	m, err := readModule(".", tags)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(mapFile)
	if err != nil {
		return err
	}
	table, err := parseMap(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", mapFile, err)
	}
	if *base == "" {
		if *base, err = findBase(ctx); err != nil {
			return err
		}
	}
	files, err := listChanges(ctx, *base)
	if err != nil {
		return err
	}
	sel := selectParts(m, table, files)
	if _, err := io.WriteString(w, describeSelection(sel, *base, len(files))); err != nil || *list {
		return err
	}
	r := &runner{w: w, began: began, budget: *budget}
	r.runLanes(ctx, planParts(sel, m, table))
	return r.writeClosing(sel)
}

// buildTags returns the tags that GOFLAGS holds; nil if there is no -tags in it.
func buildTags(goflags string) []string {
	for word := range strings.FieldsSeq(goflags) {
		if list, found := strings.CutPrefix(strings.TrimLeft(word, "-"), "tags="); found {
			return strings.Split(list, ",")
		}
	}
	return nil
}

// describeSelection returns the selection as text, before anything of it runs.
func describeSelection(sel selection, base string, files int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "quick: %d changed files since %.12s\n", files, base)
	line := func(title string, words []string) {
		if len(words) > 0 {
			fmt.Fprintf(&b, "  %-11s %s\n", title, strings.Join(words, " "))
		}
	}
	line("packages", sel.changed)
	line("dependants", sel.dependants)
	line("bats", sel.bats)
	for _, reason := range sel.leftOut {
		line("left out", []string{reason})
	}
	return b.String()
}

// fileExists tells whether there is a file or folder of that name.
func fileExists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
