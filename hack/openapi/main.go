// Command openapi writes docs/openapi.yaml, the OpenAPI document of the newest version that moss speaks, and docs/api.md, the
// reference of all of them.
//
//	go run ./hack/openapi [DIR]
//
// Both are made of the table of routes, the structs of package wire with their ranges of versions, and words.txt. DIR is
// where they go, docs without it. They are committed; a test of this package compares them with what it would write.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"moss/api/apiver"
	"moss/api/handler"
)

func main() {
	dir := "docs"
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	if err := writeFiles(dir); err != nil {
		fmt.Fprintln(os.Stderr, "openapi:", err)
		os.Exit(1)
	}
}

func writeFiles(dir string) error {
	files, err := generateFiles()
	if err != nil {
		return err
	}
	for name, content := range files {
		// Others read them; nothing in them is anybody's own.
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil { //nolint:gosec // documents of the repository
			return err
		}
	}
	return nil
}

// generateFiles returns the files by name.
func generateFiles() (map[string][]byte, error) {
	w, err := readWords(wordsText)
	if err != nil {
		return nil, err
	}
	routes := handler.New(handler.Services{}).Routes()
	document, err := openAPI(routes, w, apiver.Max)
	if err != nil {
		return nil, err
	}
	page, err := referencePage(routes, w)
	if err != nil {
		return nil, err
	}
	if unused := w.unusedNames(); len(unused) > 0 {
		return nil, fmt.Errorf("words.txt describes what is not there: %q", unused)
	}
	return map[string][]byte{"openapi.yaml": document, "api.md": page}, nil
}
