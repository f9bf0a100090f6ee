package show

import (
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// View says how tables are shown. The zero value is that of files and pipes: whole and without colours.
type View struct {
	Width  int  // of the terminal, which tables are made to fit into; 0: they are as wide as what they hold
	Colour bool // of cells that have one
}

// Colour is a colour of text on a terminal.
type Colour string

// The colours that have a meaning: what failed, what is well, what is in between.
const (
	Red    Colour = "\x1b[31m"
	Green  Colour = "\x1b[32m"
	Yellow Colour = "\x1b[33m"

	noColour = "\x1b[0m"
)

// Paint gives text a colour.
func Paint(colour Colour, text string) string { return string(colour) + text + noColour }

// How tables are laid out, in characters.
const (
	leastColumn, wideGap = 10, 3 // what scripts know
	narrowGap            = 2     // where a terminal is too narrow for that
	leastCell            = 6     // that a column is shortened to
)

// writeTable lays out rows, of which the first is the heading, in columns. Where the terminal is too narrow the gaps shrink
// first, then columns without any content go, and then the widest cells are shortened: those of columns to keep last.
func (v View) writeTable(w io.Writer, columns []Column, rows []Row) error {
	lines := linesOf(columns, rows)
	least, gap := leastColumn, wideGap
	if v.tooNarrow(lines, least, gap) {
		least, gap = 0, narrowGap
	}
	if v.tooNarrow(lines, least, gap) {
		if len(rows) > 1 {
			columns = slices.DeleteFunc(slices.Clone(columns), func(column Column) bool {
				return !slices.ContainsFunc(rows[1:], func(row Row) bool { return row[column.Field] != "" })
			})
			lines = linesOf(columns, rows)
		}
		v.shortenCells(lines, columns)
	}
	widths := widthsOf(lines)
	var out strings.Builder
	for n, cells := range lines {
		for i, cell := range cells {
			painted := cell
			if colour := rows[n][isColour+columns[i].Field]; v.Colour && colour != "" {
				painted = Paint(Colour(colour), cell)
			}
			out.WriteString(painted)
			if i < len(cells)-1 {
				out.WriteString(strings.Repeat(" ", max(least, widths[i]+gap)-utf8.RuneCountInString(cell)))
			}
		}
		out.WriteByte('\n')
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// Grid writes lines of cells in aligned columns.
func (v View) Grid(w io.Writer, lines [][]string) error {
	shown := make([][]string, 0, len(lines))
	for _, cells := range lines {
		shown = append(shown, plainCells(cells))
	}
	least, gap := leastColumn, wideGap
	if v.tooNarrow(shown, least, gap) {
		least, gap = 0, narrowGap
		v.shortenCells(shown, make([]Column, len(widthsOf(shown))))
	}
	table := tabwriter.NewWriter(w, least, 1, gap, ' ', 0)
	for _, cells := range shown {
		if _, err := io.WriteString(table, strings.Join(cells, "\t")+"\n"); err != nil {
			return err
		}
	}
	return table.Flush()
}

// tooNarrow reports whether lines do not fit into the terminal.
func (v View) tooNarrow(lines [][]string, least, gap int) bool {
	return v.Width > 0 && totalWidth(widthsOf(lines), least, gap) > v.Width
}

// shortenCells shortens cells of the widest columns until all columns fit, those to keep after all others. No column becomes
// narrower than its heading.
func (v View) shortenCells(lines [][]string, columns []Column) {
	widths := widthsOf(lines)
	over := totalWidth(widths, 0, narrowGap) - v.Width
	for _, kept := range []bool{false, true} {
		for ; over > 0; over-- {
			widest := -1
			for i, width := range widths {
				least := max(leastCell, columns[i].Least)
				if i < len(lines[0]) {
					least = max(least, utf8.RuneCountInString(lines[0][i]))
				}
				if columns[i].Keep == kept && width > least && (widest < 0 || width > widths[widest]) {
					widest = i
				}
			}
			if widest < 0 {
				break
			}
			widths[widest]--
		}
	}
	for _, cells := range lines {
		for i := range cells {
			cells[i] = Shorten(cells[i], widths[i])
		}
	}
}

func totalWidth(widths []int, least, gap int) int {
	sum := 0
	for i, width := range widths {
		if i < len(widths)-1 {
			width = max(least, width+gap)
		}
		sum += width
	}
	return sum
}

func widthsOf(lines [][]string) []int {
	var widths []int
	for _, cells := range lines {
		for i, cell := range cells {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

func linesOf(columns []Column, rows []Row) [][]string {
	lines := make([][]string, 0, len(rows))
	for _, row := range rows {
		cells := make([]string, 0, len(columns))
		for _, column := range columns {
			cells = append(cells, row[column.Field])
		}
		lines = append(lines, plainCells(cells))
	}
	return lines
}

// plainCells returns cells as they can be shown.
func plainCells(cells []string) []string {
	plain := make([]string, 0, len(cells))
	for _, cell := range cells {
		plain = append(plain, strings.ReplaceAll(Plain(cell), "\t", " "))
	}
	return plain
}
