package source

import (
	"path"

	"github.com/moby/patternmatcher"

	"moss/engine/fault"
)

// Without returns the tree without what patterns exclude (those of .dockerignore, in order, with ! for exceptions). Folders
// of what an exception keeps are kept. Errors are fault.Invalid.
func (t *Tree) Without(patterns []string) (*Tree, error) {
	matcher, err := patternmatcher.New(patterns)
	if err != nil {
		return nil, fault.Invalid("the patterns of what is ignored: %w", err)
	}
	s := &sieve{matcher: matcher, out: &Tree{content: t.content}}
	if s.out.root, err = s.filterFolder(t.root, ".", patternmatcher.MatchInfo{}); err != nil {
		return nil, err
	}
	return s.out, nil
}

// sieve leaves out what is excluded.
type sieve struct {
	matcher *patternmatcher.PatternMatcher
	out     *Tree
}

// filterFolder returns a folder without what is excluded. above is how the patterns matched it.
func (s *sieve) filterFolder(from *inode, name string, above patternmatcher.MatchInfo) (*inode, error) {
	to := *from
	to.kids = &folder{}
	for _, c := range from.kids.children {
		at := path.Join(name, c.name)
		excluded, info, err := s.matcher.MatchesUsingParentResults(at, above)
		if err != nil {
			return nil, fault.Invalid("the patterns of what is ignored: %w", err)
		}
		if excluded && (c.node.kids == nil || !s.matcher.Exclusions()) {
			continue
		}
		node := c.node
		if node.kids != nil {
			if node, err = s.filterFolder(node, at, info); err != nil {
				return nil, err
			}
			if excluded && len(node.kids.children) == 0 {
				continue
			}
		}
		to.kids.children = append(to.kids.children, child{c.name, node})
		s.out.entries++
		s.out.bytes += node.size
	}
	return &to, nil
}
