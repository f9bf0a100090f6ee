package token

import (
	"cmp"
	"slices"
	"strings"
)

// maxScopes bounds what is read of one list; pushes that mount from elsewhere have two or three.
const maxScopes = 256

// Scope is one resource and what may be done with it: repository:library/busybox:pull,push. A scope that has not this
// form is kept as it is, in Name.
type Scope struct {
	Type    string   // repository, registry; empty: Name is the whole scope
	Name    string   // may hold colons
	Actions []string // sorted, each once
}

// Repository is the scope of a repository: Repository("library/busybox", "pull").
func Repository(name string, actions ...string) Scope {
	return Scope{Type: "repository", Name: name, Actions: sortedActions(actions)}
}

// String returns the scope as it is sent.
func (s Scope) String() string {
	if s.Type == "" {
		return s.Name
	}
	return s.Type + ":" + s.Name + ":" + strings.Join(s.Actions, ",")
}

// Scopes is a scope list. Those that this package makes are in normal form: sorted, every resource once with all its
// actions.
type Scopes []Scope

// ParseScopes reads a scope list: scopes with spaces between them (RFC 6749, 3.3). Characters that a scope cannot have
// would not survive the way to the server: a scope with one is left out.
func ParseScopes(list string) Scopes {
	var all Scopes
	for word := range strings.FieldsSeq(list) {
		if len(all) == maxScopes {
			break
		}
		if !isScope(word) {
			continue
		}
		kind, rest, _ := strings.Cut(word, ":")
		colon := strings.LastIndexByte(rest, ':')
		if colon <= 0 || kind == "" {
			all = append(all, Scope{Name: word})
			continue
		}
		all = append(all, Scope{Type: kind, Name: rest[:colon], Actions: sortedActions(strings.Split(rest[colon+1:], ","))})
	}
	return all.normalForm()
}

// With returns the list and more scopes, in normal form.
func (s Scopes) With(more ...Scope) Scopes {
	return append(slices.Clip(slices.Clone(s)), more...).normalForm()
}

// String returns the list as it is sent in one parameter.
func (s Scopes) String() string {
	words := make([]string, len(s))
	for i, scope := range s {
		words[i] = scope.String()
	}
	return strings.Join(words, " ")
}

// normalForm sorts the list and merges the actions of a resource that stands there twice.
func (s Scopes) normalForm() Scopes {
	slices.SortStableFunc(s, func(a, b Scope) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Name, b.Name))
	})
	var out Scopes
	for _, scope := range s {
		if n := len(out); n > 0 && out[n-1].Type == scope.Type && out[n-1].Name == scope.Name {
			out[n-1].Actions = sortedActions(slices.Concat(out[n-1].Actions, scope.Actions))
			continue
		}
		out = append(out, scope)
	}
	return out
}

func sortedActions(actions []string) []string {
	actions = slices.DeleteFunc(slices.Clone(actions), func(a string) bool { return a == "" })
	slices.Sort(actions)
	return slices.Compact(actions)
}

// isScope tells whether a word is a scope-token of RFC 6749, 3.3.
func isScope(word string) bool {
	for i := range len(word) {
		if c := word[i]; c < 0x21 || c > 0x7e || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
