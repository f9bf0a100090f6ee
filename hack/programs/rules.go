package main

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// rules say what the sources cannot: for which purposes a file is, and which programs need not be there.
type rules struct {
	files    []fileRule
	programs []*programRule
}

// fileRule is for the files, or targets of the Makefile, whose name begins like that; the longest one counts. A pattern
// that begins with * is for those whose name ends like that, and counts first.
type fileRule struct {
	pattern  string
	purposes []string // empty: they run elsewhere
	line     int
	used     bool
}

type programRule struct {
	pattern string // of the program's name
	prefix  string // of the files that it is about; empty: all
	line    int
	used    bool
}

// line is what is printed: a program that must be there for a purpose.
type line struct {
	purpose, program, places string
}

// parseRules reads lines of the forms "files PREFIX PURPOSE,... REASON" and "program NAME,... [in PREFIX:] REASON".
func parseRules(text string) (*rules, error) {
	all := &rules{}
	for i, text := range strings.Split(text, "\n") {
		words := strings.Fields(text)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		switch {
		case words[0] == "files" && len(words) >= 3:
			rule := fileRule{pattern: words[1], line: i + 1}
			if words[2] != "-" {
				rule.purposes = strings.Split(words[2], ",")
			} else if len(words) == 3 {
				return nil, fmt.Errorf("line %d: no reason", i+1)
			}
			all.files = append(all.files, rule)
		case words[0] == "program" && len(words) >= 3:
			prefix := ""
			if words[2] == "in" && len(words) > 4 {
				prefix = strings.TrimSuffix(words[3], ":")
			}
			for name := range strings.SplitSeq(words[1], ",") {
				all.programs = append(all.programs, &programRule{pattern: name, prefix: prefix, line: i + 1})
			}
		default:
			return nil, fmt.Errorf("line %d: want files PREFIX PURPOSE,... or program NAME,... and a reason", i+1)
		}
	}
	return all, nil
}

// purposesOf returns what a place is for.
func (r *rules) purposesOf(at place) ([]string, error) {
	name := at.file
	if at.target != "" {
		name += ":" + at.target
	}
	var best *fileRule
	for i := range r.files {
		rule := &r.files[i]
		if end, ok := strings.CutPrefix(rule.pattern, "*"); ok {
			if strings.HasSuffix(name, end) {
				best = rule
				break
			}
		} else if strings.HasPrefix(name, rule.pattern) && (best == nil || len(rule.pattern) > len(best.pattern)) {
			best = rule
		}
	}
	if best == nil {
		return nil, fmt.Errorf("no rule says what %s is for", name)
	}
	best.used = true
	return best.purposes, nil
}

// isExcused tells whether a program need not be there.
func (r *rules) isExcused(program string, at place) bool {
	for _, rule := range r.programs {
		if ok, _ := path.Match(rule.pattern, program); ok && strings.HasPrefix(at.file, rule.prefix) {
			rule.used = true
			return true
		}
	}
	return false
}

// sortByPurpose sorts what was found by purposes. A rule that is about nothing is an error.
func (r *rules) sortByPurpose(found *reader) ([]line, error) {
	byPurpose := map[[2]string][]place{}
	for program, places := range found.programs {
		for at := range places {
			purposes, err := r.purposesOf(at)
			if err != nil {
				return nil, err
			}
			if len(purposes) == 0 || found.made[program] || r.isExcused(program, at) {
				continue
			}
			for _, purpose := range purposes {
				key := [2]string{purpose, program}
				byPurpose[key] = append(byPurpose[key], at)
			}
		}
	}
	for _, rule := range r.programs {
		if !rule.used {
			return nil, fmt.Errorf("line %d: nothing calls %s in %s", rule.line, rule.pattern, cmp.Or(rule.prefix, "any file"))
		}
	}
	for _, rule := range r.files {
		if !rule.used {
			return nil, fmt.Errorf("line %d: no file %s calls a program", rule.line, rule.pattern)
		}
	}
	keys := slices.SortedFunc(maps.Keys(byPurpose), func(a, b [2]string) int { return strings.Compare(a[0]+"\t"+a[1], b[0]+"\t"+b[1]) })
	lines := make([]line, 0, len(keys))
	for _, key := range keys {
		lines = append(lines, line{key[0], key[1], joinPlaces(byPurpose[key])})
	}
	return lines, nil
}

// joinPlaces names the first few places.
func joinPlaces(places []place) string {
	const few = 5
	slices.SortFunc(places, func(a, b place) int {
		if c := strings.Compare(a.file, b.file); c != 0 {
			return c
		}
		return a.line - b.line
	})
	names := make([]string, 0, few+1)
	for i, at := range places {
		if i == few {
			names = append(names, fmt.Sprintf("and %d more", len(places)-few))
			break
		}
		names = append(names, at.String())
	}
	return strings.Join(names, " ")
}
