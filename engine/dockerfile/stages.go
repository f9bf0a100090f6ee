package dockerfile

import (
	"slices"
	"strconv"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerfile/shell"

	"moss/engine/fault"
	"moss/engine/image"
)

// scratch is the name of the image that has nothing in it.
const scratch = "scratch"

// findStage returns the last stage of that name before stage number end; nil: there is none.
func (f *File) findStage(name string, end int) *Stage {
	for _, stage := range slices.Backward(f.Stages[:end]) {
		if stage.Name != "" && strings.EqualFold(stage.Name, name) {
			return stage
		}
	}
	return nil
}

// faultInFrom returns an error of the stage's FROM, and shows it.
func (s *Stage) faultInFrom(f *File, format string, args ...any) error {
	return f.src.faultAt(s.Line, s.Line+len(s.location)-1, format, args...)
}

// From returns what COPY --from and RUN --mount=from of a stage's instruction mean: the name or number of an earlier
// stage, or an image. Errors are fault.Invalid.
func (p *Plan) From(s *Stage, from string) (Origin, error) {
	if plain, _, err := shell.NewLex(p.File.Escape).ProcessWord(from, &variables{}); err != nil || plain != from {
		return Origin{}, fault.Invalid("variable expansion is not supported for --from, " +
			"define a new stage with FROM using ARG from global scope as a workaround")
	}
	if from == scratch || from == "" {
		return Origin{}, nil
	}
	if stage := p.File.findStage(from, s.Index); stage != nil {
		return Origin{Stage: stage}, nil
	}
	if number, err := strconv.Atoi(from); err == nil {
		switch {
		case number < 0 || number >= len(p.File.Stages):
			return Origin{}, fault.Invalid("invalid from flag value %s: index out of bounds", from)
		case number == s.Index:
			return Origin{}, fault.Invalid("invalid from flag value %s: refers to current build stage", from)
		case number > s.Index:
			return Origin{}, fault.Invalid("invalid from flag value %s: the stage needs to be defined before", from)
		}
		return Origin{Stage: p.File.Stages[number]}, nil
	}
	if stage := p.File.findStage(from, len(p.File.Stages)); stage != nil {
		if stage == s {
			return Origin{}, fault.Invalid("invalid from flag value %s: refers to current build stage", from)
		}
		return Origin{}, fault.Invalid("invalid from flag value %s: the stage needs to be defined before", from)
	}
	if _, err := image.ParseLookup(from); err != nil {
		return Origin{}, fault.Invalid("invalid from flag value %s: %w", from, err)
	}
	return Origin{Image: from}, nil
}

// Needs returns the stages that must be there before an instruction of s is carried out. Errors are fault.Invalid.
func (p *Plan) Needs(s *Stage, cmd instructions.Command) ([]*Stage, error) {
	var found []*Stage
	for _, from := range fromFlags(cmd) {
		origin, err := p.From(s, from)
		if err != nil {
			return nil, err
		}
		if origin.Stage != nil && !slices.Contains(found, origin.Stage) {
			found = append(found, origin.Stage)
		}
	}
	return found, nil
}

// fromFlags returns the values of all --from of an instruction.
func fromFlags(cmd instructions.Command) []string {
	switch c := cmd.(type) {
	case *instructions.CopyCommand:
		if c.From != "" {
			return []string{c.From}
		}
	case *instructions.RunCommand:
		var found []string
		for _, mount := range instructions.GetMounts(c) {
			if mount.From != "" {
				found = append(found, mount.From)
			}
		}
		return found
	}
	return nil
}

