package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"moss/engine/oci"
)

// asked is the runtime's answer to the question for its version.
type asked struct {
	version oci.Version
	err     error
}

// versionLimit is more than any runtime needs, even on a machine that is busy.
const versionLimit = 20 * time.Second

// askVersion asks while the caller goes on; receive the answer once. Dir is made for the runtime's temporary files and removed
// again, with what an engine before this one has left there when it was killed.
func askVersion(ctx context.Context, rt ociRuntime, dir string) <-chan asked {
	answer := make(chan asked, 1)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, versionLimit)
		defer cancel()
		sweep := func() error { oci.DropCopies(dir); return os.RemoveAll(dir) }
		err := errors.Join(sweep(), os.Mkdir(dir, 0o700))
		var version oci.Version
		if err == nil {
			version, err = oci.New(rt.call, dir, nil).Version(ctx)
		}
		err = errors.Join(err, sweep())
		answer <- asked{version, err}
	}()
	return answer
}

// describeVersion returns the version as /info shows it, with what a user should know of it.
func (a asked) describeVersion(rt ociRuntime) (text string, warnings []string) {
	if a.err != nil {
		return "unknown", []string{fmt.Sprintf("WARNING: %s does not tell its version: %v", rt.name, a.err)}
	}
	for _, holes := range a.version.Advisories() {
		warnings = append(warnings, fmt.Sprintf("WARNING: %s %s has known holes (%s) unless your distribution has mended them",
			rt.name, a.version.Number, holes))
	}
	return a.version.Number, warnings
}
