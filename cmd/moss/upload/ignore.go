package upload

import (
	"bytes"
	"path"
	"strings"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

// matcher holds the patterns of an ignore file. The zero value matches nothing.
type matcher struct {
	text       []byte
	patterns   *patternmatcher.PatternMatcher
	exceptions []string // where names can begin that a later pattern takes back: "" for anywhere
}

// outcome is what the patterns said of a folder; what is in it is judged with that.
type outcome = patternmatcher.MatchInfo

func newMatcher(text []byte) (*matcher, error) {
	list, err := ignorefile.ReadAll(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	m := &matcher{text: text}
	if len(list) == 0 {
		return m, nil
	}
	if m.patterns, err = patternmatcher.New(list); err != nil {
		return nil, err
	}
	for _, p := range m.patterns.Patterns() {
		if p.Exclusion() {
			m.exceptions = append(m.exceptions, plainStart(p.String()))
		}
	}
	return m, nil
}

// plainStart returns the folders at the start of a pattern that have no wildcard.
func plainStart(pattern string) string {
	start := strings.IndexAny(pattern, `*?[\`)
	if start < 0 {
		return path.Clean(pattern)
	}
	return strings.TrimSuffix(pattern[:strings.LastIndexByte(pattern[:start], '/')+1], "/")
}

// match judges a path.
func (m *matcher) match(name string, parent outcome) (excluded bool, own outcome, err error) {
	if m.patterns == nil {
		return false, outcome{}, nil
	}
	return m.patterns.MatchesUsingParentResults(name, parent)
}

// hasExceptionIn reports whether something in an excluded folder may be taken back.
func (m *matcher) hasExceptionIn(dir string) bool {
	for _, start := range m.exceptions {
		if start == "" || strings.HasPrefix(start+"/", dir+"/") || strings.HasPrefix(dir+"/", start+"/") {
			return true
		}
	}
	return false
}
