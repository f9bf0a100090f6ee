package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// goFunc is a function in Go: the commands that it makes of its parameters.
type goFunc struct {
	params []string
	calls  []goCall
}

// goCall is a command with parameters in it; those of the shell's form, "1" and so on, and "@" with what is from one on.
type goCall struct {
	words []word
	rest  int // the parameter that stands for all further words; -1: none
}

// goValues are the texts that a name may stand for: a constant, or a variable of a loop over literals; with [] before it, those
// of a list.
type goValues map[string][]word

// goPackage is the sources of one folder.
type goPackage struct {
	dir    string
	files  []*ast.File
	set    *token.FileSet
	values goValues // of the package
}

func (r *reader) parseGo(dirs map[string][]string) (all []*goPackage, err error) {
	for dir, names := range dirs {
		p := &goPackage{dir: dir, set: token.NewFileSet(), values: goValues{}}
		for _, name := range names {
			f, err := parser.ParseFile(p.set, filepath.Join(r.top, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, fmt.Errorf("parse Go: %w", err)
			}
			p.files = append(p.files, f)
			if f.Name.Name == "main" {
				r.made[path.Base(dir)] = true
			}
		}
		for _, f := range p.files {
			for _, decl := range f.Decls {
				if d, ok := decl.(*ast.GenDecl); ok {
					ast.Inspect(d, p.values.collectValues)
				}
			}
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *goPackage) int { return strings.Compare(a.dir, b.dir) })
	return all, nil
}

// collectValues looks at one node.
func (v goValues) collectValues(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ValueSpec:
		for i, name := range n.Names {
			if i < len(n.Values) {
				v.keepValue(name, n.Values[i])
			}
		}
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			if name, ok := left.(*ast.Ident); ok && len(n.Lhs) == len(n.Rhs) {
				v.keepValue(name, n.Rhs[i])
			}
		}
	case *ast.RangeStmt:
		if name, ok := n.Value.(*ast.Ident); ok {
			v[name.Name] = append(v[name.Name], v.listOf(n.X)...)
		}
	}
	return true
}

func (v goValues) keepValue(name *ast.Ident, value ast.Expr) {
	if text, ok := textOf(value); ok {
		v[name.Name] = append(v[name.Name], word{text: text})
	}
	if list := v.listOf(value); list != nil {
		v["[]"+name.Name] = append(v["[]"+name.Name], list...)
	}
}

func textOf(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}

// listOf returns the elements of a literal list of texts, or of the lists that a name stands for.
func (v goValues) listOf(e ast.Expr) (words []word) {
	if name, ok := e.(*ast.Ident); ok {
		return v["[]"+name.Name]
	}
	list, ok := e.(*ast.CompositeLit)
	if !ok {
		return nil
	}
	for _, elem := range list.Elts {
		text, ok := textOf(elem)
		if !ok {
			text = unknown
		}
		words = append(words, word{text: text})
	}
	return words
}

func (r *reader) readGo(packages []*goPackage) {
	for _, p := range packages {
		for _, f := range p.files {
			for _, decl := range f.Decls {
				fn := &goFunc{}
				if d, ok := decl.(*ast.FuncDecl); ok {
					fn = r.goFunction(p.dir, d)
				}
				values := maps.Clone(p.values)
				ast.Inspect(decl, values.collectValues)
				where := goScope{p, f, fn, values}
				ast.Inspect(decl, func(n ast.Node) bool {
					if c, ok := n.(*ast.CallExpr); ok {
						r.goCall(where, c)
					}
					return true
				})
			}
		}
	}
}

func (r *reader) goFunction(dir string, d *ast.FuncDecl) *goFunc {
	key := dir + " " + d.Name.Name
	if r.goFuncs[key] == nil {
		fn := &goFunc{}
		for _, field := range d.Type.Params.List {
			for _, name := range field.Names {
				fn.params = append(fn.params, name.Name)
			}
		}
		r.goFuncs[key] = fn
	}
	return r.goFuncs[key]
}

// goScope is where a call stands.
type goScope struct {
	pkg    *goPackage
	file   *ast.File
	in     *goFunc
	values goValues
}

