// Command layers checks that the packages of this module import each other only as hack/layers.txt allows.
//
//	go run ./hack/layers [-rules hack/layers.txt] [PATTERN...]
//
// It prints one line per import that no rule allows and per package that no rule covers, and exits with 1 if there is any.
// Test files count. The default pattern is ./... ; with it, rules that no package has and allowances that no import needs are
// findings as well.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "layers:", err)
		os.Exit(1)
	}
}

// run reads the rules, lists the packages and writes what breaks the rules to w. The error tells how many.
func run(ctx context.Context, args []string, w io.Writer) error {
	flags := flag.NewFlagSet("layers", flag.ContinueOnError)
	rulesFile := flags.String("rules", filepath.Join("hack", "layers.txt"), "file with the rules")
	if err := flags.Parse(args); err != nil {
		return err
	}
	text, err := os.ReadFile(*rulesFile)
	if err != nil {
		return err
	}
	rules, err := parseRules(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", *rulesFile, err)
	}
	patterns := flags.Args()
	all := len(patterns) == 0
	if all {
		patterns = []string{"./..."}
	}
	pkgs, err := listPackages(ctx, patterns)
	if err != nil {
		return err
	}
	findings := checkPackages(rules, pkgs)
	if all {
		unused := rules.unusedRules()
		slices.Sort(unused)
		findings = append(findings, unused...)
	}
	for _, f := range findings {
		if _, err := fmt.Fprintln(w, f); err != nil {
			return err
		}
	}
	if len(findings) > 0 {
		return fmt.Errorf("%d finding(s); the rules are in %s", len(findings), *rulesFile)
	}
	_, err = fmt.Fprintf(w, "layers: %d packages, every import allowed\n", len(pkgs))
	return err
}

// pkg is what `go list -json` says of one package, as far as it matters here.
type pkg struct {
	ImportPath   string
	Module       *struct{ Path string }
	Imports      []string
	TestImports  []string // of _test.go files in the package
	XTestImports []string // of _test.go files in the package NAME_test
	Error        *struct{ Err string }
}

// listPackages asks the go command for the packages that the patterns name.
func listPackages(ctx context.Context, patterns []string) ([]pkg, error) {
	fields := "-json=ImportPath,Module,Imports,TestImports,XTestImports,Error"
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-e", fields}, patterns...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, stderr.String())
	}
	var pkgs []pkg
	dec := json.NewDecoder(bytes.NewReader(out))
	for {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs, nil
		} else if err != nil {
			return nil, fmt.Errorf("decode go list: %w", err)
		}
		pkgs = append(pkgs, p)
	}
}

// checkPackages returns one line per broken rule, sorted, each once.
func checkPackages(rules ruleSet, pkgs []pkg) []string {
	var findings []string
	for _, p := range pkgs {
		if p.Error != nil {
			findings = append(findings, p.ImportPath+": "+p.Error.Err)
			continue
		}
		if p.Module == nil {
			continue
		}
		name := localPath(p.Module.Path, p.ImportPath)
		own, covered := rules.ownerOf(name)
		if !covered {
			findings = append(findings, name+": no rule covers this package")
			continue
		}
		rules.owned[own] = true
		for _, imp := range p.Imports {
			findings = append(findings, rules.judgeImport(p.Module.Path, name, imp, false)...)
		}
		for _, imp := range slices.Concat(p.TestImports, p.XTestImports) {
			findings = append(findings, rules.judgeImport(p.Module.Path, name, imp, true)...)
		}
	}
	slices.Sort(findings)
	return slices.Compact(findings)
}

// localPath turns an import path of the module into the path below the module's root; "" for any other path.
func localPath(module, importPath string) string {
	if importPath == module {
		return "."
	}
	rest, found := strings.CutPrefix(importPath, module+"/")
	if !found {
		return ""
	}
	return strings.TrimSuffix(rest, "_test")
}
