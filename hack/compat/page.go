package main

import (
	"os"
	"path/filepath"
	"strings"
)

// fieldsPage is the page for readers that is made from the list.
const fieldsPage = "docs/fields.md"

const fieldsHead = `# Fields

<!-- Made from fields.tsv and fields-later.tsv by "go run ./hack/compat -write": change those, not this page. -->

Every field, endpoint, parameter, header and status: the versions that have it, its form or kind, what moss does with it, and the tests that prove it. ` + "`NN-name`" + ` is a file of ` + "`tests/`" + `, the other tests belong to packages. [compatibility.md](compatibility.md) gives the reasons, [api.md](api.md) shows the same by endpoint and record.

- "Earlier too": clients of earlier versions rely on it, and earlier versions have always had it.
- "Never": the specification names it, and moss does not have it; the words behind say why.
- A kind with "wider" takes another form besides. "Clients", "later" and "moss" are not of the specification: clients of these versions send or read it, a later version has it, or moss alone.

` + "`make compat`" + ` compares this list with the structs and the routes in both directions, and with the tests that passed last.
`

// formatPage returns the page as it has to be: a table for each section of the list.
func formatPage(items []item) string {
	var b strings.Builder
	b.WriteString(fieldsHead)
	var last item
	for _, i := range items {
		if i.part != last.part {
			b.WriteString("\n## " + i.part + "\n")
		}
		if i.part != last.part || i.section != last.section {
			b.WriteString("\n### " + i.section + "\n\n| item | versions | kind | moss | tests |\n|---|---|---|---|---|\n")
		}
		kind := i.kind
		switch i.note {
		case wider, ofClients, ofLater, ofMoss:
			kind += ", " + i.note
		}
		cells := []string{"`" + i.name + "`", formatVersions(i.versions), kind, i.does, i.proofs}
		for n := range cells {
			cells[n] = strings.ReplaceAll(cells[n], "|", `\|`)
		}
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
		last = i
	}
	return b.String()
}

// writePage writes the page of the repository below root anew.
func writePage(root string, items []item) error {
	path := filepath.Join(root, filepath.FromSlash(fieldsPage))
	return os.WriteFile(path, []byte(formatPage(items)), 0o644) //nolint:gosec // a document of the repository
}

// checkPage says whether the page below root is another one than the list gives.
func checkPage(root string, items []item) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(fieldsPage)))
	if err != nil {
		return nil, err
	}
	if string(text) != formatPage(items) {
		return []string{fieldsPage + ": not what the lists give: go run ./hack/compat -write"}, nil
	}
	return nil, nil
}
