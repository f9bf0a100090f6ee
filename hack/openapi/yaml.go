package main

import (
	"bytes"
	"regexp"
	"strconv"
)

// object is a YAML map in the order in which it is to be written, list a sequence.
type (
	object []pair
	pair   struct {
		key   string
		value any // object, list, string, bool or int
	}
	list []any
)

// add appends a value to the object.
func (o *object) add(key string, value any) { *o = append(*o, pair{key, value}) }

// appendYAML writes a value as a block of YAML 1.2, indented by so many spaces, with a newline at its end.
func appendYAML(b *bytes.Buffer, value any, indent int) {
	switch v := value.(type) {
	case object:
		for i, p := range v {
			if i > 0 || indent >= 0 {
				b.WriteString(spaces(indent))
			}
			b.WriteString(scalarText(p.key) + ":")
			appendNested(b, p.value, indent)
		}
	case list:
		for _, item := range v {
			b.WriteString(spaces(indent) + "-")
			if o, ok := item.(object); ok && len(o) > 0 { // its first key stands beside the dash
				var inner bytes.Buffer
				appendYAML(&inner, o, indent+2)
				b.WriteString(" ")
				b.Write(inner.Bytes()[indent+2:])
				continue
			}
			appendNested(b, item, indent)
		}
	default:
		b.WriteString(scalarText(value) + "\n")
	}
}

// appendNested writes what stands behind a key or a dash.
func appendNested(b *bytes.Buffer, value any, indent int) {
	switch v := value.(type) {
	case object:
		if len(v) == 0 {
			b.WriteString(" {}\n")
			return
		}
		b.WriteString("\n")
		appendYAML(b, v, indent+2)
	case list:
		if len(v) == 0 {
			b.WriteString(" []\n")
			return
		}
		b.WriteString("\n")
		appendYAML(b, v, indent+2)
	default:
		b.WriteString(" " + scalarText(value) + "\n")
	}
}

func spaces(n int) string { return string(bytes.Repeat([]byte(" "), n)) }

// plain are texts that every reader of YAML takes for themselves without quotes; words that some take for something else
// are not among them.
var plain = regexp.MustCompile(`^[A-Za-z/$_][A-Za-z0-9/$_.{}()-]*( [A-Za-z0-9/_.(),;=+-]+)*$`)

var special = regexp.MustCompile(`^(?i:true|false|yes|no|on|off|null|y|n|nan|inf)$`)

func scalarText(value any) string {
	switch v := value.(type) {
	case bool:
		return strconv.FormatBool(v)
	case int:
		return strconv.Itoa(v)
	case string:
		if plain.MatchString(v) && !special.MatchString(v) {
			return v
		}
		return strconv.Quote(v) // a double-quoted scalar has the escapes of Go that texts here can need
	default:
		return `""`
	}
}
