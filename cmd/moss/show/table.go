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
}

// Row is one line of a table, by field. It may hold fields that no column shows, for templates.
type Row map[string]string

// Table writes rows in one of the forms that --format knows: an empty format is the table of columns, "table TEMPLATE" a
// table of a template's making, json one object a line, anything else a template for each row. titles name the fields
// that are no columns, for the heading of "table TEMPLATE".
func Table(w io.Writer, format string, columns []Column, titles map[string]string, rows []Row) error {
	heading := Row{}
	maps.Copy(heading, titles)
	for _, column := range columns {
		heading[column.Field] = column.Title
	}
	template, tabular := strings.CutPrefix(format, "table")
	switch {
	case format == "" || (tabular && strings.TrimSpace(template) == ""):
		return aligned(w, func(out io.Writer) error {
			for _, row := range append([]Row{heading}, rows...) {
				if err := writeColumns(out, columns, row); err != nil {
					return err
				}
			}
			return nil
		})
	case tabular:
		return aligned(w, func(out io.Writer) error {
			return writeTemplate(out, strings.TrimSpace(template), append([]Row{heading}, rows...))
		})
	default:
		return writeTemplate(w, format, rows)
	}
}

func aligned(w io.Writer, fill func(io.Writer) error) error {
	table := tabwriter.NewWriter(w, 10, 1, 3, ' ', 0)
	if err := fill(table); err != nil {
		return err
	}
	return table.Flush()
}

func writeColumns(out io.Writer, columns []Column, row Row) error {
	cells := make([]string, 0, len(columns))
	for _, column := range columns {
		cells = append(cells, strings.ReplaceAll(Plain(row[column.Field]), "\t", " "))
	}
	_, err := io.WriteString(out, strings.Join(cells, "\t")+"\n")
	return err
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
