package lifecycle

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestInnerLocks: a lock called mu is used by the methods of its own type alone. What else such a method could lock is what its
// type knows, which for all of them is nothing; so there is no order of these locks that could be broken.
func TestInnerLocks(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	uses := 0
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			receiver := receiverOf(f)
			ast.Inspect(f, func(n ast.Node) bool {
				use, ok := n.(*ast.SelectorExpr)
				if !ok || use.Sel.Name != "mu" {
					return true
				}
				uses++
				if owner, ok := use.X.(*ast.Ident); !ok || owner.Name != receiver["memory"]+receiver["index"]+receiver["SeccompCache"]+receiver["initProgram"] {
					t.Errorf("%s: %s uses mu, which is for the methods of its owner", set.Position(use.Pos()), f.Name.Name)
				}
				return true
			})
		}
	}
	if uses == 0 {
		t.Error("no lock is used: the test looks at the wrong files")
	}
}

// receiverOf returns the name of a method's receiver by that of its type.
func receiverOf(f *ast.FuncDecl) map[string]string {
	if f.Recv == nil || len(f.Recv.List[0].Names) == 0 {
		return nil
	}
	kind := f.Recv.List[0].Type
	if star, ok := kind.(*ast.StarExpr); ok {
		kind = star.X
	}
	named, ok := kind.(*ast.Ident)
	if !ok {
		return nil
	}
	return map[string]string{named.Name: f.Recv.List[0].Names[0].Name}
}
