package show

import (
	"io"
	"maps"
	"strings"
	"text/tabwriter"
)

// Column is one column of a table.
type Column struct {
	Field string // key of the rows, and name in templates
	Title string
	Keep  bool // a name or an id, which people copy: it is shortened last
	Least int  // how far it is shortened; 0: as far as all
}

// Row is one line of a table, by field. It may hold fields that no column shows, for templates.
type Row map[string]string

// What a row holds beside its fields has a key that starts with hidden: no template can name it.
const (
	hidden    = "\x00"
	isHeading = hidden + "heading"
	isColour  = hidden + "colour "
)

// SetLabels gives a row the labels that {{.Label "key"}} looks up.
func (r Row) SetLabels(labels map[string]string) {
	for key, value := range labels {
		r[hidden+"label "+key] = value
	}
}

// SetColour gives the cell of a field a colour.
func (r Row) SetColour(field string, colour Colour) { r[isColour+field] = string(colour) }

// Label returns one label, for templates. In the heading it is the last part of the key.
func (r Row) Label(key string) string {
	if _, ok := r[isHeading]; ok {
		return strings.NewReplacer("-", " ", "_", " ").Replace(key[strings.LastIndexByte(key, '.')+1:])
	}
	return r[hidden+"label "+key]
}

// MarshalJSON writes the fields.
func (r Row) MarshalJSON() ([]byte, error) {
	fields := make(map[string]string, len(r))
	for key, value := range r {
		if !strings.HasPrefix(key, hidden) {
			fields[key] = value
		}
	}
	text, err := compactJSON(fields)
	return []byte(text), err
}

// Table writes rows in one of the forms that --format knows: an empty format is the table of columns, "table TEMPLATE" a
// table of a template's making, json one object a line, anything else a template for each row. titles name the fields
// that are no columns, for the heading of "table TEMPLATE".
func (v View) Table(w io.Writer, format string, columns []Column, titles map[string]string, rows []Row) error {
	heading := Row{isHeading: ""}
	maps.Copy(heading, titles)
	for _, column := range columns {
		heading[column.Field] = column.Title
	}
	template, tabular := strings.CutPrefix(format, "table")
	switch {
	case format == "" || (tabular && strings.TrimSpace(template) == ""):
		return v.writeTable(w, columns, append([]Row{heading}, rows...))
	case tabular:
		return writeAligned(w, func(out io.Writer) error {
			return writeTemplate(out, strings.TrimSpace(template), append([]Row{heading}, rows...))
		})
	default:
		return writeTemplate(w, format, rows)
	}
}

func writeAligned(w io.Writer, fill func(io.Writer) error) error {
	table := tabwriter.NewWriter(w, leastColumn, 1, wideGap, ' ', 0)
	if err := fill(table); err != nil {
		return err
	}
	return table.Flush()
}

func writeTemplate(out io.Writer, format string, rows []Row) error {
	template, err := ParseTemplate(format)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if err := template.Write(out, row); err != nil {
			return err
		}
	}
	return nil
}
