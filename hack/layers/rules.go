package main

import (
	"fmt"
	"strings"
)

// ruleSet holds the rules by package prefix.
type ruleSet struct {
	allow map[string][]string // prefix -> prefixes that its packages may import
	tests map[string][]string // the same, for test files only and on top

	owned map[string]bool    // rules that are the one of a package
	used  map[allowance]bool // false: by test files only
}

// allowance is one prefix on the right of a rule.
type allowance struct{ rule, prefix string }

// parseRules reads the lines of layers.txt, whose head explains them.
func parseRules(text string) (ruleSet, error) {
	rules := ruleSet{
		allow: map[string][]string{}, tests: map[string][]string{}, owned: map[string]bool{}, used: map[allowance]bool{},
	}
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
			if !rules.knowsPrefix(a) {
				return rules, fmt.Errorf("rule for %s allows %s, which no rule covers", prefix, a)
			}
		}
	}
	return rules, nil
}

// knowsPrefix tells whether a prefix used on the right of a rule has a rule of its own, above or below it.
func (r ruleSet) knowsPrefix(prefix string) bool {
	if _, covered := r.ownerOf(prefix); covered {
		return true
	}
	for p := range r.allow {
		if covers(prefix, p) {
			return true
		}
	}
	return false
}

// ownerOf returns the longest prefix with a rule that covers the package.
func (r ruleSet) ownerOf(name string) (prefix string, covered bool) {
	for p := range r.allow {
		if covers(p, name) && (!covered || len(p) > len(prefix)) {
			prefix, covered = p, true
		}
	}
	return prefix, covered
}

// judgeImport returns what is wrong with one import of a package; nothing if it is allowed or from elsewhere.
func (r ruleSet) judgeImport(module, name, importPath string, test bool) []string {
	target := localPath(module, importPath)
	if target == "" || target == name {
		return nil
	}
	if _, covered := r.ownerOf(target); !covered {
		return []string{fmt.Sprintf("%s: imports %s, which no rule covers", name, target)}
	}
	own, _ := r.ownerOf(name)
	allowed := r.useAllowance(own, r.allow[own], target, test)
	if test {
		for p, more := range r.tests {
			if covers(p, name) {
				allowed = r.useAllowance(testRule+p, more, target, test) || allowed
			}
		}
	}
	if targetOwner, _ := r.ownerOf(target); allowed || own == targetOwner && covers(name, target) {
		return nil // a package may use its own parts
	}
	where := ""
	if test {
		where = " in a test file"
	}
	return []string{fmt.Sprintf("%s: may not import %s%s", name, target, where)}
}

// testRule begins the names of rules for test files in allowances.
const testRule = "test "

// useAllowance tells whether one of a rule's prefixes covers the package that is imported, and notes those that do.
func (r ruleSet) useAllowance(rule string, prefixes []string, target string, test bool) (allowed bool) {
	for _, prefix := range prefixes {
		if !covers(prefix, target) {
			continue
		}
		allowed = true
		a := allowance{rule, prefix}
		r.used[a] = r.used[a] || !test
	}
	return allowed
}

// unusedRules returns the rules that no package has and the allowances that no import needs.
func (r ruleSet) unusedRules() (findings []string) {
	for rule, prefixes := range r.allow {
		if !r.owned[rule] {
			findings = append(findings, fmt.Sprintf("rule %s: no package has it", rule))
			continue
		}
		for _, prefix := range prefixes {
			switch byCode, used := r.used[allowance{rule, prefix}]; {
			case !used:
				findings = append(findings, fmt.Sprintf("rule %s: nothing imports %s", rule, prefix))
			case !byCode:
				findings = append(findings, fmt.Sprintf("rule %s: only test files import %s", rule, prefix))
			}
		}
	}
	for rule, prefixes := range r.tests {
		for _, prefix := range prefixes {
			if _, used := r.used[allowance{testRule + rule, prefix}]; !used {
				findings = append(findings, fmt.Sprintf("rule %s%s: nothing imports %s", testRule, rule, prefix))
			}
		}
	}
	return findings
}

// covers tells whether the package is the prefix itself or lies below it.
func covers(prefix, name string) bool {
	return name == prefix || strings.HasPrefix(name, prefix+"/")
}
