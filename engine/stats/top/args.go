package top

import (
	"strings"

	"moss/engine/fault"
)

// arguments are what a client gave for a ps.
type arguments struct {
	words   []string
	columns []column // of the table that they ask for; nil if only a real ps understands them
}

// parseArgs takes the arguments apart at blanks, without quotes. It understands the ways to ask for columns that most
// people use: -ef, aux, -o LIST and their relatives. Choices of processes (-e, -A, a, x) change nothing, since those of
// the container are shown, and neither does w: nothing is cut. fault.Invalid for another column that calls itself PID.
func parseArgs(text string) (arguments, error) {
	a := arguments{words: strings.Fields(text)}
	for i, word := range a.words {
		key, title, found := strings.Cut(word, "=")
		if found && title == "" && i+1 < len(a.words) {
			title = a.words[i+1]
		}
		if found && strings.HasPrefix(title, "PID") && !strings.HasSuffix(key, "pid") {
			return a, fault.Invalid("specifying %q is not allowed", key+"="+title)
		}
	}
	var p parser
	if p.parseWords(a.words) {
		a.columns = p.chosenColumns()
	}
	return a, nil
}

// parser collects what native arguments ask for.
type parser struct {
	format string // of the fixed tables; empty: none was asked for
	list   []column
}

// The fixed tables of ps.
const (
	formatPlain = "plain" // -e
	formatFull  = "full"  // -f
	formatBSD   = "bsd"   // ax
	formatUser  = "user"  // u
)

// parseWords takes the arguments and reports whether it understands all of them.
func (p *parser) parseWords(words []string) bool {
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		if list, long := strings.CutPrefix(word, "--format="); long {
			if !p.parseColumns(list) {
				return false
			}
			continue
		}
		list, isList, ok := p.parseLetters(word)
		if !ok {
			return false
		}
		if !isList {
			continue
		}
		if list == "" { // it is the next word
			if len(words) == 0 {
				return false
			}
			list, words = words[0], words[1:]
		}
		if !p.parseColumns(list) {
			return false
		}
	}
	return true
}

// parseLetters takes one word of single letters. With isList a list of columns follows: list, or the next word if that is
// empty.
func (p *parser) parseLetters(word string) (list string, isList, ok bool) {
	word, dashed := strings.CutPrefix(word, "-")
	// ps forgives the dash that people put before aux by mistake.
	bsd := !dashed || strings.HasPrefix(word, "au") && strings.Contains(word, "x")
	switch {
	case word == "":
		return "", false, false
	case bsd:
		p.format = formatBSD
	case p.format == "":
		p.format = formatPlain
	}
	for at, letter := range word {
		switch {
		case strings.ContainsRune("eAaxw", letter): // see parseArgs
			if bsd && letter == 'e' || bsd && letter == 'A' { // the environment, no choice of processes
				return "", false, false
			}
		case letter == 'f' && !bsd:
			p.format = formatFull
		case letter == 'u' && bsd:
			p.format = formatUser
		case letter == 'o':
			return word[at+1:], true, true
		default:
			return "", false, false
		}
	}
	return "", false, true
}

// parseColumns takes a list of names. A title of the client's choice is left to a real ps.
func (p *parser) parseColumns(list string) bool {
	for name := range strings.SplitSeq(list, ",") {
		c, known := columnNamed(name)
		if !known {
			return false
		}
		p.list = append(p.list, c)
	}
	return true
}

// chosenColumns returns the columns that were asked for; nil for what ps refuses: a list beside a fixed table.
func (p *parser) chosenColumns() []column {
	if p.list != nil {
		if p.format == formatFull || p.format == formatUser {
			return nil
		}
		return p.list
	}
	fixed := map[string]string{
		"":          "user=UID pid ppid c stime tty=TTY time cmd",
		formatFull:  "user=UID pid ppid c stime tty=TTY time cmd",
		formatPlain: "pid tty=TTY time comm=CMD",
		formatBSD:   "pid tty=TTY stat bsdtime args=COMMAND",
		formatUser:  "user pid %cpu %mem vsz rss tty=TTY stat stime=START bsdtime args=COMMAND",
	}[p.format]
	for word := range strings.FieldsSeq(fixed) {
		name, title, renamed := strings.Cut(word, "=")
		c, _ := columnNamed(name)
		if renamed {
			c.title = title
		}
		p.list = append(p.list, c)
	}
	return p.list
}
