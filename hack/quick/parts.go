package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// groupSize is how many dependants one go test gets: enough to keep both processors busy, few enough to end soon after the
// budget.
const groupSize = 4

// part is one command of the run, or a check of this program's own.
type part struct {
	name   string
	argv   []string
	env    []string                // beyond that of this process
	check  func(w io.Writer) error // instead of argv
	silent bool                    // what it prints is what is wrong
	built  bool                    // it waits for the build, which compiles what it needs
	bound  []string                // packages: it does not begin when the budget is used up
}

// plan is two lanes, which run side by side. The parts of a lane run one after another; in the first lane each needs the
// one before.
type plan struct {
	engine  []part
	code    []part
	leftOut []string
}

// planParts turns a selection into commands: in one lane the build and the tests of the engine, in the other all that only
// needs the source, the quickest first.
func planParts(sel selection, m *module, table batsMap) plan {
	var p plan
	if sel.build {
		p.engine = append(p.engine, part{name: "build", argv: []string{"make", "--no-print-directory", "build"}})
	}
	if len(sel.bats) > 0 {
		argv := append(make([]string, 0, 1+len(sel.bats)), "tests/run.sh")
		for _, name := range sel.bats {
			argv = append(argv, batsFile(name))
		}
		p.engine = append(p.engine, part{name: "bats", argv: argv, env: []string{"KEEP_TAP="}})
	}
	plain := plainEnv(os.Getenv("GOFLAGS"))
	p.addTool(sel.goFiles, part{name: "gofumpt", argv: []string{"gofumpt", "-l"}, silent: true})
	p.addTool(sel.scripts, part{name: "shellcheck", argv: []string{"shellcheck", "-x", "-P", "."}})
	p.addTool(sel.scripts, part{name: "shfmt", argv: []string{"shfmt", "-d", "-i", "2", "-ci"}})
	p.code = append(p.code, part{name: "map", check: func(w io.Writer) error { return reportMap(w, m, table) }})
	if sel.layers {
		p.code = append(p.code, part{name: "layers", argv: []string{"go", "run", "./hack/layers"}, env: plain})
	}
	if len(sel.own) > 0 {
		p.code = append(p.code, unitPart("unit, with -race", []string{"-race"}, []string{"CGO_ENABLED=1"}, sel.own))
	}
	for _, dir := range sel.nested {
		p.code = append(p.code, part{name: "unit of " + dir, argv: []string{"go", "test", "-C", dir, "./..."}, env: plain})
	}
	if sel.compat {
		p.code = append(p.code, part{name: "compat", argv: []string{"go", "run", "./hack/compat"}, env: plain, built: sel.build})
	}
	if len(sel.affected) > 0 {
		// One analysis that needs nothing of the packages below: what is left is the check of the types.
		argv := slices.Concat([]string{"go", "vet", "-buildtag"}, packagePatterns(sel.affected))
		p.code = append(p.code, part{name: "types of dependants", argv: argv, env: plain, built: sel.build})
	}
	lint := part{name: "lint", argv: []string{"golangci-lint", "run", "--allow-parallel-runners"}, env: plain, built: sel.build}
	p.addTool(packagePatterns(sel.changed), lint)
	for group := range slices.Chunk(sel.dependants, groupSize) {
		unit := unitPart("unit of dependants", []string{"-vet=off"}, plain, group)
		unit.bound, unit.built = group, sel.build
		p.code = append(p.code, unit)
	}
	return p
}

// addTool adds a part with these arguments, if there are any and the program is installed.
func (p *plan) addTool(args []string, tool part) {
	if len(args) == 0 {
		return
	}
	if _, err := exec.LookPath(tool.argv[0]); err != nil {
		p.leftOut = append(p.leftOut, tool.name+": not installed: hack/install-deps.sh --for lint")
		return
	}
	tool.argv = slices.Concat(tool.argv, args)
	p.code = append(p.code, tool)
}

// unitPart is go test for these packages, as make unit has it.
func unitPart(name string, flags, env, packages []string) part {
	dir, err := os.Getwd()
	if err != nil {
		dir = "." // go test then says what is missing
	}
	argv := slices.Concat([]string{"go", "test"}, flags, []string{"-timeout", "10m", "-exec", dir + "/hack/test-exec.sh"}, packagePatterns(packages))
	return part{name: name, argv: argv, env: env}
}

// plainEnv makes go compile as make build does, so that each package is compiled once.
func plainEnv(goflags string) []string {
	return []string{"CGO_ENABLED=0", "GOFLAGS=" + strings.TrimSpace(goflags+" -trimpath")}
}

func packagePatterns(folders []string) []string {
	args := make([]string, 0, len(folders))
	for _, folder := range folders {
		args = append(args, "./"+folder)
	}
	return args
}

// reportMap writes what does not hold in tests/map.txt.
func reportMap(w io.Writer, m *module, table batsMap) error {
	findings, err := table.check(m, ".")
	if err != nil || len(findings) == 0 {
		return err
	}
	_, err = fmt.Fprintf(w, "%s:\n%s\n", mapFile, strings.Join(findings, "\n"))
	return errors.Join(err, errFailed)
}
