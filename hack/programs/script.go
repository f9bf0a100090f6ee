package main

import (
	"path"
	"regexp"
	"strings"
)

//nolint:gochecknoglobals // constants
var (
	pythonImport = regexp.MustCompile(`(?m)^[ \t]*(?:import ([\w., ]+)|from (\w+)[\w.]* import )`)
	pythonDef    = regexp.MustCompile(`(?m)^def (\w+)\(`)
	pythonList   = regexp.MustCompile(`(?m)^\s*(\w+) = \[('[^']+'.*)$`)
	textItem     = regexp.MustCompile(`^\s*\[?\s*f?["']([^"']*)["']\s*(,|\]|\)|$)`)
	which        = regexp.MustCompile(`shutil\.which\(["']([^"']+)["']`)
	spawn        = regexp.MustCompile(`(?m)^[ \t]*spawn (?:-\w+ )*([\w./-]+)(?: |$)`)
	childProcess = regexp.MustCompile(`\b(?:spawn|exec|execFile)(?:Sync)?\((.*)`)
)

// readScript finds the programs of a script in Python or JavaScript.
func (r *reader) readScript(f *textFile) {
	at := func(offset int) place {
		return place{file: f.name, line: 1 + strings.Count(f.text[:offset], "\n")}
	}
	if path.Ext(f.name) == ".js" {
		if strings.Contains(f.text, "child_process") {
			r.readCalls(f.text, childProcess, at)
		}
		return
	}
	r.readImports(f.text, at)
	for _, m := range which.FindAllStringSubmatchIndex(f.text, -1) {
		r.countProgram(f.text[m[2]:m[3]], at(m[0]))
	}
	if !strings.Contains(f.text, "subprocess.") {
		return
	}
	r.readCalls(f.text, regexp.MustCompile(`\b(?:`+strings.Join(findLaunchers(f.text), "|")+`)\((.*)`), at)
	for _, m := range pythonList.FindAllStringSubmatchIndex(f.text, -1) { // a command that gets a name first
		if strings.Contains(f.text, "("+f.text[m[2]:m[3]]+",") {
			r.resolveCommand(listItems(f.text[m[4]:m[5]]), at(m[0]), &scope{file: &shellFile{name: f.name}}, true)
		}
	}
}

// findLaunchers returns the functions of a script in Python that start what they are given, as patterns.
func findLaunchers(text string) []string {
	all := []string{`subprocess\.\w+`}
	defs := pythonDef.FindAllStringSubmatchIndex(text, -1)
	for i, m := range defs {
		end := len(text)
		if i+1 < len(defs) {
			end = defs[i+1][0]
		}
		if strings.Contains(text[m[0]:end], "subprocess.") {
			all = append(all, text[m[2]:m[3]])
		}
	}
	return all
}

func (r *reader) readCalls(text string, pattern *regexp.Regexp, at func(int) place) {
	for _, m := range pattern.FindAllStringSubmatchIndex(text, -1) {
		where := at(m[0])
		r.resolveCommand(listItems(text[m[2]:m[3]]), where, &scope{file: &shellFile{name: where.file}}, true)
	}
}

// listItems returns the texts that a list begins with.
func listItems(list string) (words []word) {
	for {
		m := textItem.FindStringSubmatchIndex(list)
		if m == nil {
			return words
		}
		words = append(words, word{text: list[m[2]:m[3]]})
		if list[m[4]:m[5]] != "," {
			return words
		}
		list = list[m[5]:]
	}
}

// readImports counts modules that are not files of the tree.
func (r *reader) readImports(text string, at func(int) place) {
	for _, m := range pythonImport.FindAllStringSubmatchIndex(text, -1) {
		names := text[max(m[2], m[4]):max(m[3], m[5])]
		for name := range strings.SplitSeq(names, ",") {
			name, _, _ = strings.Cut(strings.TrimSpace(name), " ")
			name, _, _ = strings.Cut(name, ".")
			if name != "" && !r.local[name] {
				r.countProgram("python3:"+name, at(m[0]))
			}
		}
	}
}

// readEmbedded finds what a script of the shell hands to expect and Python.
func (r *reader) readEmbedded(f *shellFile) {
	at := func(offset int) place {
		return place{file: f.name, line: 1 + strings.Count(f.text[:offset], "\n")}
	}
	for _, m := range spawn.FindAllStringSubmatchIndex(f.text, -1) {
		r.resolveCommand(literalWords(f.text[m[2]:m[3]]), at(m[0]), &scope{file: &shellFile{name: f.name}}, true)
	}
	if strings.Contains(f.text, "python3") {
		r.readImports(f.text, at)
	}
}

// pythonModules returns the names of the tree's own modules in Python.
func pythonModules(files []string) map[string]bool {
	all := map[string]bool{}
	for _, name := range files {
		if path.Ext(name) == ".py" {
			all[strings.TrimSuffix(path.Base(name), ".py")] = true
		}
	}
	return all
}
