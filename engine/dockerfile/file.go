package dockerfile

import (
	"slices"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerfile/shell"

	"moss/engine/fault"
)

// ParseOptions is what Parse depends on besides the file.
type ParseOptions struct {
	Name string             // of the file, for messages; empty: Dockerfile
	Args map[string]*string // build arguments; BUILDKIT_SYNTAX and BUILDKIT_DOCKERFILE_CHECK stand for directives
}

// File is a Dockerfile whose instructions are known to be well formed.
type File struct {
	MetaArgs []*instructions.ArgCommand // ARG before the first FROM
	Stages   []*Stage                   // at least one
	Warnings []Warning                  // in the order of lines
	Escape   rune                       // \ or `

	src   source
	check linter.Config // what the check directive says
}

// Stage is what stands below one FROM.
type Stage struct {
	Index    int    // from 0
	Name     string // lower case; empty: it has none
	From     string // as FROM has it, variables and all
	Platform string // of FROM --platform, as it is written; empty: the build's
	Code     string // the FROM instruction, as it is shown
	Line     int    // of it, from 1
	Commands []instructions.Command

	keyword  string         // FROM, as it is written
	location []parser.Range // of FROM
	comments []string       // directly above it
}

// Parse reads a Dockerfile of at most 1 MiB. Errors are fault.Invalid; they name the line and show it.
func Parse(src []byte, opts ParseOptions) (*File, error) {
	if opts.Name == "" {
		opts.Name = "Dockerfile"
	}
	if len(strings.TrimSpace(string(src))) == 0 {
		return nil, fault.Invalid("the Dockerfile (%s) cannot be empty", opts.Name)
	}
	text := source(src)
	if err := text.checkLimits(opts.Name); err != nil {
		return nil, err
	}
	if err := checkSyntax(src, opts.Args); err != nil {
		return nil, err
	}
	f := &File{src: text}
	if err := f.readCheck(opts.Args); err != nil {
		return nil, err
	}
	tree, err := parser.Parse(strings.NewReader(string(src)))
	if err != nil {
		return nil, text.parseError(err)
	}
	f.Escape = tree.EscapeToken
	findings := newFindings(f.check)
	for _, w := range tree.Warnings {
		findings.reportRule(&linter.RuleNoEmptyContinuation, []parser.Range{*w.Location}, linter.RuleNoEmptyContinuation.Format())
	}
	if n := len(tree.AST.Children); n > maxInstructions {
		return nil, fault.Invalid("%s has %d instructions, more than %d", opts.Name, n, maxInstructions)
	}
	for _, node := range tree.AST.Children {
		if err := f.addInstruction(node, findings); err != nil {
			return nil, err
		}
	}
	if len(f.Stages) == 0 {
		return nil, fault.Invalid("%s contains no stages to build", opts.Name)
	}
	if n := len(f.Stages); n > maxStages {
		return nil, fault.Invalid("%s has %d stages, more than %d", opts.Name, n, maxStages)
	}
	f.lintFile(findings)
	if err := findings.err(); err != nil {
		return nil, err
	}
	f.Warnings = findings.list
	slices.SortStableFunc(f.Warnings, func(a, b Warning) int { return a.Line - b.Line })
	return f, nil
}

// addInstruction adds one instruction to the file.
func (f *File) addInstruction(node *parser.Node, findings *findings) error {
	if !isText(node.Original) {
		return f.src.faultAt(node.StartLine, node.EndLine, "%s is not text", strings.ToUpper(node.Value))
	}
	parsed, err := instructions.ParseInstructionWithLinter(node, findings.linter)
	if err != nil {
		return f.src.faultAt(node.StartLine, node.EndLine, "%w", err)
	}
	if err := f.checkMounts(node); err != nil {
		return f.src.faultAt(node.StartLine, node.EndLine, "%w", err)
	}
	switch cmd := parsed.(type) {
	case *instructions.Stage:
		f.Stages = append(f.Stages, &Stage{
			Index: len(f.Stages), Name: cmd.Name, From: cmd.BaseName, Platform: cmd.Platform, Code: cmd.SourceCode,
			Line: node.StartLine, keyword: cmd.OrigCmd, location: cmd.Location, comments: cmd.Comments,
		})
	case instructions.Command:
		if len(f.Stages) > 0 {
			stage := f.Stages[len(f.Stages)-1]
			stage.Commands = append(stage.Commands, cmd)
			return nil
		}
		arg, ok := cmd.(*instructions.ArgCommand)
		if !ok {
			return f.src.faultAt(node.StartLine, node.EndLine, "no build stage in current context")
		}
		f.MetaArgs = append(f.MetaArgs, arg)
	default:
		return f.src.faultAt(node.StartLine, node.EndLine, "%s is not an instruction", node.Value)
	}
	return nil
}

// checkMounts finds what is wrong with the mounts of a RUN before anything runs: the parser leaves them until variables have
// their values. Flags with a variable in them still wait for that.
func (f *File) checkMounts(node *parser.Node) error {
	mounts := false
	for _, flag := range node.Flags {
		if strings.Contains(flag, "$") {
			return nil
		}
		mounts = mounts || strings.HasPrefix(flag, "--mount")
	}
	if !mounts {
		return nil
	}
	again, err := instructions.ParseInstruction(node) // the instruction of the build is as it was written
	if err != nil {
		return err
	}
	run, ok := again.(*instructions.RunCommand)
	if !ok {
		return nil
	}
	if err := run.Expand(newExpander(f.Escape, shell.EnvsFromSlice(nil)).expandWord); err != nil {
		return err
	}
	for _, m := range instructions.GetMounts(run) {
		if m.Target == "" && m.Type != instructions.MountTypeSecret && m.Type != instructions.MountTypeSSH {
			return fault.Invalid("RUN --mount=type=%s: target is required", m.Type)
		}
	}
	return nil
}

// lineOf returns the line where an instruction begins; 0: there is none.
func lineOf(location []parser.Range) int {
	if len(location) == 0 {
		return 0
	}
	return location[0].Start.Line
}
