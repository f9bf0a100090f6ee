package dockerfile

import (
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"

	"moss/engine/fault"
	"moss/engine/image"
)

// maxChange bounds one instruction, in bytes.
const maxChange = 64 << 10

// Apply changes a config as build instructions say, the way import and commit take them: CMD, ENTRYPOINT, ENV, EXPOSE,
// LABEL, USER, VOLUME, WORKDIR, STOPSIGNAL, ONBUILD, HEALTHCHECK and SHELL (API document 2, 4.2: commit, changes). It
// returns the new config and leaves c alone. Variables that ENV sets come first, in its order, as clients of these versions
// expect. Errors are fault.Invalid and name the instruction.
func Apply(c image.Config, changes []string) (image.Config, error) {
	s := State{Config: cloneConfig(c)}
	var set []string
	for _, change := range changes {
		for line := range strings.Lines(change) {
			line = strings.TrimSpace(line)
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			if len(line) > maxChange-1 {
				return image.Config{}, fault.Invalid("a change has %d bytes, more than %d", len(line), maxChange-1)
			}
			if !isText(line) {
				return image.Config{}, fault.Invalid("a change is not text: %q", line)
			}
			if strings.Count(line, "${") > maxVariables {
				return image.Config{}, fault.Invalid("a change has more than %d variables", maxVariables)
			}
			names, err := s.applyLine(line)
			if err != nil {
				return image.Config{}, err
			}
			set = append(set, names...)
		}
	}
	s.Config.Env = image.EnvFirst(s.Config.Env, set)
	return s.Config, nil
}

// applyLine applies one line to the config. It returns the names of variables that it sets.
func (s *State) applyLine(line string) (set []string, err error) {
	name := strings.ToUpper(strings.Fields(line)[0])
	switch name {
	case "CMD", "ENTRYPOINT", "ENV", "EXPOSE", "LABEL", "USER", "VOLUME", "WORKDIR", "STOPSIGNAL", "ONBUILD", "HEALTHCHECK",
		"SHELL":
	default:
		return nil, fault.Invalid("%s is not a valid change command", name)
	}
	cmd, err := parseChange(line)
	if err == nil {
		err = s.expandAndEdit(cmd)
	}
	if err != nil {
		if strings.HasPrefix(err.Error(), name) {
			return nil, fault.Invalid("%w", err)
		}
		return nil, fault.Invalid("%s: %w", name, err)
	}
	if env, ok := cmd.(*instructions.EnvCommand); ok {
		for _, pair := range env.Env {
			set = append(set, pair.Key)
		}
	}
	return set, nil
}

func parseChange(line string) (instructions.Command, error) {
	tree, err := parser.Parse(strings.NewReader(line))
	if err != nil {
		return nil, err
	}
	return instructions.ParseCommand(tree.AST.Children[0])
}

// expandAndEdit expands an instruction with the config's own variables and applies it to the config.
func (s *State) expandAndEdit(cmd instructions.Command) error {
	env := &variables{}
	for _, entry := range s.Config.Env {
		if name, value, ok := strings.Cut(entry, "="); ok {
			env.setVariable(name, value)
		}
	}
	if err := expandWords(cmd, newExpander('\\', env)); err != nil {
		return err
	}
	next, err := s.Edit(cmd)
	if err != nil {
		return err
	}
	*s = next
	return nil
}
