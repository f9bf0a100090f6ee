package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// maxPerLine is how many bats files a line may name, so that one change stays quick to check.
const maxPerLine = 5

// batsMap holds the lines of tests/map.txt: by pattern, the bats files without folder and suffix, the most direct first.
type batsMap map[string][]string

// parseMap reads lines "pattern | file file". "#" begins a comment.
func parseMap(text string) (batsMap, error) {
	table := batsMap{}
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		head, tail, found := strings.Cut(line, "|")
		pattern := strings.TrimSpace(head)
		names := strings.Fields(tail)
		if !found || pattern == "" || len(names) == 0 {
			return nil, fmt.Errorf("line %d: want \"pattern | files\", got %q", i+1, line)
		}
		if _, twice := table[pattern]; twice {
			return nil, fmt.Errorf("line %d: a second line for %s", i+1, pattern)
		}
		table[pattern] = names
	}
	return table, nil
}

// findForFile returns the bats files for a file: by a line of its own, or by that of its folder.
func (t batsMap) findForFile(file string) []string {
	if names, found := t[file]; found {
		return names
	}
	return t.findForFolder(path.Dir(file))
}

// findForFolder returns the bats files by the line of the folder, or of the nearest one whose line ends in "/...".
func (t batsMap) findForFolder(folder string) []string {
	if names, found := t[folder]; found {
		return names
	}
	for dir := folder; dir != "."; dir = path.Dir(dir) {
		if names, found := t[dir+"/..."]; found {
			return names
		}
	}
	return nil
}

// check returns what does not hold between the map, the packages of the programs and the files below root.
func (t batsMap) check(m *module, root string) ([]string, error) {
	var findings []string
	report := func(format string, args ...any) { findings = append(findings, fmt.Sprintf(format, args...)) }
	paths, err := filepath.Glob(filepath.Join(root, "tests", "*.bats"))
	if err != nil {
		return nil, err
	}
	unused := map[string]bool{}
	for _, p := range paths {
		unused[strings.TrimSuffix(filepath.Base(p), ".bats")] = true
	}
	for pattern, names := range t {
		if !m.hasPlace(root, pattern) {
			report("%s: neither a package nor a file", pattern)
		}
		if len(names) > maxPerLine {
			report("%s: %d files, at most %d", pattern, len(names), maxPerLine)
		}
		for i, name := range names {
			if !fileExists(filepath.Join(root, batsFile(name))) {
				report("%s: no %s", pattern, batsFile(name))
			}
			if slices.Contains(names[:i], name) {
				report("%s: %s twice", pattern, name)
			}
			delete(unused, name)
		}
	}
	for name := range unused {
		report("%s: no line names it", batsFile(name))
	}
	for name := range m.listDeps(m.listPrograms()...) {
		if t.findForFolder(name) == nil {
			report("%s: no line for this package", name)
		}
	}
	library, err := os.ReadDir(filepath.Join(root, "tests", "lib"))
	if err != nil {
		return nil, err
	}
	for _, entry := range library {
		if t.findForFile("tests/lib/"+entry.Name()) == nil {
			report("tests/lib/%s: no line for this file", entry.Name())
		}
	}
	slices.Sort(findings)
	return findings, nil
}

// hasPlace tells whether a pattern of the map names something: a package, packages below it, a module, a file, or a folder
// of the tests.
func (m *module) hasPlace(root, pattern string) bool {
	folder, below := strings.CutSuffix(pattern, "/...")
	for name := range m.pkgs {
		if name == folder || below && strings.HasPrefix(name, folder+"/") {
			return true
		}
	}
	info, err := os.Lstat(filepath.Join(root, folder))
	if err != nil {
		return false
	}
	return !below && info.Mode().IsRegular() || slices.Contains(m.nested, folder) || strings.HasPrefix(folder, "tests/")
}

// batsFile returns the path of a bats file that the map names.
func batsFile(name string) string { return "tests/" + name + ".bats" }
