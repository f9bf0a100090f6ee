package oci

import (
	"strings"

	"moss/engine/fault"
)

// Version is what a runtime says about itself.
type Version struct {
	Name   string // crun or runc
	Number string // such as 1.8.1
	Commit string
	Spec   string // the newest OCI runtime spec it implements
}

// ParseVersion reads the output of --version. fault.Invalid if there is no version in it.
func ParseVersion(out string) (Version, error) {
	var v Version
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if name, number, ok := strings.Cut(line, " version "); ok && v.Name == "" {
			v.Name, v.Number = name, number
			continue
		}
		key, value, _ := strings.Cut(line, ": ")
		switch key {
		case "commit":
			v.Commit = value
		case "spec":
			v.Spec = value
		}
	}
	if v.Name == "" || v.Number == "" {
		return Version{}, fault.Invalid("no version in the runtime's answer %q", out)
	}
	return v, nil
}
