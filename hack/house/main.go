// Command house holds the form of the code to the house rules, as far as no linter knows them.
//
//	go run ./hack/house [-list hack/house.txt] [-update]
//
// It measures the programs' packages, tests left out:
//
//	words PACKAGE            unexported functions and methods whose name is one word, in packages of more than 500 lines
//	long PACKAGE             lines of more than 130 characters
//	methods PACKAGE.TYPE     methods of a type with more than 40, and of an interface with more than 8, embedded ones counted
//	locks PACKAGE.TYPE       locks of a struct with more than 2
//
// The list says what is more than it should be and how much. It only shrinks: a measure above its entry, or without one, is a
// finding, and so is an entry above its measure. -update writes the list anew.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

func main() {
	if err := run(os.Args[1:], ".", os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
}

// run measures the tree below top and writes what is no longer as the list says to w.
func run(args []string, top string, w io.Writer) error {
	flags := flag.NewFlagSet("house", flag.ContinueOnError)
	path := flags.String("list", filepath.Join("hack", "house.txt"), "file with what is more than it should be")
	update := flags.Bool("update", false, "write the list anew")
	if err := flags.Parse(args); err != nil {
		return err
	}
	measured, err := measureTree(top)
	if err != nil {
		return err
	}
	if *update {
		return writeList(*path, measured)
	}
	listed, err := readList(*path)
	if err != nil {
		return err
	}
	findings := compare(listed, measured)
	for _, f := range findings {
		if _, err := fmt.Fprintln(w, f); err != nil {
			return err
		}
	}
	if len(findings) > 0 {
		return fmt.Errorf("%d finding(s); %s may only shrink", len(findings), *path)
	}
	_, err = fmt.Fprintf(w, "house: %d entries left in %s\n", len(listed), *path)
	return err
}

// compare returns one line per measure that is not as it is listed.
func compare(listed, measured map[string]int) []string {
	var findings []string
	for what, is := range measured {
		if may, ok := listed[what]; !ok || is > may {
			findings = append(findings, fmt.Sprintf("%s: %d, at most %d", what, is, max(may, limitOf(what))))
		}
	}
	for what, may := range listed {
		if is := measured[what]; is < may {
			findings = append(findings, fmt.Sprintf("%s: %d is listed, %d is measured: lower it", what, may, is))
		}
	}
	slices.Sort(findings)
	return findings
}

// limitOf returns the measure up to which no entry is needed.
func limitOf(what string) int {
	kind, _, _ := strings.Cut(what, " ")
	return limits[kind]
}

// readList reads lines of a measure's name and its value.
func readList(path string) (map[string]int, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // only read
	listed := map[string]int{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		value, err := strconv.Atoi(line[at+1:])
		if at < 0 || err != nil {
			return nil, errors.New("no value in " + line)
		}
		listed[line[:at]] = value
	}
	return listed, lines.Err()
}

// writeList writes a list that says what is measured.
func writeList(path string, measured map[string]int) error {
	text := "# What is more than the house rules allow, and how much: see hack/house. It only shrinks.\n"
	var textSb strings.Builder
	for _, what := range slices.Sorted(maps.Keys(measured)) {
		fmt.Fprintf(&textSb, "%s %d\n", what, measured[what])
	}
	return os.WriteFile(path, []byte(text+textSb.String()), 0o644) //nolint:gosec // a file of the repository
}
