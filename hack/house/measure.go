package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	longLine  = 130 // characters
	largeFrom = 500 // lines of a package, from which on its names are looked at
)

// limits are the measures up to which nothing is said. An interface has another one.
var limits = map[string]int{"words": 0, "long": 0, "methods": 40, "locks": 2} //nolint:gochecknoglobals // a constant

const interfaceLimit = 8

// tables are types with a method for each endpoint or command: they have as many as there are.
var tables = map[string]bool{"api/handler.Handler": true, "api/client.Client": true, "cmd/moss.app": true} //nolint:gochecknoglobals // a constant

// measureTree returns the measures above their limits of all packages of the programs below top, by kind and name.
func measureTree(top string) (map[string]int, error) {
	measured := map[string]int{}
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(top, path)
		if err != nil {
			return err
		}
		switch first, _, _ := strings.Cut(name, string(filepath.Separator)); first {
		case "hack", "tests", "bin", "docs":
			return fs.SkipDir
		default:
			if strings.HasPrefix(first, ".") && first != "." || entry.Name() == "testdata" {
				return fs.SkipDir
			}
		}
		return measurePackage(path, name, measured)
	})
	return measured, err
}

// found is what the files of one package hold.
type found struct {
	lines, long, words int
	methods, locks     map[string]int
	interfaces         map[string]*ast.InterfaceType
}

// measurePackage adds the measures of one folder.
func measurePackage(dir, name string, measured map[string]int) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	all := found{methods: map[string]int{}, locks: map[string]int{}, interfaces: map[string]*ast.InterfaceType{}}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, source, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		all.addText(string(source))
		all.addFile(file)
	}
	add := func(kind, of string, is, limit int) {
		if is > limit {
			measured[kind+" "+of] = is
		}
	}
	add("long", name, all.long, limits["long"])
	if all.lines > largeFrom {
		add("words", name, all.words, limits["words"])
	}
	for of, n := range all.methods {
		if !tables[name+"."+of] {
			add("methods", name+"."+of, n, limits["methods"])
		}
	}
	for of, n := range all.locks {
		add("locks", name+"."+of, n, limits["locks"])
	}
	for of, is := range all.interfaces {
		add("methods", name+"."+of, all.countMethods(is), interfaceLimit)
	}
	return nil
}

func (f *found) addText(source string) {
	for line := range strings.Lines(source) {
		f.lines++
		if utf8.RuneCountInString(strings.TrimRight(line, "\n")) > longLine {
			f.long++
		}
	}
}

func (f *found) addFile(file *ast.File) {
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if isOneWord(d.Name.Name) && d.Name.Name != "main" && d.Name.Name != "init" {
				f.words++
			}
			if d.Recv != nil {
				f.methods[receiverOf(d.Recv.List[0].Type)]++
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if t, ok := spec.(*ast.TypeSpec); ok {
					f.addType(t)
				}
			}
		}
	}
}

func (f *found) addType(t *ast.TypeSpec) {
	switch is := t.Type.(type) {
	case *ast.InterfaceType:
		f.interfaces[t.Name.Name] = is
	case *ast.StructType:
		for _, field := range is.Fields.List {
			if isLock(field.Type) {
				f.locks[t.Name.Name] += max(1, len(field.Names))
			}
		}
	}
}

// countMethods counts the methods of an interface and of those of its package that it embeds.
func (f *found) countMethods(of *ast.InterfaceType) (n int) {
	for _, m := range of.Methods.List {
		if len(m.Names) > 0 {
			n += len(m.Names)
		} else if id, ok := m.Type.(*ast.Ident); ok && f.interfaces[id.Name] != nil {
			n += f.countMethods(f.interfaces[id.Name])
		}
	}
	return n
}

// isOneWord reports whether an unexported name has one word only.
func isOneWord(name string) bool {
	return name != "_" && !strings.ContainsFunc(name, func(r rune) bool { return unicode.IsUpper(r) || r == '_' })
}

// receiverOf returns the name of a receiver's type.
func receiverOf(expr ast.Expr) string {
	switch t := expr.(type) {
	case *ast.StarExpr:
		return receiverOf(t.X)
	case *ast.IndexExpr:
		return receiverOf(t.X)
	case *ast.IndexListExpr:
		return receiverOf(t.X)
	case *ast.Ident:
		return t.Name
	default:
		return ""
	}
}

// isLock reports whether a field is a lock of package sync.
func isLock(expr ast.Expr) bool {
	sel, ok := expr.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	from, ok := sel.X.(*ast.Ident)
	return ok && from.Name == "sync" && (sel.Sel.Name == "Mutex" || sel.Sel.Name == "RWMutex")
}
