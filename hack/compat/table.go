package main

import (
	"fmt"
	"os"
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
}

// row is an item's line in the table.
type row struct {
	name     string
	versions apiver.Range
	does     string
	proofs   string // tests, as "11-exec: name of the test" or "engine/exec TestName", with semicolons between them
}

// The notes that the list may have behind an item. What has none is of the specification and just as it says.
const (
	earlierToo = "earlier too" // clients read it in earlier versions as well, and it is there in them. The table says so too.
	wider      = "wider"       // the code takes or shows another form beside the specification's
	ofClients  = "clients"     // not of the specification: clients of these versions send or read it
	ofLater    = "later"       // of a version that is not served, and there at these all the same
	ofMoss     = "moss"        // of moss alone
	isNever    = "never"       // of the specification, and never there: the table says why, behind the same word
)

// allVersions is how the files write the range without ends.
const allVersions = "all"

func parseVersions(s string) (apiver.Range, error) {
	if s == allVersions {
		return apiver.Range{}, nil
	}
	return apiver.ParseRange(s)
}

// readItems reads docs/fields.tsv: an item, its versions, its kind and perhaps a note, with tabs between them.
func readItems(path string) ([]item, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var items []item
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "# ") {
			continue
		}
		columns := strings.Split(line, "\t")
		if len(columns) != 3 && len(columns) != 4 {
			return nil, fmt.Errorf("%s: %q has %d columns, want an item, versions, a kind and perhaps a note", path, line, len(columns))
		}
		i := item{name: columns[0], kind: columns[2]}
		if i.versions, err = parseVersions(columns[1]); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", path, i.name, err)
		}
		if len(columns) == 4 {
			i.note = columns[3]
			if !slices.Contains([]string{earlierToo, wider, ofClients, ofLater, ofMoss, isNever}, i.note) {
				return nil, fmt.Errorf("%s: %s: %q is no note", path, i.name, i.note)
			}
		}
		if want := columnKind(i.name); !want(i.kind) {
			return nil, fmt.Errorf("%s: %s: %q is no kind of what it is", path, i.name, i.kind)
		}
		items = append(items, i)
	}
	return items, nil
}

// readTable reads the rows of four columns whose first is `code`.
func readTable(path string) ([]row, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var rows []row
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 6 {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		name, marked := strings.CutPrefix(cells[1], "`")
		if !marked {
			continue
		}
		r, err := parseVersions(cells[2])
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", path, cells[1], err)
		}
		rows = append(rows, row{name: strings.TrimSuffix(name, "`"), versions: r, does: cells[3], proofs: cells[4]})
	}
	return rows, nil
}

// compareItems says where the table and the list of items differ.
func compareItems(items []item, table []row) []string {
	var findings []string
	listed := make(map[string]item, len(items))
	for _, i := range items {
		if _, twice := listed[i.name]; twice {
			findings = append(findings, i.name+": twice in the list")
		}
		listed[i.name] = i
	}
	seen := make(map[string]bool, len(table))
	for _, r := range table {
		i, known := listed[r.name]
		switch {
		case !known:
			findings = append(findings, r.name+": in the table, not in the list")
		case seen[r.name]:
			findings = append(findings, r.name+": twice in the table")
		case i.versions != r.versions:
			findings = append(findings, fmt.Sprintf("%s: versions %s in the table, %s in the list", r.name, r.versions, i.versions))
		case (i.note == earlierToo) != strings.Contains(r.does, earlierToo):
			findings = append(findings, fmt.Sprintf("%s: %q in one of list and table only", r.name, earlierToo))
		case (i.note == isNever) != strings.HasPrefix(r.does, notApplicable):
			findings = append(findings, fmt.Sprintf("%s: %q in one of list and table only", r.name, isNever))
		}
		if r.does == "" {
			findings = append(findings, r.name+": the table does not say what moss does with it")
		}
		seen[r.name] = true
	}
	for _, i := range items {
		if !seen[i.name] {
			findings = append(findings, i.name+": not in the table")
		}
	}
	return findings
}
