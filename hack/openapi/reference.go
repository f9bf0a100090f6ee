package main

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"moss/api/apiver"
	"moss/api/route"
)

// page is the reference under way.
type page struct {
	bytes.Buffer
	words *words
	forms map[reflect.Type]form
	types map[string]reflect.Type // structs that have been mentioned
}

// referencePage returns the page about all versions.
func referencePage(routes []route.Route, w *words) ([]byte, error) {
	p := &page{words: w, forms: encodedForms(), types: map[string]reflect.Type{}}
	p.line("# The API, endpoint by endpoint\n")
	p.line("<!-- Made by hack/openapi from the table of routes and the structs of api/wire. -->\n")
	p.line("%s\n", w.textOf("#page"))
	for _, noun := range nouns {
		p.line("- [%s](#%s): %s", toTitle(noun), noun, w.textOf("#"+noun))
	}
	p.line("- [schemas](#schemas): what is in the bodies\n")
	for _, noun := range nouns {
		p.line("## %s\n", toTitle(noun))
		for i := range routes {
			if nounOf(routes[i].Path) == noun {
				p.writeEndpoint(&routes[i])
			}
		}
	}
	p.line("## Schemas\n")
	err := p.writeSchemas()
	return append(bytes.TrimRight(p.Bytes(), "\n"), '\n'), err
}

func toTitle(noun string) string { return strings.ToUpper(noun[:1]) + noun[1:] }

func (p *page) line(format string, args ...any) {
	p.WriteString(fmt.Sprintf(format, args...) + "\n")
}

func (p *page) writeEndpoint(r *route.Route) {
	path, _ := pathTemplate(r.Path)
	p.line("### %s %s\n", r.Method, path)
	p.line("%s. Versions: %s.\n", strings.ToUpper(r.Shape.About[:1])+r.Shape.About[1:], rangeText(r.Versions))
	if len(r.Shape.Params) > 0 {
		p.line("| parameter | form | versions | |\n|---|---|---|---|")
		for _, q := range r.Shape.Params {
			p.line("| %s | %s | %s | %s |", paramName(q), paramForm(q), rangeText(q.Versions), escapeCell(q.About+filterKeys(q)))
		}
		p.line("")
	}
	if body := p.bodyText(r.Shape.In, r.Shape.InMedia); body != "" {
		if r.Shape.InVersions != (apiver.Range{}) {
			body += ", versions " + rangeText(r.Shape.InVersions)
		}
		p.line("Body: %s.\n", body)
	}
	answer := p.bodyText(r.Shape.Out, r.Shape.OutMedia)
	if r.Shape.Stream {
		answer = "a stream of " + answer + ", one per line"
	}
	if answer != "" {
		p.line("Answer: %s.\n", answer)
	}
	statuses := make([]string, 0, len(r.Shape.Codes))
	for _, status := range slices.Sorted(slices.Values(r.Shape.Codes)) {
		statuses = append(statuses, strconv.Itoa(status)+" "+statusMeaning(status))
	}
	p.line("Statuses: %s.\n", strings.Join(statuses, "; "))
}

func paramName(q route.Param) string {
	name := "`" + q.Name + "`"
	if q.Header {
		name = "header " + name
	}
	return name
}

func paramForm(q route.Param) string {
	form := map[route.Kind]string{
		route.Text: "text", route.Bool: "boolean", route.Int: "integer", route.Time: "time", route.Filters: "filters", route.JSON: "JSON",
	}[q.Kind]
	if q.Many {
		form += ", several"
	}
	if q.Needed {
		form += ", needed"
	}
	return form
}

// filterKeys lists the keys of filters with their versions.
func filterKeys(q route.Param) string {
	names := make([]string, 0, len(q.Values))
	for _, key := range q.Values {
		name := "`" + key.Name + "`"
		if key.Versions != (apiver.Range{}) {
			name += " (" + rangeText(key.Versions) + ")"
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return ""
	}
	return ": " + strings.Join(names, ", ")
}

func rangeText(r apiver.Range) string {
	switch {
	case r == apiver.Range{}:
		return "all"
	case r.Until == 0 && r.Since == apiver.Max:
		return r.Since.String()
	case r.Until == 0:
		return r.Since.String() + " and later"
	case r.Since == 0:
		return "up to " + r.Until.String()
	default:
		return r.Since.String() + " to " + r.Until.String()
	}
}

func (p *page) bodyText(t reflect.Type, mediaType string) string {
	switch {
	case t != nil:
		return p.typeText(t)
	case mediaType != "":
		return "`" + mediaType + "`"
	default:
		return ""
	}
}

// typeText names a type for people, and remembers the structs that it mentions.
func (p *page) typeText(t reflect.Type) string {
	if f, own := p.forms[t]; own {
		return f.text
	}
	switch t.Kind() {
	case reflect.Bool:
		return "boolean"
	case reflect.String:
		return "string"
	case reflect.Interface:
		return "JSON"
	case reflect.Float32, reflect.Float64:
		return "number"
	case reflect.Pointer:
		return p.typeText(t.Elem()) + " or null"
	case reflect.Slice:
		return "array of " + strings.TrimSuffix(p.typeText(t.Elem()), " or null")
	case reflect.Array:
		return fmt.Sprintf("array of %d: %s", t.Len(), p.typeText(t.Elem()))
	case reflect.Map:
		return "map of " + strings.TrimSuffix(p.typeText(t.Elem()), " or null")
	case reflect.Struct:
		if t.NumField() == 0 {
			return "empty object"
		}
		if t.Name() == "" {
			return p.inlineText(t)
		}
		p.types[t.Name()] = t
		return fmt.Sprintf("[%s](#%s)", t.Name(), strings.ToLower(t.Name()))
	default:
		return "integer"
	}
}

// inlineText writes a struct without a name.
func (p *page) inlineText(t reflect.Type) string {
	names := make([]string, 0, t.NumField())
	for sf := range t.Fields() {
		names = append(names, sf.Name)
	}
	return "object with " + strings.Join(names, ", ")
}

// writeSchemas writes a table for every struct that was mentioned, here too, in the order of their names.
func (p *page) writeSchemas() error {
	tables := map[string]string{}
	for len(tables) < len(p.types) {
		for name, t := range p.types {
			if _, done := tables[name]; done {
				continue
			}
			table, err := p.schemaTable(name, t)
			if err != nil {
				return err
			}
			tables[name] = table
		}
	}
	for _, name := range slices.Sorted(keysOf(tables)) {
		p.WriteString(tables[name])
	}
	return nil
}

func (p *page) schemaTable(name string, t reflect.Type) (string, error) {
	fields, err := fieldsOf(t)
	if err != nil {
		return "", err
	}
	about := p.words.textOf(name)
	if about == "" {
		return "", fmt.Errorf("words.txt says nothing of %s (%s)", name, t)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n%s\n\n| field | type | versions | |\n|---|---|---|---|\n", name, about)
	for _, f := range fields {
		if !isServed(f.versions) {
			continue
		}
		text := p.words.textOf(name + "." + f.name)
		if enum := p.words.enumOf(name + "." + f.name); len(enum) > 0 {
			text += ": `" + strings.Join(slices.DeleteFunc(enum, func(s string) bool { return s == "" }), "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.name, p.typeText(f.of), rangeText(f.versions), escapeCell(text))
	}
	return b.String() + "\n", nil
}

// escapeCell writes a text so that it stays in its cell.
func escapeCell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
