package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"moss/api/apiver"
)

// item is one thing that the specification names, or that the code has beside it.
type item struct {
	name     string
	versions apiver.Range
	kind     string // the form of a field, the kind of a parameter, or one of the words of kinds
	note     string // one of the notes, or nothing
	does     string // what moss does with it
	proofs   string // tests, as "11-exec: name of the test" or "engine/exec TestName", with semicolons between them

	part, section string // the headings above it
}

// The notes that the list may have behind an item. What has none is of the specification and just as it says.
const (
	earlierToo = "earlier too" // clients read it in earlier versions as well, and it is there in them. The words about it say so too.
	wider      = "wider"       // the code takes or shows another form beside the specification's
	ofClients  = "clients"     // not of the specification: clients of these versions send or read it
	ofLater    = "later"       // of a later version, and there at these all the same
	ofMoss     = "moss"        // of moss alone
	isNever    = "never"       // of the specification, and never there: the words about it say why, behind the same word
)

// allVersions is how the files write the range without ends.
const allVersions = "all"

func parseVersions(s string) (apiver.Range, error) {
	if s == allVersions {
		return apiver.Range{}, nil
	}
	return apiver.ParseRange(s)
}

func formatVersions(r apiver.Range) string {
	if r == (apiver.Range{}) {
		return allVersions
	}
	return r.String()
}

// readLists reads both lists below root: what the specification names, and what later versions add.
func readLists(root string) ([]item, error) {
	var all []item
	for _, name := range []string{"fields.tsv", "fields-later.tsv"} {
		items, err := readItems(filepath.Join(root, "docs", name))
		if err != nil {
			return nil, err
		}
		all = append(all, items...)
	}
	return all, nil
}

// readItems reads one list: lines of an item, its versions, its kind, a note or nothing, what moss does with it and its
// tests, with tabs between them, below headings of two levels.
func readItems(path string) ([]item, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var items []item
	var part, section string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if title, ok := strings.CutPrefix(line, "## "); ok {
			part, section = title, ""
			continue
		}
		if title, ok := strings.CutPrefix(line, "### "); ok {
			section = title
			continue
		}
		if line == "" || strings.HasPrefix(line, "# ") {
			continue
		}
		i, err := parseItem(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		i.part, i.section = part, section
		items = append(items, i)
	}
	return items, nil
}

func parseItem(line string) (item, error) {
	columns := strings.Split(line, "\t")
	if len(columns) != 6 {
		return item{}, fmt.Errorf("%q has %d columns, want an item, versions, a kind, a note or nothing, what moss does, and tests",
			line, len(columns))
	}
	i := item{name: columns[0], kind: columns[2], note: columns[3], does: columns[4], proofs: columns[5]}
	var err error
	if i.versions, err = parseVersions(columns[1]); err != nil {
		return item{}, fmt.Errorf("%s: %w", i.name, err)
	}
	if !slices.Contains([]string{"", earlierToo, wider, ofClients, ofLater, ofMoss, isNever}, i.note) {
		return item{}, fmt.Errorf("%s: %q is no note", i.name, i.note)
	}
	if want := columnKind(i.name); !want(i.kind) {
		return item{}, fmt.Errorf("%s: %q is no kind of what it is", i.name, i.kind)
	}
	return i, nil
}

// checkItems says which items are listed twice, say nothing of moss, or say something else than their note.
func checkItems(items []item) []string {
	var findings []string
	seen := make(map[string]bool, len(items))
	for _, i := range items {
		switch {
		case seen[i.name]:
			findings = append(findings, i.name+": twice in the list")
		case i.does == "":
			findings = append(findings, i.name+": the list does not say what moss does with it")
		case (i.note == earlierToo) != strings.Contains(i.does, earlierToo):
			findings = append(findings, fmt.Sprintf("%s: %q in one of note and words only", i.name, earlierToo))
		case (i.note == isNever) != strings.HasPrefix(i.does, notApplicable):
			findings = append(findings, fmt.Sprintf("%s: %q in one of note and words only", i.name, isNever))
		}
		seen[i.name] = true
	}
	return findings
}
