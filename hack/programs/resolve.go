package main

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// resolveCommand finds the programs that a command of these words calls. outside says that a program calls it, to which
// the shell's builtins and functions are nothing.
func (r *reader) resolveCommand(words []word, at place, s *scope, outside bool) {
	if len(words) == 0 || s.depth > 12 {
		return
	}
	s.depth++
	defer func() { s.depth-- }()
	first, args := words[0], words[1:]
	base := path.Base(first.text)
	switch {
	case first.param != "":
		r.resolveParam(first.param, args, at, s, outside)
	case strings.Contains(base, unknown):
	case strings.Contains(first.text, "/") && !path.IsAbs(first.text):
		r.callScript(base, args, at, s)
	case outside || !r.resolveOwn(first.text, args, at, s):
		r.resolveProgram(first.text, args, at, s)
	}
}

// resolveOwn is for the shell's own commands and functions. False: it is none of them.
func (r *reader) resolveOwn(name string, args []word, at place, s *scope) bool {
	switch {
	case r.isFunction(name, s.file.name):
		for _, fn := range r.visibleFunctions(name, s.file.name) {
			r.callWith(fn.calls, args, at, s)
		}
	case hasWord("trap eval", name):
		if len(args) > 0 {
			r.runScript(args[0], nil, at, s)
		}
	case name == "command" && len(args) > 0 && hasWord("-v -V", args[0].text), hasWord("type hash", name):
		r.countLookedFor(args, at, s)
	case hasWord("exec builtin run time", name):
		w, _ := wrapperOf(name)
		command, _, _ := w.splitArgs(args)
		r.resolveCommand(command, at, s, false)
	default:
		return hasWord(builtins, name)
	}
	return true
}

func (r *reader) resolveProgram(name string, args []word, at place, s *scope) {
	if name != "command" {
		r.countProgram(name, at)
	}
	if w, ok := wrapperOf(name); ok {
		command, script, params := w.splitArgs(args)
		r.resolveCommand(command, at, s, true)
		if script != nil {
			r.runScript(*script, params, at, s)
		}
	}
}

// countLookedFor counts the programs that a script looks for by name.
func (r *reader) countLookedFor(names []word, at place, s *scope) {
	for _, name := range names {
		switch {
		case name.param != "":
			for _, value := range s.valuesOf(name.param) {
				r.countLookedFor(value, at, s)
			}
		case name.isLiteral() && !strings.HasPrefix(name.text, "-") && !r.isFunction(name.text, s.file.name) && !hasWord(builtins, name.text):
			r.countProgram(name.text, at)
		}
	}
}

func (r *reader) resolveParam(name string, rest []word, at place, s *scope, outside bool) {
	if then, ok := strings.CutPrefix(name, "="); ok {
		at, _ := strconv.Atoi(then)
		r.callArgument(call{at: at, alone: true}, s)
		return
	}
	if n, err := strconv.Atoi(name); err == nil || name == "@" || name == "*" {
		r.callArgument(call{at: s.shifted + max(n, 1) - 1, options: s.options, alone: err == nil}, s)
		return
	}
	values := s.valuesOf(name)
	for i, value := range values {
		if slices.ContainsFunc(values[:i], func(v []word) bool { return slices.Equal(v, value) }) {
			continue
		}
		r.resolveCommand(append(slices.Clone(value), rest...), at, s, outside)
	}
}

// callArgument keeps with the function that it calls one of its arguments.
func (r *reader) callArgument(next call, s *scope) {
	if s.calls != nil && !slices.Contains(*s.calls, next) {
		*s.calls = append(*s.calls, next)
	}
}

// runScript reads a script that stands in a word.
func (r *reader) runScript(script word, params []word, at place, s *scope) {
	texts := []string{script.text}
	if script.param != "" {
		texts = nil
		for _, value := range append(slices.Clone(s.valuesOf("'"+script.param)), s.valuesOf(script.param)...) {
			if len(value) == 1 {
				texts = append(texts, value[0].text)
			}
		}
	}
	for _, text := range texts {
		inner, err := readShell(at.file, strings.ReplaceAll(text, unknown, "${unknown}"), at.line-1)
		if err != nil {
			continue // a text that only a run makes a script
		}
		var calls []call
		r.walkShell(inner.tree, &scope{file: inner, calls: &calls, depth: s.depth})
		if len(params) > 0 {
			r.callWith(calls, params[1:], at, s)
		}
	}
}

// callWith goes on with the arguments that a function or a script calls.
func (r *reader) callWith(calls []call, args []word, at place, s *scope) {
	for _, c := range calls {
		if c.at >= len(args) {
			continue
		}
		rest := args[c.at:]
		for c.options && len(rest) > 1 && strings.HasPrefix(rest[0].text, "-") {
			rest = rest[1:]
		}
		if c.alone {
			rest = rest[:1]
		}
		r.resolveCommand(rest, at, s, false)
	}
}

func (r *reader) callScript(base string, args []word, at place, s *scope) {
	for name, fn := range r.scripts {
		if path.Base(name) == base {
			r.callWith(fn.calls, args, at, s)
		}
	}
}
