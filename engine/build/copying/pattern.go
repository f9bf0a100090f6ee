package copying

import (
	"context"
	"path"
	"strings"

	"github.com/moby/patternmatcher"

	"moss/engine/build/source"
	"moss/engine/fault"
)

// isPattern reports whether a path has something in it that stands for other characters. What follows a backslash stands
// for itself.
func isPattern(name string) bool {
	for i := 0; i < len(name); i++ {
		switch name[i] {
		case '\\':
			i++
		case '*', '?', '[':
			return true
		}
	}
	return false
}

// expandPattern returns the paths that match an item's, sorted by their parts; a path that is no pattern is returned as it is.
// The parts before the first that is a pattern may lead through links, the others do not.
func expandPattern(ctx context.Context, item Item) ([]string, error) {
	if strings.ContainsRune(item.Path, 0) {
		return nil, fault.Invalid("the source %q holds a zero byte", item.Path)
	}
	name := toRelative(item.Path)
	parts := strings.Split(name, "/")
	first := 0
	for first < len(parts) && !isPattern(parts[first]) {
		first++
	}
	if first == len(parts) {
		return []string{name}, nil
	}
	for _, part := range parts[first:] {
		if _, err := path.Match(part, ""); err != nil {
			return nil, fault.Invalid("the source %q is not a pattern: %w", item.Path, err)
		}
	}
	top := path.Join(parts[:first]...)
	dir, err := item.Source.Stat(ctx, top, true)
	if err != nil {
		return nil, item.translateStatError(top, err)
	}
	if !dir.Mode.IsDir() {
		return nil, nil
	}
	return globFolder(ctx, item.Source, dir, top, parts[first:])
}

// globFolder returns the paths below a folder, called top, that match the parts of a pattern.
func globFolder(ctx context.Context, src source.Source, dir *source.Entry, top string, parts []string) ([]string, error) {
	if !isPattern(parts[0]) && !strings.ContainsRune(parts[0], '\\') {
		entry, err := src.Stat(ctx, path.Join(dir.Path, parts[0]), false)
		switch {
		case notThere(err):
			return nil, nil
		case err != nil:
			return nil, err
		}
		return globEntry(ctx, src, entry, top, parts)
	}
	entries, err := src.List(ctx, dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if fits, err := path.Match(parts[0], path.Base(e.Path)); err != nil || !fits {
			continue // what is no pattern was found before
		}
		more, err := globEntry(ctx, src, e, top, parts)
		if err != nil {
			return nil, err
		}
		names = append(names, more...)
	}
	return names, nil
}

// globEntry goes on with an entry that fits the first part.
func globEntry(ctx context.Context, src source.Source, e *source.Entry, top string, parts []string) ([]string, error) {
	name := path.Join(top, path.Base(e.Path))
	if len(parts) == 1 {
		return []string{name}, nil
	}
	if !e.Mode.IsDir() {
		return nil, nil
	}
	return globFolder(ctx, src, e, name, parts[1:])
}

// filter says which files below a folder are copied. A nil filter takes all.
type filter struct {
	include *patternmatcher.PatternMatcher // nil: all
	exclude *patternmatcher.PatternMatcher // nil: none
	literal []string                       // the parts of include before the first that is a pattern
}

// seen is what a filter knows of a folder that it looks into.
type seen struct {
	path    string // below the folder that is copied; empty: that folder itself
	include patternmatcher.MatchInfo
	exclude patternmatcher.MatchInfo
}

// newFilter returns the filter of --exclude.
func newFilter(exclude []string) (*filter, error) {
	if len(exclude) == 0 {
		return nil, nil
	}
	matcher, err := patternmatcher.New(exclude)
	if err != nil {
		return nil, fault.Invalid("invalid --exclude: %w", err)
	}
	return &filter{exclude: matcher}, nil
}

// newIncluding returns the filter that takes what fits a pattern, a whole folder too, and that another one does not drop.
func newIncluding(pattern string, and *filter) (*filter, error) {
	f := &filter{}
	if and != nil {
		f.exclude = and.exclude
	}
	if pattern == "." {
		return f, nil
	}
	if pattern[0] == '!' {
		pattern = `\` + pattern // it is a name here
	}
	matcher, err := patternmatcher.New([]string{pattern})
	if err != nil {
		return nil, fault.Invalid("the source %q is not a pattern: %w", pattern, err)
	}
	f.include = matcher
	for part := range strings.SplitSeq(pattern, "/") {
		if strings.ContainsAny(part, `*?[\`) {
			break
		}
		f.literal = append(f.literal, part)
	}
	return f, nil
}

// excludesFile reports whether the filter drops a file that a path names itself.
func (f *filter) excludesFile(name string) bool {
	if f == nil || f.exclude == nil {
		return false
	}
	for _, form := range []string{path.Base(name), name} {
		if hit, err := f.exclude.MatchesOrParentMatches(form); err == nil && hit {
			return true
		}
	}
	return false
}

// matchName matches a name in a folder: it says whether it is copied and, if not, whether something below it may be.
func (f *filter) matchName(above seen, name string) (at seen, included, below bool, err error) {
	if f == nil {
		return seen{}, true, true, nil
	}
	at.path = name
	if above.path != "" {
		at.path = above.path + "/" + name
	}
	included, below = true, true
	if f.include != nil {
		if included, at.include, err = f.include.MatchesUsingParentResults(at.path, above.include); err != nil {
			return at, false, false, fault.Invalid("match %s: %w", at.path, err)
		}
		below = included || f.mayIncludeBelow(at.path)
	}
	if f.exclude != nil {
		var dropped bool
		if dropped, at.exclude, err = f.exclude.MatchesUsingParentResults(at.path, above.exclude); err != nil {
			return at, false, false, fault.Invalid("match %s: %w", at.path, err)
		}
		if dropped {
			included = false
			below = below && f.exclude.Exclusions()
		}
	}
	return at, included, below, nil
}

// mayIncludeBelow reports whether something below a path may match include.
func (f *filter) mayIncludeBelow(name string) bool {
	for i, part := range strings.Split(name, "/") {
		if i == len(f.literal) {
			return true
		}
		if part != f.literal[i] {
			return false
		}
	}
	return true
}
