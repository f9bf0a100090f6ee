package dockerfile

import (
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"

	"moss/engine/fault"
)

// checkSyntax refuses files in another language than that of the standard frontend.
func checkSyntax(src []byte, args map[string]*string) error {
	syntax, _, _, ok := parser.DetectSyntax(src)
	if v := args["BUILDKIT_SYNTAX"]; v != nil {
		syntax, ok = *v, true
	}
	if !ok {
		return nil
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(syntax, "docker.io/"), "@")
	name, _, _ = strings.Cut(name, ":")
	if name != "docker/dockerfile" && name != "docker/dockerfile-upstream" {
		return fault.Invalid("syntax %q is not supported: moss reads Dockerfiles itself, as docker/dockerfile does", syntax)
	}
	return nil
}

// readCheck reads what the check directive says: skip=<rules>|all; error=true.
func (f *File) readCheck(args map[string]*string) error {
	_, text, _, _ := parser.ParseDirective("check", f.src)
	if v := args["BUILDKIT_DOCKERFILE_CHECK"]; v != nil {
		text = *v
	}
	check, err := linter.ParseLintOptions(text)
	if err != nil {
		return fault.Invalid("failed to parse check options: %w", err)
	}
	f.check = *check
	return nil
}
