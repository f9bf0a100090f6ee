package image

import (
	"encoding/json"
	"strings"
	"unicode"

	"moss/engine/fault"
)

// jsonWords returns the elements of a JSON array of strings, and whether s is one.
func jsonWords(s string) ([]string, bool) {
	if !strings.HasPrefix(strings.TrimSpace(s), "[") {
		return nil, false
	}
	var words []string
	if err := json.Unmarshal([]byte(s), &words); err != nil {
		return nil, false
	}
	return words, true
}

// splitWords cuts s at white space outside quotes. Quotes and backslashes stay in the words.
func splitWords(s string) []string {
	var words []string
	var word strings.Builder
	var quote rune
	escaped, in := false, false
	for _, r := range s {
		switch {
		case escaped:
			escaped = false
		case r == '\\' && quote != '\'':
			escaped = true
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '\'' || r == '"':
			quote = r
		case unicode.IsSpace(r):
			if in {
				words = append(words, word.String())
				word.Reset()
				in = false
			}
			continue
		}
		word.WriteRune(r)
		in = true
	}
	if in {
		words = append(words, word.String())
	}
	return words
}

// expander takes the quotes off words and puts the values of variables in.
type expander struct {
	lookup func(name string) (string, bool)
}

// maxExpanded bounds the outcome of one expansion, in bytes: a variable may be named many times.
const maxExpanded = 1 << 20

// word returns s without its quotes and escapes, with $NAME, ${NAME}, ${NAME:-word} and ${NAME:+word} replaced. Errors
// are fault.Invalid.
func (e expander) word(s string) (string, error) {
	p := &wordParser{rest: s, lookup: e.lookup}
	out, err := p.until(0)
	if err != nil {
		return "", err
	}
	return out, nil
}

type wordParser struct {
	rest   string
	lookup func(string) (string, bool)
	depth  int
}

// maxDepth bounds ${A:-${B:-…}}.
const maxDepth = 32

// until reads up to the closing sign (0: to the end), which it takes as well.
func (p *wordParser) until(closing byte) (string, error) {
	var out strings.Builder
	for p.rest != "" {
		c := p.rest[0]
		if c == closing && closing != 0 {
			p.rest = p.rest[1:]
			return out.String(), nil
		}
		var part string
		var err error
		switch c {
		case '\'':
			part, err = p.single()
		case '"':
			part, err = p.double()
		case '\\':
			part = p.escape()
		case '$':
			part, err = p.variable()
		default:
			part, p.rest = p.rest[:1], p.rest[1:]
		}
		if err != nil {
			return "", err
		}
		if out.Len()+len(part) > maxExpanded {
			return "", fault.Invalid("a word grows beyond %d bytes", maxExpanded)
		}
		out.WriteString(part)
	}
	if closing != 0 {
		return "", fault.Invalid("%q is missing", string(rune(closing)))
	}
	return out.String(), nil
}

func (p *wordParser) single() (string, error) {
	text, rest, ok := strings.Cut(p.rest[1:], "'")
	if !ok {
		return "", fault.Invalid("a single quote is not closed")
	}
	p.rest = rest
	return text, nil
}

func (p *wordParser) double() (string, error) {
	p.rest = p.rest[1:]
	var out strings.Builder
	for p.rest != "" {
		var part string
		var err error
		switch c := p.rest[0]; {
		case c == '"':
			p.rest = p.rest[1:]
			return out.String(), nil
		case c == '$':
			part, err = p.variable()
		case c == '\\' && len(p.rest) > 1 && strings.ContainsRune(`"$\`, rune(p.rest[1])):
			part = p.escape()
		default:
			part, p.rest = p.rest[:1], p.rest[1:]
		}
		if err != nil {
			return "", err
		}
		if out.Len()+len(part) > maxExpanded {
			return "", fault.Invalid("a word grows beyond %d bytes", maxExpanded)
		}
		out.WriteString(part)
	}
	return "", fault.Invalid("a double quote is not closed")
}

// escape returns the sign after a backslash; a backslash at the end stands for itself.
func (p *wordParser) escape() string {
	if len(p.rest) == 1 {
		p.rest = ""
		return `\`
	}
	sign := p.rest[1:2]
	p.rest = p.rest[2:]
	return sign
}

func (p *wordParser) variable() (string, error) {
	p.rest = p.rest[1:]
	if !strings.HasPrefix(p.rest, "{") {
		name := p.name()
		if name == "" {
			return "$", nil
		}
		value, _ := p.lookup(name)
		return value, nil
	}
	p.rest = p.rest[1:]
	name := p.name()
	if name == "" {
		return "", fault.Invalid("a variable has no name")
	}
	value, set := p.lookup(name)
	switch {
	case strings.HasPrefix(p.rest, "}"):
		p.rest = p.rest[1:]
		return value, nil
	case strings.HasPrefix(p.rest, ":-"), strings.HasPrefix(p.rest, ":+"):
		alternative := p.rest[1] == '+'
		p.rest = p.rest[2:]
		if p.depth++; p.depth > maxDepth {
			return "", fault.Invalid("variables are nested more than %d deep", maxDepth)
		}
		word, err := p.until('}')
		p.depth--
		if err != nil {
			return "", err
		}
		if alternative == (set && value != "") {
			return word, nil
		}
		if alternative {
			return "", nil
		}
		return value, nil
	default:
		return "", fault.Invalid("${%s is followed by what is not understood: %q", name, p.rest)
	}
}

// name takes a variable's name off the rest.
func (p *wordParser) name() string {
	n := 0
	for n < len(p.rest) {
		c := p.rest[n]
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (n == 0 || c < '0' || c > '9') {
			break
		}
		n++
	}
	name := p.rest[:n]
	p.rest = p.rest[n:]
	return name
}
