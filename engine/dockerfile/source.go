package dockerfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/moby/buildkit/frontend/dockerfile/parser"

	"moss/engine/fault"
)

const (
	maxFile         = 1 << 20 // bytes of a Dockerfile
	maxVariables    = 4_000   // ${…} in a file or a word: they nest, and each level costs the lexer a copy of the rest
	maxStages       = 1_000   // in a file
	maxInstructions = 10_000  // in a file
	maxShown        = 5       // lines of an instruction that a message shows
	maxShownLine    = 200     // signs of such a line
)

// source is the text of a Dockerfile.
type source []byte

// checkLimits refuses a text that is too large, or no text, before the parser reads it.
func (s source) checkLimits(name string) error {
	if len(s) > maxFile {
		return fault.Invalid("%s has %d bytes, more than %d", name, len(s), maxFile)
	}
	if n := bytes.Count(s, []byte("${")); n > maxVariables {
		return fault.Invalid("%s has %d variables, more than %d", name, n, maxVariables)
	}
	if bytes.Count(bytes.ToUpper(s), []byte("ONBUILD")) > maxInstructions { // the parser follows them all before it objects
		return fault.Invalid("%s has more than %d instructions", name, maxInstructions)
	}
	number := 0
	for line := range bytes.Lines(s) {
		number++
		if len(bytes.TrimSuffix(line, []byte("\n"))) > bufio.MaxScanTokenSize-1 {
			return s.faultAt(number, number, "dockerfile line greater than max allowed size of %d", bufio.MaxScanTokenSize-1)
		}
		if bytes.IndexByte(line, 0) >= 0 {
			return s.faultAt(number, number, "the line is not text")
		}
	}
	return nil
}

// parseError gives an error of the parser its place.
func (s source) parseError(err error) error {
	at, ok := errors.AsType[*parser.LocationError](err)
	if !ok || len(at.Locations) == 0 || len(at.Locations[0]) == 0 {
		return fault.Invalid("dockerfile parse error: %w", err)
	}
	ranges := at.Locations[0]
	return s.faultAt(max(1, ranges[0].Start.Line), ranges[len(ranges)-1].End.Line, "%w", err)
}

// faultAt returns the error of lines first to last, and shows them.
func (s source) faultAt(first, last int, format string, args ...any) error {
	text := fmt.Errorf(format, args...)
	return fault.Invalid("dockerfile parse error line %d: %w%s", first, text, s.quoteLines(first, last))
}

// quoteLines returns lines with their numbers, each after a line break.
func (s source) quoteLines(first, last int) string {
	var out strings.Builder
	number := 0
	for line := range bytes.Lines(s) {
		number++
		if number < first {
			continue
		}
		if number > max(first, last) {
			break
		}
		if number >= first+maxShown {
			out.WriteString("\n       ...")
			break
		}
		text := strings.Map(func(r rune) rune {
			if r == '\t' {
				return ' '
			}
			if !unicode.IsPrint(r) {
				return -1
			}
			return r
		}, strings.ToValidUTF8(string(line), "?"))
		if runes := []rune(text); len(runes) > maxShownLine {
			text = string(runes[:maxShownLine]) + "..."
		}
		fmt.Fprintf(&out, "\n%4d | %s", number, strings.TrimRight(text, " "))
	}
	return out.String()
}

// isText returns whether s can be in a config, which is JSON, and on a command line.
func isText(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }
