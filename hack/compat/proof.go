package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// notApplicable begins the words about an item that nothing can prove, and says why.
const notApplicable = "never:"

// findTests returns the names of all tests below root as the list writes them: true for those of every run, false for those
// with the tag whole.
func findTests(root string) (map[string]bool, error) {
	inGo := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	inBats := regexp.MustCompile(`(?m)^(?:# bats test_tags=(.*)\n)?@test "((?:[^"\\]|\\.)*)"`)
	ofFile := regexp.MustCompile(`(?m)^# bats file_tags=(.*)$`)
	escaped := regexp.MustCompile(`\\(.)`)
	tests := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "bin" || name == "node_modules") {
			return filepath.SkipDir
		}
		goTest, bats := strings.HasSuffix(name, "_test.go"), strings.HasSuffix(name, ".bats")
		if d.IsDir() || !goTest && !bats {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		place, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if goTest {
			for _, m := range inGo.FindAllSubmatch(text, -1) {
				tests[filepath.ToSlash(filepath.Dir(place))+" "+string(m[1])] = true
			}
			return nil
		}
		file := strings.TrimSuffix(strings.TrimPrefix(filepath.ToSlash(place), "tests/"), ".bats")
		wholeFile := slices.ContainsFunc(ofFile.FindAllStringSubmatch(string(text), -1), func(m []string) bool { return hasTag(m[1], "whole") })
		for _, m := range inBats.FindAllStringSubmatch(string(text), -1) {
			tests[file+": "+escaped.ReplaceAllString(m[2], "$1")] = !wholeFile && !hasTag(m[1], "whole") // as bats prints it
		}
		return nil
	})
	return tests, err
}

// hasTag tells whether a list of tags, with commas between them, holds that one.
func hasTag(list, tag string) bool {
	return slices.ContainsFunc(strings.Split(list, ","), func(t string) bool { return strings.TrimSpace(t) == tag })
}

// readPassed reads the files of a run: lines "module/package Test" of Go's tests and TAP of the others. What was skipped has
// not passed.
func readPassed(dir string) (map[string]bool, error) {
	passed := map[string]bool{}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return nil, err
	}
	tap := regexp.MustCompile(`^ok \d+ (.*?)(?: in \d+ms)?$`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			if m := tap.FindStringSubmatch(line); m != nil {
				passed[m[1]] = passed[m[1]] || !strings.Contains(line, " # skip")
			} else if test, ok := strings.CutPrefix(line, "moss/"); ok {
				passed[test] = true
			}
		}
	}
	if len(passed) == 0 {
		return nil, fmt.Errorf("no test has passed by the files of %s", dir)
	}
	return passed, nil
}

// splitProofs takes the tests of an item apart. The name of a test may hold semicolons itself: the longest known name counts.
func splitProofs(cell string, tests map[string]bool) []string {
	var proofs []string
	pieces := strings.Split(cell, ";")
	for len(pieces) > 0 {
		n := 1
		for end := len(pieces); end > 1; end-- {
			if _, known := tests[strings.TrimSpace(strings.Join(pieces[:end], ";"))]; known {
				n = end
				break
			}
		}
		if proof := strings.TrimSpace(strings.Join(pieces[:n], ";")); proof != "" {
			proofs = append(proofs, proof)
		}
		pieces = pieces[n:]
	}
	return proofs
}

// checkProofs says which items name no test of every run, one that is not there, or one of every run that did not pass. passed nil
// means not to look.
func checkProofs(items []item, tests, passed map[string]bool) []string {
	var findings []string
	for _, i := range items {
		if i.proofs == "" && !strings.HasPrefix(i.does, notApplicable) {
			findings = append(findings, i.name+": no test is named")
		}
		proofs := splitProofs(i.proofs, tests)
		if len(proofs) > 0 && !slices.ContainsFunc(proofs, func(proof string) bool { every, known := tests[proof]; return every || !known }) {
			findings = append(findings, i.name+": all of its tests have the tag whole")
		}
		for _, proof := range proofs {
			name := proof
			if _, title, bats := strings.Cut(proof, ": "); bats {
				name = title // as TAP has it
			}
			every, known := tests[proof]
			switch {
			case !known:
				findings = append(findings, fmt.Sprintf("%s: there is no test %q", i.name, proof))
			case passed != nil && every && !passed[name]:
				findings = append(findings, fmt.Sprintf("%s: the test %q did not pass in that run", i.name, proof))
			}
		}
	}
	return findings
}
