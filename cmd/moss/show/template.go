package show

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/template"
	"unicode"
)

// Template is a parsed --format value.
type Template struct {
	tmpl *template.Template
	json bool
}

// ParseTemplate reads a Go template, or the word json for one JSON value a line.
func ParseTemplate(text string) (*Template, error) {
	if text == "json" {
		return &Template{json: true}, nil
	}
	tmpl, err := template.New("format").Option("missingkey=error").Funcs(templateFuncs()).Parse(unescapeTemplate(text))
	if err != nil {
		return nil, fmt.Errorf("format %q: %s", text, templateCause(err))
	}
	return &Template{tmpl: tmpl}, nil
}

// Write writes one value and a newline.
func (t *Template) Write(w io.Writer, value any) error {
	text, err := t.render(value)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, text+"\n")
	return err
}

func (t *Template) render(value any) (string, error) {
	if t.json {
		return compactJSON(value)
	}
	var out bytes.Buffer
	if err := t.tmpl.Execute(&out, value); err != nil {
		return "", fmt.Errorf("format: %s", templateCause(err))
	}
	return out.String(), nil
}

func templateFuncs() template.FuncMap {
	return template.FuncMap{
		"json":  compactJSON,
		"join":  joinList,
		"split": strings.Split,
		"lower": strings.ToLower,
		"upper": strings.ToUpper,
		"title": titleCase,
		"pad": func(text string, before, after int) string {
			return strings.Repeat(" ", max(0, before)) + text + strings.Repeat(" ", max(0, after))
		},
		"truncate": func(text string, length int) string {
			runes := []rune(text)
			return string(runes[:min(max(0, length), len(runes))])
		},
		"println": fmt.Sprintln,
	}
}

// titleCase writes the first letter of each word as a capital.
func titleCase(text string) string {
	before := ' '
	return strings.Map(func(r rune) rune {
		first := unicode.IsSpace(before)
		before = r
		if first {
			return unicode.ToTitle(r)
		}
		return r
	}, text)
}

// joinList takes lists of any kind: those of decoded JSON are []any.
func joinList(list any, separator string) (string, error) {
	switch list := list.(type) {
	case []string:
		return strings.Join(list, separator), nil
	case []any:
		parts := make([]string, 0, len(list))
		for _, item := range list {
			parts = append(parts, fmt.Sprint(item))
		}
		return strings.Join(parts, separator), nil
	case nil:
		return "", nil
	default:
		return "", fmt.Errorf("join: %T is no list", list)
	}
}

func compactJSON(value any) (string, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "", err
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// unescapeTemplate lets a shell's single-quoted \t and \n mean what they say.
func unescapeTemplate(text string) string {
	return strings.NewReplacer(`\t`, "\t", `\n`, "\n").Replace(text)
}

// templateCause drops the words that text/template puts in front of its errors.
func templateCause(err error) string {
	text := err.Error()
	if _, after, found := strings.Cut(text, "template: format:"); found {
		return after
	}
	return text
}
