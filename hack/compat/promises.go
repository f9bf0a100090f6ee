package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// promiseFiles are the pages whose tables say what moss promises, and which test holds each promise.
var promiseFiles = []string{"docs/security.md", "docs/reliability.md"}

// readPromises reads the rows of two columns, a promise and its tests, of a page. Headings and their rules are left out.
func readPromises(root, page string) ([]item, error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(page)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing: its promises have no tests", page)
	}
	if err != nil {
		return nil, err
	}
	var promises []item
	heading := true
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 4 {
			heading = true
			continue
		}
		does, proofs := strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2])
		if strings.Trim(does, "-") == "" {
			heading = false
			continue
		}
		if !heading {
			promises = append(promises, item{name: page + ": " + does, does: does, proofs: proofs})
		}
	}
	if len(promises) == 0 {
		return nil, fmt.Errorf("%s: no table of promises", page)
	}
	return promises, nil
}