// findNeeded finds what the target needs. All stages are looked at, so that a mistake does not wait for its target.
func (p *Plan) findNeeded() error {
	needs := make([][]*Stage, len(p.File.Stages))
	for i, stage := range p.File.Stages {
		if base := p.bases[i].Stage; base != nil {
			needs[i] = append(needs[i], base)
		}
		for _, cmd := range stage.Commands {
			stages, err := p.Needs(stage, cmd)
			if err != nil {
				return p.File.faultIn(cmd, "%w", err)
			}
			needs[i] = append(needs[i], stages...)
		}
	}
	needed := make([]bool, len(p.File.Stages))
	needed[p.Target.Index] = true
	for i := p.Target.Index; i >= 0; i-- { // a stage needs earlier ones only
		if !needed[i] {
			continue
		}
		for _, stage := range needs[i] {
			needed[stage.Index] = true
		}
	}
	for i, stage := range p.File.Stages {
		if !needed[i] {
			continue
		}
		p.needed = append(p.needed, stage)
		if name := p.bases[i].Image; name != "" {
			if _, err := image.ParseLookup(name); err != nil {
				return stage.faultInFrom(p.File, "%w", err)
			}
		}
		for _, cmd := range stage.Commands {
			if err := carriedOut(cmd); err != nil {
				return fault.Unsupported("dockerfile line %d: %w%s", lineOf(cmd.Location()), err, p.File.quoteInstruction(cmd))
			}
			p.markDeclared(cmd)
		}
	}
	return nil
}

// faultIn returns an error of an instruction, and shows it.
func (f *File) faultIn(cmd instructions.Command, format string, args ...any) error {
	first := lineOf(cmd.Location())
	return f.src.faultAt(first, first+len(cmd.Location())-1, format, args...)
}

// quoteInstruction returns the lines of an instruction.
func (f *File) quoteInstruction(cmd instructions.Command) string {
	first := lineOf(cmd.Location())
	return f.src.quoteLines(first, first+len(cmd.Location())-1)
}

// markDeclared marks the build arguments of an ARG as declared.
func (p *Plan) markDeclared(cmd instructions.Command) {
	arg, ok := cmd.(*instructions.ArgCommand)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range arg.Args {
		p.declared[a.Key] = true
	}
}

// Triggers reads the ONBUILD instructions of the image that a stage is built on. They are to be carried out before the
// stage's own; Needs says what stages they take files from, which then are needed too. Errors are fault.Invalid, or
// fault.Unsupported as of Resolve.
func (p *Plan) Triggers(s *Stage, lines []string) ([]instructions.Command, error) {
	cmds := make([]instructions.Command, 0, len(lines))
	for _, text := range lines {
		cmd, err := s.parseTrigger(text)
		if err != nil {
			return nil, s.faultInFrom(p.File, "onbuild trigger %q: %w", text, err)
		}
		if err := carriedOut(cmd); err != nil {
			return nil, fault.Unsupported("onbuild trigger %q: %w", text, err)
		}
		if _, err := p.Needs(s, cmd); err != nil {
			return nil, s.faultInFrom(p.File, "onbuild trigger %q: %w", text, err)
		}
		p.markDeclared(cmd)
		cmds = append(cmds, cmd)
	}
	return cmds, nil
}

// parseTrigger reads an instruction that is not of the file. Its place is that of the stage's FROM.
func (s *Stage) parseTrigger(text string) (instructions.Command, error) {
	if err := source(text).checkLimits("the instruction"); err != nil {
		return nil, err
	}
	if !isText(text) {
		return nil, fault.Invalid("it is not text")
	}
	tree, err := parser.Parse(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	if len(tree.AST.Children) != 1 {
		return nil, fault.Invalid("onbuild trigger should be a single expression")
	}
	node := tree.AST.Children[0]
	switch word := strings.ToUpper(node.Value); word {
	case "ONBUILD":
		return nil, fault.Invalid("Chaining ONBUILD via `ONBUILD ONBUILD` isn't allowed")
	case "FROM", "MAINTAINER":
		return nil, fault.Invalid("%s isn't allowed as an ONBUILD trigger", word)
	}
	node.StartLine, node.EndLine = s.Line, s.Line+len(s.location)-1
	return instructions.ParseCommand(node)
}
