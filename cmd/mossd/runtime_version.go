package main

import (
	"context"
	"fmt"

	"moss/engine/oci"
)

// asked is the runtime's answer to the question for its version.
type asked struct {
	version oci.Version
	err     error
}

// askVersion asks while the caller goes on; receive the answer once.
func askVersion(ctx context.Context, rt ociRuntime) <-chan asked {
	answer := make(chan asked, 1)
	go func() {
		version, err := oci.New(rt.call, nil).Version(ctx)
		answer <- asked{version, err}
	}()
	return answer
}

// shown is the version as /info shows it, with what a user should know of it.
func (a asked) shown(rt ociRuntime) (text string, warnings []string) {
	if a.err != nil {
		return "unknown", []string{fmt.Sprintf("WARNING: %s does not tell its version: %v", rt.name, a.err)}
	}
	for _, holes := range a.version.Advisories() {
		warnings = append(warnings, fmt.Sprintf("WARNING: %s %s has known holes (%s) unless your distribution has mended them",
			rt.name, a.version.Number, holes))
	}
	return a.version.Number, warnings
}
