package compat

import (
	"strings"

	"github.com/docker/go-units"
)

// barWidth is how many signs a full progress bar has.
const barWidth = 50

// Bar draws how far an operation is, for clients that show the text and not the numbers.
func Bar(current, total int64) string {
	if total <= 0 || current > total {
		return formatSize(current)
	}
	done := int(current * barWidth / total)
	if total > 1<<56 {
		done = int(current / (total / barWidth))
	}
	done = min(max(done, 0), barWidth)
	var b strings.Builder
	b.WriteByte('[')
	b.WriteString(strings.Repeat("=", done))
	if done < barWidth {
		b.WriteByte('>')
		b.WriteString(strings.Repeat(" ", barWidth-done-1))
	}
	b.WriteString("] ")
	b.WriteString(formatSize(current))
	b.WriteByte('/')
	b.WriteString(formatSize(total))
	return b.String()
}

// formatSize writes bytes in decimal units with up to four digits: 12.34 MB.
func formatSize(n int64) string {
	return units.CustomSize("%.4g %s", float64(n), 1000, []string{"B", "kB", "MB", "GB", "TB", "PB", "EB"})
}
