package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/build"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// pkg is one package of the module. Its name and those of its imports are folders below the module's root.
type pkg struct {
	name        string
	imports     []string // of this module
	testImports []string // of this module, by _test.go files
	embeds      []string // patterns of embedded files, of test files not
	program     bool     // package main
	source      bool     // it has files other than _test.go
	tested      bool     // it has _test.go files
}

// module is what the source files say of the packages. It needs neither the go command nor the modules of others.
type module struct {
	pkgs   map[string]*pkg
	nested []string // folders of other modules in this tree
}

// readModule reads the packages below root, as they are built with these tags.
func readModule(root string, tags []string) (*module, error) {
	modfile, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return nil, err
	}
	first, _, _ := strings.Cut(string(modfile), "\n")
	modulePath := strings.TrimSpace(strings.TrimPrefix(first, "module"))
	goBuild := build.Default
	goBuild.BuildTags = tags
	m := &module{pkgs: map[string]*pkg{}}
	err = filepath.WalkDir(root, func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, dir)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if base := d.Name(); name != "." && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata" || base == "node_modules") {
			return filepath.SkipDir
		}
		if name != "." && fileExists(filepath.Join(dir, "go.mod")) {
			m.nested = append(m.nested, name)
			return filepath.SkipDir
		}
		return m.addPackage(&goBuild, modulePath, dir, name)
	})
	return m, err
}

// addPackage adds the package in that folder, if there is one.
func (m *module) addPackage(goBuild *build.Context, modulePath, dir, name string) error {
	found, err := goBuild.ImportDir(dir, 0)
	if _, none := errors.AsType[*build.NoGoError](err); none {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read package %s: %w", name, err)
	}
	m.pkgs[name] = &pkg{
		name:        name,
		imports:     cutPaths(modulePath, found.Imports),
		testImports: cutPaths(modulePath, found.TestImports, found.XTestImports),
		embeds:      found.EmbedPatterns,
		program:     found.IsCommand(),
		source:      len(found.GoFiles) > 0,
		tested:      len(found.TestGoFiles)+len(found.XTestGoFiles) > 0,
	}
	return nil
}

// cutPaths returns the folders of the import paths that are of the module.
func cutPaths(modulePath string, lists ...[]string) []string {
	var names []string
	for _, importPath := range slices.Concat(lists...) {
		if name, found := strings.CutPrefix(importPath, modulePath+"/"); found {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// findOwner returns the package to which a file belongs: that of its folder, or of the nearest one above. There is none for
// files of nested modules.
func (m *module) findOwner(file string) *pkg {
	for dir := path.Dir(file); ; dir = path.Dir(dir) {
		if p := m.pkgs[dir]; p != nil {
			return p
		}
		if dir == "." || slices.Contains(m.nested, dir) {
			return nil
		}
	}
}

// holds tells whether a file is part of what others import: Go code that is no test, or embedded in it.
func (p *pkg) holds(file string) bool {
	rest := strings.TrimPrefix(file, p.name+"/")
	if path.Dir(file) == p.name && strings.HasSuffix(file, ".go") {
		return !strings.HasSuffix(file, "_test.go")
	}
	for _, pattern := range p.embeds {
		pattern = strings.TrimPrefix(pattern, "all:")
		for part := rest; part != "."; part = path.Dir(part) {
			if ok, err := path.Match(pattern, part); ok && err == nil {
				return true
			}
		}
	}
	return false
}

// listDeps returns the packages that these packages' programs are made of, they themselves included.
func (m *module) listDeps(names ...string) map[string]bool {
	seen := map[string]bool{}
	for len(names) > 0 {
		name := names[0]
		names = names[1:]
		p := m.pkgs[name]
		if p == nil || seen[name] {
			continue
		}
		seen[name] = true
		names = append(names, p.imports...)
	}
	return seen
}

// listPrograms returns the programs that are installed.
func (m *module) listPrograms() []string {
	var programs []string
	for name, p := range m.pkgs {
		if p.program && path.Dir(name) == "cmd" {
			programs = append(programs, name)
		}
	}
	slices.Sort(programs)
	return programs
}

// listDependants returns the packages that import one of these, directly or not, in their test files too: nearest first, and
// of those at one distance the one with the fewest dependencies, since it is compiled first.
func (m *module) listDependants(names []string) []string {
	distance := map[string]int{}
	for _, name := range names {
		distance[name] = 0
	}
	nearest := func(imports []string) (least int, found bool) {
		for _, name := range imports {
			if d, known := distance[name]; known && (!found || d < least) {
				least, found = d, true
			}
		}
		return least, found
	}
	for d, grown := 0, true; grown; d++ {
		grown = false
		for name, p := range m.pkgs {
			if _, known := distance[name]; known {
				continue
			}
			if least, found := nearest(p.imports); found && least == d {
				distance[name], grown = d+1, true
			}
		}
	}
	// Test files hand nothing on to other packages: they come after the rest is known.
	byTests := map[string]int{}
	for name, p := range m.pkgs {
		least, found := nearest(p.testImports)
		if d, known := distance[name]; found && (!known || least+1 < d) {
			byTests[name] = least + 1
		}
	}
	maps.Copy(distance, byTests)
	for _, name := range names {
		delete(distance, name)
	}
	weight := map[string]int{}
	dependants := make([]string, 0, len(distance))
	for name := range distance {
		weight[name] = len(m.listDeps(name))
		dependants = append(dependants, name)
	}
	slices.SortFunc(dependants, func(a, b string) int {
		return cmp.Or(cmp.Compare(distance[a], distance[b]), cmp.Compare(weight[a], weight[b]), cmp.Compare(a, b))
	})
	return dependants
}
