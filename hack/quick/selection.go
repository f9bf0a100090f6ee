package main

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// maxBats is how many bats files one run takes: more of them are not done in three minutes.
const maxBats = 8

// selection is what a change asks for. Packages are folders below the module's root.
type selection struct {
	changed    []string // packages with changed files, those of tests included
	own        []string // packages whose tests are about what changed
	affected   []string // what imports a changed package, nearest first
	dependants []string // those of them that have tests
	nested     []string // changed modules within this one
	bats       []string // names as in the map
	goFiles    []string // changed ones that exist
	scripts    []string // likewise
	build      bool
	layers     bool
	compat     bool
	leftOut    []string // what changed and is not checked, or not as far as it could be
}

// selectParts works out what a change asks for.
func selectParts(m *module, table batsMap, files []change) selection {
	var sel selection
	var sources []string // packages whose importers are affected
	var lists [][]string // of bats files, one for each changed file
	for _, file := range files {
		sel.addFile(m, file)
		owner := m.findOwner(file.path)
		names := table.findForFile(file.path)
		switch {
		case owner == nil || owner.name == ".":
		case owner.holds(file.path):
			sources = append(sources, owner.name)
			sel.changed = append(sel.changed, owner.name)
			if _, found := table[file.path]; !found {
				names = table.findForFolder(owner.name)
			}
		case path.Dir(file.path) == owner.name || strings.Contains(file.path, "/testdata/"):
			sel.changed = append(sel.changed, owner.name) // a test of the package, or what one reads
			names = nil
		}
		if name, found := cutBats(file.path); found && !file.gone {
			names = []string{name}
		}
		if names != nil {
			lists = append(lists, names)
		}
		if reason := explainRest(file, owner, names); reason != "" {
			sel.leftOut = append(sel.leftOut, reason)
		}
	}
	sel.changed = sortUnique(sel.changed)
	sel.own = sortUnique(append(m.keepTested(sel.changed), findReaders(files)...))
	sel.affected = m.listDependants(sortUnique(sources))
	sel.dependants = slices.DeleteFunc(m.keepTested(sel.affected), func(name string) bool { return slices.Contains(sel.own, name) })
	sel.nested = sortUnique(sel.nested)
	sel.pickBats(lists)
	sel.build = sel.build || len(sel.bats) > 0
	return sel
}

// findReaders returns the packages whose tests read changed files outside their own folders.
func findReaders(files []change) []string {
	var readers []string
	for _, file := range files {
		switch file.path {
		case "docs/api.md", "docs/openapi.yaml":
			readers = append(readers, "hack/openapi")
		case "docs/fields.tsv", "docs/fields-later.tsv", "docs/fields.md":
			readers = append(readers, "hack/compat")
		case "tests/map.txt":
			readers = append(readers, "hack/quick")
		}
	}
	return readers
}

// addFile notes which checks the file itself needs.
func (s *selection) addFile(m *module, file change) {
	name := file.path
	isGo := strings.HasSuffix(name, ".go")
	isScript := name == ".ci/run" || slices.Contains([]string{".sh", ".bash", ".bats"}, path.Ext(name))
	if isGo && !file.gone {
		s.goFiles = append(s.goFiles, name)
	}
	if isScript && !file.gone {
		s.scripts = append(s.scripts, name)
	}
	for _, dir := range m.nested {
		if strings.HasPrefix(name, dir+"/") {
			s.nested = append(s.nested, dir)
		}
	}
	s.build = s.build || isGo || name == "go.mod" || name == "Makefile" || name == "VERSION"
	s.layers = s.layers || isGo || name == "hack/layers.txt"
	s.compat = s.compat || touchesCompat(name)
}

// touchesCompat tells whether docs/fields.tsv may be wrong after a change of that file. The names of tests are proofs
// in it.
func touchesCompat(name string) bool {
	return strings.HasPrefix(name, "api/") || strings.HasPrefix(name, "hack/compat/") || name == "docs/fields.tsv" || name == "docs/fields-later.tsv" ||
		name == "docs/fields.md" || strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, ".bats")
}

// explainRest says what of a changed file is not checked; "" if there is nothing to say.
func explainRest(file change, owner *pkg, bats []string) string {
	dir, base := path.Split(file.path)
	switch {
	case base == "go.mod" || base == "go.sum":
		return file.path + ": the tests of all that uses these modules: make unit"
	case file.path == ".golangci.yml":
		return file.path + ": its rules for all packages: make lint"
	case dir == "tests/guest/" || strings.HasPrefix(dir, "hack/guest/") || dir == "hack/units/":
		return file.path + ": make guest"
	case dir == "tests/swarm/" || base == "swarm.sh" && dir == "tests/" || file.path == "tests/lib/nodes.bash":
		return file.path + ": make test-swarm"
	case strings.HasSuffix(base, ".md") || bats != nil || len(findReaders([]change{file})) > 0:
		return ""
	case owner == nil || owner.name == ".":
		return file.path + ": no tests are known for it"
	}
	return ""
}

// keepTested returns those of the packages that have tests.
func (m *module) keepTested(names []string) []string {
	var tested []string
	for _, name := range names {
		if m.pkgs[name].tested {
			tested = append(tested, name)
		}
	}
	return tested
}

// pickBats takes the first of each list, then the second of each, and so on, until there are enough.
func (s *selection) pickBats(lists [][]string) {
	var rest []string
	for i := range maxPerLine {
		for _, names := range lists {
			switch {
			case i >= len(names) || slices.Contains(s.bats, names[i]):
			case len(s.bats) < maxBats:
				s.bats = append(s.bats, names[i])
			default:
				rest = append(rest, names[i])
			}
		}
	}
	if rest = sortUnique(rest); len(rest) > 0 {
		s.leftOut = append(s.leftOut, fmt.Sprintf("more than %d bats files: %s", maxBats, strings.Join(rest, " ")))
	}
	slices.Sort(s.bats)
}

// cutBats returns the name of one of tests/*.bats.
func cutBats(file string) (string, bool) {
	name, isBats := strings.CutSuffix(file, ".bats")
	name, inTests := strings.CutPrefix(name, "tests/")
	return name, isBats && inTests && !strings.Contains(name, "/")
}

func sortUnique(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}
