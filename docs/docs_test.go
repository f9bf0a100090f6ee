package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// function is a function of a package in a code span: folder.name.
var function = regexp.MustCompile("`((?:api|cmd|engine|imagesvc|rootless|slirp|storage)(?:/[a-z]+)*)\\.([A-Za-z]+)`")

// TestFunctionsExist: the functions that docs/architecture.md leads a reader along are there.
func TestFunctionsExist(t *testing.T) {
	text, err := os.ReadFile("architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	found := function.FindAllSubmatch(text, -1)
	if len(found) < 10 {
		t.Errorf("%d functions found, want the whole way of a start", len(found))
	}
	for _, m := range found {
		folder, name := string(m[1]), string(m[2])
		if name == "go" { // a file
			continue
		}
		files, err := filepath.Glob(filepath.Join("..", folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		declared := regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + name + `\(`)
		files = slices.DeleteFunc(files, func(path string) bool {
			source, err := os.ReadFile(path)
			return err != nil || strings.HasSuffix(path, "_test.go") || !declared.Match(source)
		})
		if len(files) == 0 {
			t.Errorf("no function %s in %s", name, folder)
		}
	}
}
