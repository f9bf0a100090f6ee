package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// place is where a program is called.
type place struct {
	file   string
	line   int
	target string // of the Makefile
}

func (p place) String() string { return fmt.Sprintf("%s:%d", p.file, p.line) }

// reader finds programs in the sources of a tree.
type reader struct {
	top       string
	shells    map[string]*shellFile
	seen      map[string]map[string]bool // by file: the files whose functions it may call
	functions map[string][]*function     // by name
	scripts   map[string]*function       // by file
	goFuncs   map[string]*goFunc         // by folder and name
	programs  map[string]map[place]bool
	made      map[string]bool // the tree's own programs
	local     map[string]bool // the tree's own modules in Python
}

// readFiles finds the programs that the files, named from the top of the tree, call.
func readFiles(top string, files []string) (*reader, error) {
	r := &reader{
		top: top, shells: map[string]*shellFile{}, functions: map[string][]*function{}, scripts: map[string]*function{},
		goFuncs: map[string]*goFunc{}, made: map[string]bool{}, local: pythonModules(files),
	}
	goFiles := map[string][]string{}
	var others []*textFile
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join(top, name))
		if err != nil {
			return nil, err
		}
		switch {
		case strings.HasSuffix(name, ".go"):
			goFiles[path.Dir(name)] = append(goFiles[path.Dir(name)], name)
		case isShell(name, text):
			if r.shells[name], err = readShell(name, string(text), 0); err != nil {
				return nil, err
			}
		case name == "Makefile" || hasWord(".py .js", path.Ext(name)):
			others = append(others, &textFile{name, string(text)})
		}
	}
	packages, err := r.parseGo(goFiles)
	if err != nil {
		return nil, err
	}
	r.linkFiles()
	for range 4 { // what a function calls may be known only once the one that it calls by is
		r.programs = map[string]map[place]bool{}
		for _, f := range sortedByName(r.shells) {
			if r.scripts[f.name] == nil {
				r.scripts[f.name] = &function{file: f.name}
			}
			r.walkShell(f.tree, &scope{file: f, calls: &r.scripts[f.name].calls})
			r.readEmbedded(f)
		}
		r.readGo(packages)
		for _, f := range others {
			if f.name == "Makefile" {
				err = r.readMakefile(f)
			} else {
				r.readScript(f)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

func sortedByName[T any](m map[string]T) []T {
	all := make([]T, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		all = append(all, m[k])
	}
	return all
}

var shebang = regexp.MustCompile(`^#!.*\b(sh|bash|dash|bats)\b`) //nolint:gochecknoglobals // a constant

func isShell(name string, text []byte) bool {
	first, _, _ := bytes.Cut(text, []byte("\n"))
	return hasWord(".sh .bash .bats", path.Ext(name)) || path.Ext(name) == "" && shebang.Match(first)
}

// linkFiles says which files may call whose functions: a file those of what it reads, and a library also those of whatever
// reads it.
func (r *reader) linkFiles() {
	closure := map[string]map[string]bool{}
	for name := range r.shells {
		closure[name] = map[string]bool{}
		r.followLoads(name, closure[name])
	}
	r.seen = map[string]map[string]bool{}
	for name := range r.shells {
		r.seen[name] = map[string]bool{}
		for _, all := range closure {
			if all[name] {
				maps.Copy(r.seen[name], all)
			}
		}
	}
}

func (r *reader) followLoads(name string, into map[string]bool) {
	if into[name] {
		return
	}
	into[name] = true
	for _, base := range r.shells[name].loads {
		for other := range r.shells {
			if strings.TrimSuffix(path.Base(other), ".bash") == base {
				r.followLoads(other, into)
			}
		}
	}
}

// functionIn returns the function of that name in a file.
func (r *reader) functionIn(file, name string) *function {
	for _, fn := range r.functions[name] {
		if fn.file == file {
			return fn
		}
	}
	fn := &function{file: file}
	r.functions[name] = append(r.functions[name], fn)
	return fn
}

// visibleFunctions returns the functions of that name that a file may call.
func (r *reader) visibleFunctions(name, file string) (all []*function) {
	for _, fn := range r.functions[name] {
		if fn.file == file || r.seen[file][fn.file] {
			all = append(all, fn)
		}
	}
	return all
}

func (r *reader) isFunction(name, file string) bool { return len(r.visibleFunctions(name, file)) > 0 }

var programName = regexp.MustCompile(`^(/[\w./+-]*/|python3:)?[A-Za-z0-9_\[][\w.+-]*$`) //nolint:gochecknoglobals // a constant

// countProgram counts a program. A path keeps its folder: it must be just there.
func (r *reader) countProgram(name string, at place) {
	if !programName.MatchString(name) || strings.HasPrefix(name, "/proc/") {
		return
	}
	if r.programs[name] == nil {
		r.programs[name] = map[place]bool{}
	}
	r.programs[name][at] = true
}
