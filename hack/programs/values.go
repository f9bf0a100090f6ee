package main

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// collector keeps the values of variables by the function or test that they are set in.
type collector struct {
	file    *shellFile
	unit    string
	shifted int
}

func (c *collector) collectValues(top syntax.Node) {
	syntax.Walk(top, func(node syntax.Node) bool {
		if unit := unitOf(node); unit != "" && node != top {
			inner := collector{file: c.file, unit: unit}
			inner.collectValues(node)
			return false
		}
		switch node := node.(type) {
		case *syntax.Assign:
			c.keepAssignment(node)
		case *syntax.ForClause:
			if loop, ok := node.Loop.(*syntax.WordIter); ok {
				for _, item := range loop.Items {
					c.keepValue(loop.Name.Value, []word{newWord(item)})
				}
			}
		case *syntax.CallExpr:
			words := newWords(node.Args)
			switch {
			case len(words) > 1 && hasWord(". source load", words[0].text):
				c.file.loads = append(c.file.loads, strings.TrimSuffix(path.Base(words[1].text), ".bash"))
			case len(words) > 0 && words[0].text == "shift":
				c.shifted += shiftOf(words)
			}
		}
		return true
	})
}

// unitOf names a function or test, by its place. Others are none.
func unitOf(node syntax.Node) string {
	switch node.(type) {
	case *syntax.FuncDecl, *syntax.TestDecl:
		return fmt.Sprintf("%v ", node.Pos())
	default:
		return ""
	}
}

func shiftOf(words []word) int {
	if len(words) == 1 {
		return 1
	}
	n, _ := strconv.Atoi(words[1].text)
	return n
}

func (c *collector) keepValue(name string, value []word) {
	c.file.values[c.unit+name] = append(c.file.values[c.unit+name], value)
}

func (c *collector) keepAssignment(node *syntax.Assign) {
	if node.Append || node.Naked || node.Name == nil {
		return
	}
	var value []word
	switch {
	case node.Array != nil:
		for _, elem := range node.Array.Elems {
			if elem.Value != nil {
				value = append(value, newWord(elem.Value))
			}
		}
	case node.Value != nil:
		w := newWord(node.Value)
		if n, err := strconv.Atoi(w.param); err == nil && n > 0 {
			w.param = "=" + strconv.Itoa(n+c.shifted-1) // the argument as it was then
		}
		if !w.isLiteral() || !strings.Contains(w.text, " ") || strings.Contains(w.text, "\n") {
			value = []word{w}
			break
		}
		value = literalWords(strings.Fields(w.text)...)
		c.keepValue("'"+node.Name.Value, []word{w}) // as it is
	}
	c.keepValue(node.Name.Value, value)
}

// valuesOf returns what a variable may be: what the function or test gives it, or else the file.
func (s *scope) valuesOf(name string) [][]word {
	if values := s.file.values[s.unit+name]; values != nil {
		return values
	}
	return s.file.values[name]
}
