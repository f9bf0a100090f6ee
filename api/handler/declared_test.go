package handler_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"moss/api/handler"
	"moss/api/route"
)

// read is a parameter or a header that some code reads.
type read struct {
	name   string
	header bool
}

func (r read) String() string {
	if r.header {
		return "header " + r.name
	}
	return "parameter " + r.name
}

// readers are the methods of a call whose first argument names what they read.
var readers = map[string]bool{"Text": false, "Texts": false, "Has": false, "Bool": false, "Int": false, "Header": true}

// implied are what is read by a function that is given a call, or its request, and no name.
var implied = map[string][]read{
	"Filters":         {{"filters", false}},
	"JSONBody":        {{"Content-Type", true}},
	"Hijack":          {{"Connection", true}, {"Upgrade", true}},
	"Upgrades":        {{"Connection", true}, {"Upgrade", true}},
	"NewOutput":       {{"Connection", true}, {"Upgrade", true}},
	"CheckWebSocket":  {{"Connection", true}, {"Upgrade", true}, {"Sec-WebSocket-Version", true}, {"Sec-WebSocket-Key", true}},
	"NewWebSocket":    {{"Sec-WebSocket-Protocol", true}},
	"containerAttach": {{"Content-Type", true}}, // conn.Hijack drops a JSON body there
}

// source is one function of the package: what it reads itself, and what it calls.
type source struct {
	reads map[read]bool
	calls map[string]bool
	// named is the position of the parameter that holds the name of what it reads, -1 if there is none.
	named  int
	header bool
}

// sources are the functions of package handler, by name: no method has the name of a function.
type sources struct {
	t      *testing.T
	files  *token.FileSet
	consts map[string]string
	decls  map[string]*ast.FuncDecl
	found  map[string]*source
}

func parseSources(t *testing.T) *sources {
	t.Helper()
	s := &sources{
		t: t, files: token.NewFileSet(), consts: map[string]string{}, decls: map[string]*ast.FuncDecl{}, found: map[string]*source{},
	}
	for _, decl := range s.parse(filepath.Join("..", "compat")) {
		s.declareConsts("compat.", decl)
	}
	for _, decl := range s.parse(".") {
		s.declareConsts("", decl)
		s.declareFunc(decl)
	}
	for name, decl := range s.decls {
		s.found[name] = &source{reads: map[read]bool{}, calls: map[string]bool{}, named: -1}
		s.findNamed(name, decl)
	}
	for name, decl := range s.decls {
		s.walk(s.found[name], decl)
	}
	return s
}

// parse returns what the files of a folder declare, those of tests left out.
func (s *sources) parse(dir string) []ast.Decl {
	s.t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(names) == 0 {
		s.t.Fatalf("%s: %d files, %v", dir, len(names), err)
	}
	var decls []ast.Decl
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(s.files, name, nil, parser.SkipObjectResolution)
		if err != nil {
			s.t.Fatal(err)
		}
		decls = append(decls, file.Decls...)
	}
	return decls
}

func (s *sources) declareFunc(decl ast.Decl) {
	d, ok := decl.(*ast.FuncDecl)
	if !ok || d.Body == nil {
		return
	}
	for _, field := range d.Type.Params.List {
		for _, n := range field.Names {
			if isCall(field.Type) && n.Name != "c" && n.Name != "_" {
				s.t.Errorf("%s: the call is named %s, and the test knows c", s.files.Position(n.Pos()), n.Name)
			}
		}
	}
	if s.decls[d.Name.Name] != nil {
		s.t.Fatalf("two functions are called %s: the test tells them apart by their names", d.Name.Name)
	}
	s.decls[d.Name.Name] = d
}

// declareConsts notes texts by the names that package handler has for them.
func (s *sources) declareConsts(prefix string, decl ast.Decl) {
	d, ok := decl.(*ast.GenDecl)
	if !ok || d.Tok != token.CONST {
		return
	}
	for _, spec := range d.Specs {
		value, ok := spec.(*ast.ValueSpec)
		if !ok {
			continue
		}
		for i, name := range value.Names {
			if i < len(value.Values) {
				if text, ok := literal(value.Values[i]); ok {
					s.consts[prefix+name.Name] = text
				}
			}
		}
	}
}

// isCall reports whether a type is *route.Call.
func isCall(e ast.Expr) bool {
	star, ok := e.(*ast.StarExpr)
	if !ok {
		return false
	}
	sel, ok := star.X.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "Call"
}

func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}

// findNamed looks for a function that hands one of its parameters on as the name of what is read.
func (s *sources) findNamed(name string, decl *ast.FuncDecl) {
	position := map[string]int{}
	for _, field := range decl.Type.Params.List {
		for _, n := range field.Names {
			position[n.Name] = len(position)
		}
	}
	ast.Inspect(decl.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		method, isReader := readerOf(call)
		arg, isIdent := call.Args[0].(*ast.Ident)
		if !isReader || !isIdent {
			return true
		}
		if at, ok := position[arg.Name]; ok {
			s.found[name].named, s.found[name].header = at, readers[method]
		}
		return true
	})
}

// readerOf returns the method if the expression reads a parameter of a call: they all name theirs c.
func readerOf(call *ast.CallExpr) (method string, ok bool) {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", false
	}
	on, ok := sel.X.(*ast.Ident)
	_, known := readers[sel.Sel.Name]
	return sel.Sel.Name, ok && on.Name == "c" && known
}