// goCall looks at one call: of a program, or of a function that calls one.
func (r *reader) goCall(s goScope, c *ast.CallExpr) {
	at := place{file: s.pkg.fileName(r.top, c), line: s.pkg.set.Position(c.Pos()).Line}
	name, dir := calleeOf(s, c)
	if dir == "os/exec" {
		switch name {
		case "CommandContext":
			r.goCommand(s, spreadArgs(c, 1), at)
		case "Command", "LookPath":
			r.goCommand(s, spreadArgs(c, 0), at)
		}
		return
	}
	fn := r.goFuncs[dir+" "+name]
	if fn == nil {
		return
	}
	for _, call := range fn.calls {
		words := make([]ast.Expr, 0, len(call.words))
		for _, w := range call.words {
			if i, err := strconv.Atoi(w.param); err == nil && i < len(c.Args) {
				words = append(words, c.Args[i])
			} else {
				words = append(words, &ast.BasicLit{Kind: token.STRING, Value: strconv.Quote(w.text)})
			}
		}
		if call.rest >= 0 && call.rest < len(c.Args) {
			words = append(words, spreadArgs(c, call.rest)...)
		}
		r.goCommand(s, words, at)
	}
}

// spreadArgs returns the arguments from one on; a list is taken apart.
func spreadArgs(c *ast.CallExpr, from int) []ast.Expr {
	args := slices.Clone(c.Args[from:])
	if len(args) == 0 {
		return nil
	}
	last := len(args) - 1
	list, isList := args[last].(*ast.CompositeLit)
	switch {
	case isList && (last == 0 || c.Ellipsis.IsValid()):
		return append(args[:last], list.Elts...)
	case c.Ellipsis.IsValid():
		args[last] = &ast.Ellipsis{Elt: args[last]}
	}
	return args
}

func (p *goPackage) fileName(top string, n ast.Node) string {
	name, err := filepath.Rel(top, p.set.Position(n.Pos()).Filename)
	if err != nil {
		return p.set.Position(n.Pos()).Filename
	}
	return filepath.ToSlash(name)
}

// calleeOf returns a call's function and where it is: a folder of this module, or the package's path.
func calleeOf(s goScope, c *ast.CallExpr) (name, dir string) {
	switch fun := c.Fun.(type) {
	case *ast.Ident:
		return fun.Name, s.pkg.dir
	case *ast.SelectorExpr:
		x, ok := fun.X.(*ast.Ident)
		if !ok {
			return "", ""
		}
		for _, spec := range s.file.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			as := path.Base(imported)
			if spec.Name != nil {
				as = spec.Name.Name
			}
			if as == x.Name {
				return fun.Sel.Name, strings.TrimPrefix(imported, "moss/")
			}
		}
		return fun.Sel.Name, s.pkg.dir // a method
	}
	return "", ""
}

// goCommand resolves a command line of these expressions, or keeps it with the function whose parameters it has.
func (r *reader) goCommand(s goScope, args []ast.Expr, at place) {
	made := goCall{rest: -1}
	parametric := false
	for i, arg := range args {
		w, rest := s.goWord(arg)
		if rest >= 0 {
			made.rest, parametric = rest, true
			break
		}
		if i == 0 && w.param == "" && w.text == unknown {
			return
		}
		_, err := strconv.Atoi(w.param)
		parametric = parametric || err == nil
		made.words = append(made.words, w)
	}
	if parametric && !slices.ContainsFunc(s.in.calls, func(c goCall) bool { return c.rest == made.rest && slices.Equal(c.words, made.words) }) {
		s.in.calls = append(s.in.calls, made)
	}
	nothing := &shellFile{name: at.file, values: map[string][][]word{}}
	for name, values := range s.values {
		for _, value := range values {
			nothing.values[name] = append(nothing.values[name], []word{value})
		}
	}
	r.resolveCommand(made.words, at, &scope{file: nothing}, true)
}

// goWord turns an expression into a word. rest is the parameter, if it is one, of which all that follows is made.
func (s goScope) goWord(e ast.Expr) (w word, rest int) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, ok := textOf(e); ok {
			return word{text: text}, -1
		}
	case *ast.Ident:
		i := slices.Index(s.in.params, e.Name)
		switch {
		case i >= 0:
			return word{param: strconv.Itoa(i)}, -1
		case s.values[e.Name] != nil:
			return word{param: e.Name}, -1
		}
	case *ast.IndexExpr: // the first of a list, which is followed by the others
		if x, ok := e.X.(*ast.Ident); ok {
			if i := slices.Index(s.in.params, x.Name); i >= 0 {
				return word{}, i
			}
		}
	case *ast.Ellipsis:
		return s.goWord(&ast.IndexExpr{X: e.Elt})
	case *ast.BinaryExpr:
		if left, ok := textOf(e.X); ok {
			return word{text: left + unknown}, -1
		}
	}
	return word{text: unknown}, -1
}
