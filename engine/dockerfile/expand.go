package dockerfile

import (
	"maps"
	"regexp"
	"strings"
	"sync"

	"github.com/moby/buildkit/frontend/dockerfile/shell"

	"moss/engine/fault"
)

const (
	maxExpanded = 1 << 20  // bytes of values in one word: a variable may be named many times
	maxMatched  = 16 << 10 // bytes of a word with ${x#a}, ${x%a} or ${x/a/b} and of the values in it: each is tried on each
	maxGrown    = 64 << 20 // bytes that variables add to the instructions of a build
	maxReplaced = 8 << 10  // bytes of a word with ${x//a/b} and of the values in it: the outcome grows with its square
)

// matches are the names of variables in words.
type matches struct {
	matched, unmatched map[string]struct{}
}

// expander puts the values of variables into words. It is for one goroutine.
type expander struct {
	matches
	lex  *shell.Lex
	env  shell.EnvGetter
	left int // bytes that values in the present word may still have

	grown int // bytes that words have become longer by
}

func newExpander(escape rune, env shell.EnvGetter) *expander {
	return &expander{
		lex: shell.NewLex(escape), env: env,
		matches: matches{matched: map[string]struct{}{}, unmatched: map[string]struct{}{}},
	}
}

// Get returns the value of a variable, as long as there is room for it.
func (e *expander) Get(name string) (string, bool) {
	value, ok := e.env.Get(name)
	if e.left -= len(value); e.left < 0 {
		return "", ok
	}
	return value, ok
}

// Keys returns the names of the variables.
func (e *expander) Keys() []string { return e.env.Keys() }

// expandWord returns s without its quotes and escapes and with the values of its variables. Errors are fault.Invalid.
func (e *expander) expandWord(s string) (string, error) {
	limit, err := e.beginWord(s)
	if err != nil {
		return "", err
	}
	result, err := e.lex.ProcessWordWithMatches(s, e)
	e.grown += max(0, len(result.Result)-len(s))
	return result.Result, e.endWord(result, limit, err)
}

// expandAndSplit returns s as expandWord does, split at white space outside quotes. Errors are fault.Invalid.
func (e *expander) expandAndSplit(s string) ([]string, error) {
	limit, err := e.beginWord(s)
	if err != nil {
		return nil, err
	}
	words, err := e.lex.ProcessWords(s, e)
	return words, e.endWord(shell.ProcessWordResult{}, limit, err)
}

// The beginnings of variables with patterns, and of those in which a pattern is replaced wherever it is.
//
//nolint:gochecknoglobals // constants
var (
	pattern = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`\$\{[\pL\pN_]*[#%/]`)
	})
	replaceAll = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`\$\{[\pL\pN_]*//`)
	})
)

// beginWord checks a word and sets how many bytes of values it may have.
func (e *expander) beginWord(s string) (limit int, err error) {
	if !isText(s) {
		return 0, fault.Invalid("%q is not text", s)
	}
	if strings.Count(s, "${") > maxVariables {
		return 0, fault.Invalid("a word has more than %d variables", maxVariables)
	}
	limit = maxExpanded
	if pattern().MatchString(s) {
		if limit = maxMatched - len(s); limit < 0 {
			return 0, fault.Invalid("a word with patterns has more than %d bytes", maxMatched)
		}
	}
	if all := replaceAll().FindAllStringIndex(s, 3); len(all) > 0 {
		if limit = maxReplaced - len(s); limit < 0 {
			return 0, fault.Invalid("a word with replacements has more than %d bytes", maxReplaced)
		}
		if len(all) > 1 && mayNest(s) {
			return 0, fault.Invalid("replacements within replacements are not supported: %q", s)
		}
	}
	e.left = limit
	return limit, nil
}

// mayNest reports whether a replacement may stand within another one. Where quotes and escapes hide what closes what, it may.
func mayNest(s string) bool {
	if strings.ContainsAny(s, "'\"\\`") {
		return true
	}
	var open []bool // of each ${ that is not closed, whether it is a replacement of all
	for i := range len(s) {
		switch {
		case strings.HasPrefix(s[i:], "${"):
			all := replaceAll().FindStringIndex(s[i:])
			is := all != nil && all[0] == 0
			for _, outer := range open {
				if outer && is {
					return true
				}
			}
			open = append(open, is)
		case s[i] == '}' && len(open) > 0:
			open = open[:len(open)-1]
		}
	}
	return false
}

// endWord fails if the word has become too long, and adds its variables to the matches.
func (e *expander) endWord(result shell.ProcessWordResult, limit int, err error) error {
	if e.left < 0 {
		return fault.Invalid("a word grows beyond %d bytes", limit)
	}
	if err != nil {
		return fault.Invalid("%w", err)
	}
	maps.Copy(e.matched, result.Matched)
	maps.Copy(e.unmatched, result.Unmatched)
	return nil
}
