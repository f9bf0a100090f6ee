package main

import (
	"fmt"
	"os"
	"strings"

	"moss/api/apiver"
)

// item is one thing that the specification names.
type item struct {
	name     string
	versions apiver.Range
	earlier  bool // clients read it in earlier versions too, and it is there in them
}

// row is an item's line in the table.
type row struct {
	item

	does   string
	proofs string // tests, as "11-exec: name of the test" or "engine/exec TestName", with semicolons between them
}

// earlierToo is what the list says behind the versions of an item that is there in earlier ones as well. The table says so
// in its words.
const earlierToo = "earlier too"

// allVersions is how the files write the range without ends.
const allVersions = "all"

func parseVersions(s string) (apiver.Range, error) {
	if s == allVersions {
		return apiver.Range{}, nil
	}
	return apiver.ParseRange(s)
}

// readItems reads docs/fields.tsv: an item, a tab, its versions, and perhaps another tab and the words of earlierToo.
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
		name, versions, ok := strings.Cut(line, "\t")
		if !ok {
			return nil, fmt.Errorf("%s: no versions: %q", path, line)
		}
		versions, more, _ := strings.Cut(versions, "\t")
		r, err := parseVersions(versions)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", path, name, err)
		}
		if more != "" && more != earlierToo {
			return nil, fmt.Errorf("%s: %s: %q behind the versions", path, name, more)
		}
		items = append(items, item{name: name, versions: r, earlier: more != ""})
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
		rows = append(rows, row{item: item{name: strings.TrimSuffix(name, "`"), versions: r}, does: cells[3], proofs: cells[4]})
	}
	return rows, nil
}

// compare says where the table and the list of items differ.
func compare(items []item, table []row) []string {
	var findings []string
	listed := make(map[string]item, len(items))
	for _, i := range items {
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
		case i.earlier != strings.Contains(r.does, earlierToo):
			findings = append(findings, fmt.Sprintf("%s: %q in one of list and table only", r.name, earlierToo))
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
