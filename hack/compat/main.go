// Command compat holds the table of docs/compatibility.md against the rest of the repository.
//
//	go run ./hack/compat [-ran DIR]
//
// docs/fields.tsv lists what the specification names, the versions that have it, and the form of a field or the kind of a
// parameter. Every item of it must have one row in the table, with the same versions, what moss does with it and the tests
// that prove it. The wire structs and the routes must have the fields, endpoints, parameters, headers and statuses in just
// these versions and forms, and none that the list does not have: it names what is there for clients, of later versions or
// of moss alone as well. Every test that a row names must exist. With -ran each of them must have passed in the last run,
// whose names are in the files of DIR. The same is asked of the promises in docs/security.md and docs/reliability.md. It
// prints one line per finding and exits with 1 if there is any. Where a stage of tests was left out, which only root can
// run, nothing is held against that run, and the last line says so.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	ran := flag.String("ran", "", "folder with the names of the tests that passed")
	flag.Parse()
	findings, rows, err := checkRepository(".", *ran)
	if err != nil {
		fmt.Fprintln(os.Stderr, "compat:", err)
		os.Exit(2)
	}
	if err := writeReport(os.Stdout, findings, rows, leftOut(*ran)); err != nil {
		fmt.Fprintln(os.Stderr, "compat:", err)
		os.Exit(2)
	}
	if len(findings) > 0 {
		os.Exit(1)
	}
}

// checkRepository returns what does not hold in the repository below root, and how many rows there are.
func checkRepository(root, ran string) (findings []string, rows int, err error) {
	items, err := readItems(filepath.Join(root, "docs", "fields.tsv"))
	if err != nil {
		return nil, 0, err
	}
	table, err := readTable(filepath.Join(root, "docs", "compatibility.md"))
	if err != nil {
		return nil, 0, err
	}
	tests, err := findTests(root)
	if err != nil {
		return nil, 0, err
	}
	var passed map[string]bool
	if ran != "" && len(leftOut(ran)) == 0 {
		if passed, err = readPassed(ran); err != nil {
			return nil, 0, err
		}
	}
	findings = append(findings, compareItems(items, table)...)
	findings = append(findings, checkShapes(items)...)
	findings = append(findings, checkUnlisted(items)...)
	findings = append(findings, checkRoutes(items, servedRoutes())...)
	for _, page := range promiseFiles {
		promises, err := readPromises(root, page)
		if err != nil {
			return nil, 0, err
		}
		table = append(table, promises...)
	}
	findings = append(findings, checkProofs(table, tests, passed)...)
	return findings, len(table), nil
}

// leftOut returns the stages of tests that the last run left out.
func leftOut(ran string) []string {
	files, _ := filepath.Glob(filepath.Join(ran, "*.left")) // the pattern is well formed
	for i := range files {
		files[i] = strings.TrimSuffix(filepath.Base(files[i]), ".left")
	}
	return files
}

func writeReport(w io.Writer, findings []string, rows int, left []string) error {
	last := fmt.Sprintf("compat: %d items, %d findings", rows, len(findings))
	if len(left) > 0 {
		last += "; not held against a run: left out are " + strings.Join(left, ", ")
	}
	lines := append(slices.Clone(findings), last)
	_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return err
}
