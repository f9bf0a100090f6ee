package main

import (
	_ "embed" // for the text
	"fmt"
	"maps"
	"slices"
	"strings"
)

//go:embed words.txt
var wordsText string

// words are what people have written about the API: of a type, of "Type.Field" or of "#noun".
type words struct {
	about map[string]string
	enums map[string][]string
	used  map[string]bool
}

// readWords reads lines of a name, a tab, and what it is; behind another tab, the words that it can be.
func readWords(text string) (*words, error) {
	w := &words{about: map[string]string{}, enums: map[string][]string{}, used: map[string]bool{}}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if line == "" || strings.HasPrefix(line, "# ") {
			continue
		}
		parts := strings.Split(line, "\t")
		if len(parts) < 2 || len(parts) > 3 {
			return nil, fmt.Errorf("words.txt: %q: want a name, a tab and words", line)
		}
		if _, twice := w.about[parts[0]]; twice {
			return nil, fmt.Errorf("words.txt: %s is there twice", parts[0])
		}
		w.about[parts[0]] = parts[1]
		if len(parts) == 3 {
			w.enums[parts[0]] = strings.Fields(parts[2])
		}
	}
	return w, nil
}

// textOf returns what is known of a name, empty if nothing is.
func (w *words) textOf(name string) string {
	w.used[name] = true
	return w.about[name]
}

// enumOf returns the words that a field can be, nil if that is open. "" stands for the empty word.
func (w *words) enumOf(name string) []string {
	list := slices.Clone(w.enums[name])
	for i := range list {
		if list[i] == `""` {
			list[i] = ""
		}
	}
	return list
}

// unusedNames names what nobody has asked for.
func (w *words) unusedNames() []string {
	var names []string
	for name := range maps.Keys(w.about) {
		if !w.used[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
