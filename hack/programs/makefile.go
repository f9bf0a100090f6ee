package main

import (
	"fmt"
	"regexp"
	"strings"
)

// textFile is a source that is read line by line.
type textFile struct{ name, text string }

var (
	makeTarget   = regexp.MustCompile(`^([a-zA-Z][\w.-]*):([^=]|$)`)          //nolint:gochecknoglobals // a constant
	makeVariable = regexp.MustCompile(`^(?:export )?(\w+)\s*[:?+]?=\s*(.*)$`) //nolint:gochecknoglobals // a constant
)

// readMakefile finds the programs of recipes and of $(shell ...).
func (r *reader) readMakefile(f *textFile) error {
	values := map[string]string{"MAKE": "make"}
	target := ""
	lines := strings.Split(f.text, "\n")
	for i := 0; i < len(lines); i++ {
		at, text := i+1, lines[i]
		for strings.HasSuffix(text, "\\") && i+1 < len(lines) {
			i++
			text += "\n" + lines[i]
		}
		recipe, isRecipe := strings.CutPrefix(text, "\t")
		if m := makeVariable.FindStringSubmatch(text); m != nil && !isRecipe {
			values[m[1]] = m[2]
		} else if m := makeTarget.FindStringSubmatch(text); m != nil {
			target = m[1]
		}
		where := place{file: f.name, line: at}
		if isRecipe {
			where.target = target
		}
		plain, scripts := expandVariables(strings.TrimLeft(recipe, "@-+"), values)
		if !isRecipe {
			_, scripts = expandVariables(text, values)
			plain = ""
		}
		for _, script := range append(scripts, plain) {
			if err := r.readRecipe(script, where); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *reader) readRecipe(text string, at place) error {
	f, err := readShell(at.file, text, at.line-1)
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	s := &scope{file: f}
	s.target = at.target
	r.walkShell(f.tree, s)
	return nil
}

// expandVariables puts the values of make's variables in. A function of make becomes a variable of the shell, of which
// nothing is known; the text of $(shell ...) is also returned by itself.
func expandVariables(text string, values map[string]string) (out string, scripts []string) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '$' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}
		i++
		if text[i] != '(' {
			b.WriteString(map[bool]string{true: "$", false: "${make}"}[text[i] == '$'])
			continue
		}
		end := closingParen(text, i)
		inner := text[i+1 : end]
		i = end
		_, below := expandVariables(inner, values)
		scripts = append(scripts, below...)
		if script, ok := strings.CutPrefix(inner, "shell "); ok {
			script, _ = expandVariables(script, values)
			scripts = append(scripts, script)
		}
		if value, ok := values[inner]; ok && !strings.Contains(value, "$") {
			b.WriteString(value)
		} else {
			b.WriteString("${make}")
		}
	}
	return b.String(), scripts
}

// closingParen returns where the parenthesis at from is closed.
func closingParen(text string, from int) int {
	depth := 0
	for i := from; i < len(text); i++ {
		switch text[i] {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return len(text) - 1
}
