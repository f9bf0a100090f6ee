package main

import (
	"fmt"
	"slices"
	"strings"
)

// ruleSet holds the rules by package prefix.
type ruleSet struct {
	allow map[string][]string // prefix -> prefixes that its packages may import
	tests map[string][]string // the same, for test files only and on top
}

// parseRules reads the lines of layers.txt, whose head explains them.
func parseRules(text string) (ruleSet, error) {
	rules := ruleSet{allow: map[string][]string{}, tests: map[string][]string{}}
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		head, tail, found := strings.Cut(line, ":")
		names := strings.Fields(head)
		into := rules.allow
		if len(names) == 2 && names[0] == "test" {
			into, names = rules.tests, names[1:]
		}
		if !found || len(names) != 1 {
			return rules, fmt.Errorf("line %d: want \"prefix : prefixes\", got %q", i+1, line)
		}
		if _, twice := into[names[0]]; twice {
			return rules, fmt.Errorf("line %d: a second rule for %s", i+1, names[0])
		}
		into[names[0]] = strings.Fields(tail)
	}
	for prefix, allowed := range rules.allow {
		for _, a := range allowed {
			if !rules.known(a) {
				return rules, fmt.Errorf("rule for %s allows %s, which no rule covers", prefix, a)
			}
		}
	}
	return rules, nil
}

// known tells whether a prefix used on the right of a rule has a rule of its own, above or below it.
func (r ruleSet) known(prefix string) bool {
	if _, covered := r.owner(prefix); covered {
		return true
	}
	for p := range r.allow {
		if covers(prefix, p) {
			return true
		}
	}
	return false
}

// owner returns the longest prefix with a rule that covers the package.
func (r ruleSet) owner(name string) (prefix string, covered bool) {
	for p := range r.allow {
		if covers(p, name) && (!covered || len(p) > len(prefix)) {
			prefix, covered = p, true
		}
	}
	return prefix, covered
}

// judge returns what is wrong with one import of a package; nothing if it is allowed or from elsewhere.
func (r ruleSet) judge(module, name, importPath string, test bool) []string {
	target := local(module, importPath)
	if target == "" || target == name {
		return nil
	}
	own, _ := r.owner(name)
	targetOwner, covered := r.owner(target)
	if !covered {
		return []string{fmt.Sprintf("%s: imports %s, which no rule covers", name, target)}
	}
	if own == targetOwner {
		return nil
	}
	allowed := r.allow[own]
	if test {
		for p, more := range r.tests {
			if covers(p, name) {
				allowed = append(slices.Clip(allowed), more...)
			}
		}
	}
	for _, a := range allowed {
		if covers(a, target) {
			return nil
		}
	}
	where := ""
	if test {
		where = " in a test file"
	}
	return []string{fmt.Sprintf("%s: may not import %s%s", name, target, where)}
}

// covers tells whether the package is the prefix itself or lies below it.
func covers(prefix, name string) bool {
	return name == prefix || strings.HasPrefix(name, prefix+"/")
}
