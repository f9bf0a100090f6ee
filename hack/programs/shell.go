package main

import (
	"fmt"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// function is a function of the shell, or a script: what of its arguments it calls.
type function struct {
	file  string
	calls []call
}

// call says that the command begins at an argument, from 0. Options in front of it are passed by, where it has a loop for
// them; alone is a name without arguments that are known.
type call struct {
	at      int
	options bool
	alone   bool
}

// shellFile is a script as it was read.
type shellFile struct {
	name   string
	text   string
	line   int // of its first line in the file, less one
	tree   *syntax.File
	values map[string][][]word // of its variables: each is a list of words
	loads  []string            // base names of the scripts that it reads
}

// readShell parses a script. Variables and what it reads are those of its whole text.
func readShell(name, text string, line int) (*shellFile, error) {
	lang := syntax.LangBash
	if strings.HasSuffix(name, ".bats") {
		lang = syntax.LangBats
	}
	tree, err := syntax.NewParser(syntax.Variant(lang)).Parse(strings.NewReader(text), name)
	if err != nil {
		return nil, fmt.Errorf("parse shell: %w", err)
	}
	f := &shellFile{name: name, text: text, line: line, tree: tree, values: map[string][][]word{}}
	c := collector{file: f}
	c.collectValues(tree)
	return f, nil
}

func newWords(args []*syntax.Word) []word {
	words := make([]word, len(args))
	for i, arg := range args {
		words[i] = newWord(arg)
	}
	return words
}

func newWord(w *syntax.Word) word {
	parts := w.Parts
	if len(parts) == 1 {
		if quoted, ok := parts[0].(*syntax.DblQuoted); ok {
			parts = quoted.Parts
		}
	}
	if len(parts) == 1 {
		if p, ok := parts[0].(*syntax.ParamExp); ok && !p.Length && !p.Excl && p.Slice == nil && p.Repl == nil && p.Exp == nil && p.Param != nil {
			return word{param: p.Param.Value}
		}
	}
	var text strings.Builder
	addParts(&text, w.Parts, false)
	return word{text: text.String()}
}

func addParts(text *strings.Builder, parts []syntax.WordPart, quoted bool) {
	for _, part := range parts {
		switch part := part.(type) {
		case *syntax.Lit:
			text.WriteString(unescapeText(part.Value, quoted))
		case *syntax.SglQuoted:
			text.WriteString(part.Value)
		case *syntax.DblQuoted:
			addParts(text, part.Parts, true)
		default:
			text.WriteString(unknown)
		}
	}
}

func unescapeText(text string, quoted bool) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) && (!quoted || strings.IndexByte("$`\"\\\n", text[i+1]) >= 0) {
			i++
			if text[i] == '\n' {
				continue
			}
		}
		out.WriteByte(text[i])
	}
	return out.String()
}

// scope is where a command stands: the function or script whose arguments "$@" are, and how many were shifted away.
type scope struct {
	file    *shellFile
	unit    string // the function or test
	target  string // of the Makefile
	calls   *[]call
	shifted int
	loops   int
	options bool
	depth   int
}

// walkShell visits the commands below a node. Functions are visited by themselves.
func (r *reader) walkShell(node syntax.Node, s *scope) {
	var open []bool // of the nodes on the way: whether it is run perhaps, or more than once
	syntax.Walk(node, func(n syntax.Node) bool {
		if n == nil {
			if last := open[len(open)-1]; last {
				s.loops--
			}
			open = open[:len(open)-1]
			return true
		}
		if f, ok := n.(*syntax.FuncDecl); ok {
			r.walkFunction(f, s)
			return false
		}
		if t, ok := n.(*syntax.TestDecl); ok {
			r.walkShell(t.Body, &scope{file: s.file, unit: unitOf(t), depth: s.depth})
			return false
		}
		perhaps := isPerhaps(n)
		if perhaps {
			s.loops++
		}
		open = append(open, perhaps)
		if c, ok := n.(*syntax.CallExpr); ok && len(c.Args) > 0 {
			r.shellCall(newWords(c.Args), s, s.file.line+int(c.Pos().Line()))
		}
		return true
	})
}

func isPerhaps(n syntax.Node) bool {
	switch n.(type) {
	case *syntax.WhileClause, *syntax.ForClause, *syntax.IfClause, *syntax.CaseClause:
		return true
	default:
		return false
	}
}

func (r *reader) walkFunction(f *syntax.FuncDecl, outer *scope) {
	fn := r.functionIn(outer.file.name, f.Name.Value)
	r.walkShell(f.Body, &scope{file: outer.file, unit: unitOf(f), calls: &fn.calls, depth: outer.depth})
}

func (r *reader) shellCall(words []word, s *scope, line int) {
	if words[0].text == "shift" {
		if s.loops > 0 {
			s.options = true
		} else {
			s.shifted += shiftOf(words)
		}
		return
	}
	at := place{file: s.file.name, line: line, target: s.target}
	r.resolveCommand(words, at, s, false)
}