// walk notes what a function reads and what it calls.
func (s *sources) walk(into *source, decl *ast.FuncDecl) {
	closures := map[string]bool{} // functions in variables whose first parameter is a name that a reader gets
	ast.Inspect(decl.Body, func(n ast.Node) bool {
		if assign, ok := n.(*ast.AssignStmt); ok && len(assign.Lhs) == 1 && len(assign.Rhs) == 1 {
			name, isIdent := assign.Lhs[0].(*ast.Ident)
			fn, isFunc := assign.Rhs[0].(*ast.FuncLit)
			if isIdent && isFunc && firstIsName(fn) {
				closures[name.Name] = true
			}
		}
		return true
	})
	for _, name := range implied[decl.Name.Name] {
		into.reads[name] = true
	}
	ast.Inspect(decl.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		name := calledName(call)
		for _, r := range implied[name] {
			into.reads[r] = true
		}
		if method, ok := readerOf(call); ok {
			s.note(into, decl, call.Args[0], readers[method])
			return true
		}
		if closures[name] {
			s.note(into, decl, call.Args[0], false)
			return true
		}
		if called := s.found[name]; called != nil {
			into.calls[name] = true
			if called.named >= 0 && called.named < len(call.Args) {
				s.note(into, decl, call.Args[called.named], called.header)
			}
		}
		return true
	})
}

// firstIsName reports whether a function literal is one that takes the name of what is read.
func firstIsName(fn *ast.FuncLit) bool {
	list := fn.Type.Params.List
	return len(list) > 0 && len(list[0].Names) > 0 && list[0].Names[0].Name == "name"
}

func calledName(call *ast.CallExpr) string {
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		return fun.Name
	case *ast.SelectorExpr:
		return fun.Sel.Name
	default:
		return ""
	}
}

// note adds what an expression names. One whose value cannot be told from the source hides a parameter from this test.
func (s *sources) note(into *source, decl *ast.FuncDecl, e ast.Expr, header bool) {
	if text, ok := literal(e); ok {
		into.reads[read{text, header}] = true
		return
	}
	name := ""
	switch e := e.(type) {
	case *ast.Ident:
		name = e.Name
	case *ast.SelectorExpr:
		if pkg, ok := e.X.(*ast.Ident); ok {
			name = pkg.Name + "." + e.Sel.Name
		}
	}
	switch {
	case s.consts[name] != "":
		into.reads[read{s.consts[name], header}] = true
	case name == "name": // a parameter, or that of a closure: who calls it is looked at
	default:
		s.t.Errorf("%s: %s reads a parameter whose name is no constant", s.files.Position(e.Pos()), decl.Name.Name)
	}
}

// all returns what a function reads, itself and by what it calls.
func (s *sources) all(name string) map[read]bool {
	reads, done := map[read]bool{}, map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		if done[name] || s.found[name] == nil {
			return
		}
		done[name] = true
		maps.Copy(reads, s.found[name].reads)
		for called := range s.found[name].calls {
			visit(called)
		}
	}
	visit(name)
	return reads
}

// handlerName is that of the function or method behind a route.
func handlerName(do route.Func) string {
	name := runtime.FuncForPC(reflect.ValueOf(do).Pointer()).Name()
	return strings.TrimSuffix(name[strings.LastIndex(name, ".")+1:], "-fm")
}

func TestRoutesDeclareWhatTheyRead(t *testing.T) {
	s := parseSources(t)
	known := map[read]bool{}
	for _, r := range handler.New(handler.Services{}).Routes() {
		var declared map[read]bool
		if r.Do != nil {
			declared = s.all(handlerName(r.Do))
		}
		listed := make([]read, 0, len(r.Shape.Params))
		for _, p := range r.Shape.Params {
			listed = append(listed, read{p.Name, p.Header})
			known[read{p.Name, p.Header}] = true
		}
		for name := range declared {
			if !slices.Contains(listed, name) {
				t.Errorf("%s %s reads the %s and does not declare it", r.Method, r.Path, name)
			}
		}
		for _, name := range listed {
			if !declared[name] && !slices.Contains([]string{"passSwarm", "enterSwarm"}, handlerName(r.Do)) { // moss-swarm reads what its endpoints declare
				t.Errorf("%s %s declares the %s and does not read it", r.Method, r.Path, name)
			}
		}
	}
	for name, source := range s.found {
		for r := range source.reads {
			if !known[r] {
				t.Errorf("%s reads the %s, which no route declares", name, r)
			}
		}
	}
}

// TestHandlersReadByCall finds the ways around a call's methods, which no declaration covers.
func TestHandlersReadByCall(t *testing.T) {
	s := parseSources(t)
	for _, decl := range s.decls {
		ast.Inspect(decl.Body, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			switch on := sel.X.(type) {
			case *ast.SelectorExpr: // r.Header.Get, r.URL.Query
				if on.Sel.Name == "Header" && (sel.Sel.Name == "Get" || sel.Sel.Name == "Values") || on.Sel.Name == "URL" && sel.Sel.Name == "Query" {
					t.Errorf("%s: a handler reads the request itself", s.files.Position(call.Pos()))
				}
			default:
				if sel.Sel.Name == "FormValue" || sel.Sel.Name == "PostFormValue" || sel.Sel.Name == "ParseForm" {
					t.Errorf("%s: a handler reads the request itself", s.files.Position(call.Pos()))
				}
			}
			return true
		})
	}
}
