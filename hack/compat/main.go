// Command compat holds docs/fields.tsv and docs/fields-later.tsv against the rest of the repository.
//
//	go run ./hack/compat [-write] [-ran DIR]
//
// docs/fields.tsv lists what the specification names, docs/fields-later.tsv what later versions of the API add to it: the
// versions that have it, the form of a field or the kind of a parameter, what moss does with it, and the tests that prove it.
// The wire structs and the routes must have the fields, endpoints, parameters, headers and statuses in just these versions and
// forms, and none that the list does not have: it names what is there for clients, of later versions or of moss alone as well.
// Every test that an item names must exist. With -ran each of them must have passed in the last run, whose names are in the
// files of DIR. The same is asked of the promises in docs/security.md and docs/reliability.md. docs/fields.md must be what the
// list gives; -write writes it before. compat prints one line per finding and exits with 1 if there is any. Where a stage of
// tests was left out, which only root can run, nothing is held against that run, and the last line says so.
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
	write := flag.Bool("write", false, "write "+fieldsPage+" from the lists first")
	flag.Parse()
	findings, count, err := checkList(".", *ran, *write)
	if err == nil {
		err = writeReport(os.Stdout, findings, count, leftOut(*ran))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "compat:", err)
		os.Exit(2)
	}
	if len(findings) > 0 {
		os.Exit(1)
	}
}

// checkList reads the lists of the repository below root, writes the page that it gives if asked to, and checks both.
func checkList(root, ran string, write bool) (findings []string, count int, err error) {
	items, err := readLists(root)
	if err != nil {
		return nil, 0, err
	}
	if write {
		if err := writePage(root, items); err != nil {
			return nil, 0, err
		}
	}
	return checkRepository(root, ran, items)
}

// checkRepository returns what does not hold in the repository below root, and how many items and promises there are.
func checkRepository(root, ran string, items []item) (findings []string, count int, err error) {
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
	if findings, err = checkPage(root, items); err != nil {
		return nil, 0, err
	}
	findings = slices.Concat(findings, checkItems(items), checkShapes(items), checkUnlisted(items), checkRoutes(items, servedRoutes()))
	proven := items
	for _, page := range promiseFiles {
		promises, err := readPromises(root, page)
		if err != nil {
			return nil, 0, err
		}
		proven = slices.Concat(proven, promises)
	}
	return append(findings, checkProofs(proven, tests, passed)...), len(proven), nil
}

// leftOut returns the stages of tests that the last run left out.
func leftOut(ran string) []string {
	files, _ := filepath.Glob(filepath.Join(ran, "*.left")) // the pattern is well formed
	for i := range files {
		files[i] = strings.TrimSuffix(filepath.Base(files[i]), ".left")
	}
	return files
}

func writeReport(w io.Writer, findings []string, count int, left []string) error {
	last := fmt.Sprintf("compat: %d items, %d findings", count, len(findings))
	if len(left) > 0 {
		last += "; not held against a run: left out are " + strings.Join(left, ", ")
	}
	lines := append(slices.Clone(findings), last)
	_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return err
}
