package arg

import (
	"errors"
	"fmt"
	"strings"
)

// Secret is where a build's secret is: in a file or in a variable.
type Secret struct {
	ID       string
	Path     string // empty: in the variable
	Variable string
}

// ParseSecret reads id=ID[,src=FILE|,env=VARIABLE][,type=file|env]. Without a place a secret is in the variable of its
// name or, if there is none, in the file.
func ParseSecret(text string, lookup Lookup) (Secret, error) {
	fields := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(part, "=")
		switch key {
		case "source":
			key = "src"
		case "id", "src", "env", "type":
		default:
			return Secret{}, fmt.Errorf("unknown key %q; want id=ID,src=FILE or id=ID,env=VARIABLE", key)
		}
		if value == "" {
			return Secret{}, fmt.Errorf("%s has no value", key)
		}
		fields[key] = value
	}
	s, kind := Secret{ID: fields["id"], Path: fields["src"], Variable: fields["env"]}, fields["type"]
	switch {
	case s.ID == "":
		return Secret{}, errors.New("it has no id")
	case kind != "" && kind != "env" && kind != "file":
		return Secret{}, fmt.Errorf("unknown type %q; want file or env", kind)
	case s.Path != "" && s.Variable != "":
		return Secret{}, errors.New("src and env cannot be combined")
	case s.Variable != "" && kind == "file":
		return Secret{}, errors.New("env cannot be combined with type=file")
	}
	place := s.Path + s.Variable
	if place == "" {
		place = s.ID
		if _, set := lookup(place); kind == "" && !set {
			kind = "file"
		} else if kind == "" {
			kind = "env"
		}
	} else if kind == "" && s.Variable != "" {
		kind = "env"
	}
	s.Path, s.Variable = place, ""
	if kind == "env" { // with src too, as other command lines have it
		s.Path, s.Variable = "", place
	}
	return s, nil
}
