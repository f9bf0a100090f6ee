package dockerfile

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/util/suggest"

	"moss/engine/fault"
	"moss/engine/image"
)

// Scope is what variables mean within a stage. It is for one goroutine.
type Scope struct {
	plan       *Plan
	stage      *Stage
	args       *variables      // declared arguments with a value
	declared   map[string]bool // declared arguments
	workdirSet bool            // by a WORKDIR of this file
	findings   *findings
}

// Scope returns a new environment for a stage that is about to begin. base is that of the stage it is built on, after its
// last instruction: what it declares goes on to be declared. nil: the stage is built on an image.
func (p *Plan) Scope(stage *Stage, base *Scope) *Scope {
	s := &Scope{plan: p, stage: stage, args: &variables{}, declared: map[string]bool{}, findings: newFindings(p.File.check)}
	if base != nil {
		s.args, s.declared, s.workdirSet = base.args.clone(), maps.Clone(base.declared), base.workdirSet
	}
	return s
}

// Expand puts the values of variables into an instruction, in place, and notes what ARG declares; c is the config that the
// instruction is about to work on. It is called once for each instruction of the stage, in order, whether or not the
// instruction's outcome is known already. It returns what the linter finds. Errors are fault.Invalid and show the line.
func (s *Scope) Expand(cmd instructions.Command, c image.Config) ([]Warning, error) {
	s.findings.list = nil
	lint := s.findings.linterFor(cmd.Comments())
	env := &environment{scope: s, env: c.Env}
	if err := s.expandInstruction(cmd, env, lint); err != nil {
		if lineOf(cmd.Location()) == 0 { // it is not of the file: Labels
			return nil, s.stage.faultInFrom(s.plan.File, "%s: %w", Text(cmd), err)
		}
		return nil, s.plan.File.faultIn(cmd, "%w", err)
	}
	s.lintInstruction(cmd, c, lint)
	return s.findings.list, s.findings.err()
}

// expandInstruction puts the values of variables into an instruction, in place, and reports names that no ARG declares.
func (s *Scope) expandInstruction(cmd instructions.Command, env *environment, lint *linter.Linter) error {
	e := newExpander(s.plan.File.Escape, env)
	var err error
	if arg, ok := cmd.(*instructions.ArgCommand); ok {
		err = s.declareArgs(arg, e)
	} else {
		err = expandWords(cmd, e)
	}
	if err != nil {
		return err
	}
	if s.plan.grown.Add(int64(e.grown)) > maxGrown {
		return fault.Invalid("variables add more than %d bytes to the instructions of the build", maxGrown)
	}
	for _, name := range slices.Sorted(maps.Keys(e.unmatched)) {
		if !s.declared[name] {
			nearest, _ := suggest.Search(name, env.Keys(), true)
			lint.Run(&linter.RuleUndefinedVar, cmd.Location(), linter.RuleUndefinedVar.Format(name, nearest))
		}
	}
	return nil
}

// expandWords puts variables into the words of an instruction, and into the texts that stand in the file.
func expandWords(cmd instructions.Command, e *expander) error {
	if c, ok := cmd.(*instructions.ExposeCommand); ok {
		var ports []string // the one instruction in which a variable may be several words
		for _, port := range c.Ports {
			words, err := e.expandAndSplit(port)
			if err != nil {
				return err
			}
			ports = append(ports, words...)
		}
		c.Ports = ports
	}
	if c, ok := cmd.(instructions.SupportsSingleWordExpansion); ok {
		if err := c.Expand(e.expandWord); err != nil {
			return err
		}
	}
	if c, ok := cmd.(instructions.SupportsSingleWordExpansionRaw); ok {
		raw := newExpander('\\', e.env) // whatever the file's escape is: as a shell does in a here-document
		raw.lex.SkipProcessQuotes = true
		if err := c.ExpandRaw(raw.expandWord); err != nil {
			return err
		}
		maps.Copy(e.unmatched, raw.unmatched)
		e.grown += raw.grown
	}
	return nil
}

// declareArgs declares the names of an ARG. A value that was given comes before the ARG's own value, which comes before a
// global one.
func (s *Scope) declareArgs(cmd *instructions.ArgCommand, e *expander) error {
	for _, arg := range cmd.Args {
		s.declared[arg.Key] = true
		if v, ok := s.plan.args[arg.Key]; ok {
			s.args.setVariable(arg.Key, v)
			continue
		}
		if arg.Value == nil {
			if v, ok := s.plan.global.Get(arg.Key); ok {
				s.args.setVariable(arg.Key, v)
			}
			continue
		}
		v, err := e.expandWord(*arg.Value)
		if err != nil {
			return err
		}
		s.args.setVariable(arg.Key, v)
	}
	return nil
}

// lintInstruction reports what can only be seen with the config at hand.
func (s *Scope) lintInstruction(cmd instructions.Command, c image.Config, lint *linter.Linter) {
	switch cmd := cmd.(type) {
	case *instructions.WorkdirCommand:
		if !s.workdirSet && !strings.HasPrefix(cmd.Path, "/") {
			lint.Run(&linter.RuleWorkdirRelativePath, cmd.Location(), linter.RuleWorkdirRelativePath.Format(cmd.Path))
		}
		s.workdirSet = true
	case *instructions.CmdCommand:
		lintShell(lint, cmd, cmd.ShellDependantCmdLine, c)
	case *instructions.EntrypointCommand:
		lintShell(lint, cmd, cmd.ShellDependantCmdLine, c)
	case *instructions.ExposeCommand:
		for _, port := range cmd.Ports {
			if port != strings.ToLower(port) {
				lint.Run(&linter.RuleExposeProtoCasing, cmd.Location(), linter.RuleExposeProtoCasing.Format(port))
			}
			if strings.Contains(port, ":") {
				lint.Run(&linter.RuleExposeInvalidFormat, cmd.Location(), linter.RuleExposeInvalidFormat.Format(port))
			}
		}
	}
}

func lintShell(lint *linter.Linter, cmd instructions.Command, l instructions.ShellDependantCmdLine, c image.Config) {
	if l.PrependShell && len(c.Shell) == 0 {
		lint.Run(&linter.RuleJSONArgsRecommended, cmd.Location(), linter.RuleJSONArgsRecommended.Format(cmd.Name()))
	}
}

// Environ returns the environment of a RUN: the config's, and the arguments that it does not hide.
func (s *Scope) Environ(c image.Config) []string {
	env := slices.Clone(c.Env)
	hidden := variableNames(c)
	for _, name := range s.args.names {
		if !hidden[name] {
			env = append(env, name+"="+s.args.values[name])
		}
	}
	for _, name := range proxyArgs() {
		if v, ok := s.plan.args[name]; ok && !hidden[name] && !s.declared[name] {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// Arguments returns the arguments in effect for a RUN (but for undeclared proxies), as NAME=value, sorted.
func (s *Scope) Arguments(c image.Config) []string {
	hidden := variableNames(c)
	var words []string
	for _, name := range s.args.names {
		if !hidden[name] {
			words = append(words, name+"="+s.args.values[name])
		}
	}
	slices.Sort(words)
	return words
}

// DescribeRun returns what the history says of a RUN: arguments in effect (but for undeclared proxies), flags, command.
func (s *Scope) DescribeRun(c image.Config, r Run) string {
	words := s.Arguments(c)
	if len(words) > 0 {
		words = append([]string{"|" + strconv.Itoa(len(words))}, words...)
	}
	if r.Flags != "" {
		words = append(words, r.Flags)
	}
	words = append(words, r.Args...)
	for _, f := range r.Files {
		words = append(words, f.contentDigest())
	}
	return strings.Join(words, " ")
}

// variableNames returns the names of a config's variables.
func variableNames(c image.Config) map[string]bool {
	found := make(map[string]bool, len(c.Env))
	for _, entry := range c.Env {
		if name, _, ok := strings.Cut(entry, "="); ok {
			found[name] = true
		}
	}
	return found
}

// environment is what an instruction sees: the config's variables, then arguments, then proxies.
type environment struct {
	scope *Scope
	env   []string // of the config; most instructions ask for none of it
}

// Get returns the value of a variable.
func (e *environment) Get(name string) (string, bool) {
	for _, entry := range slices.Backward(e.env) {
		if value, ok := strings.CutPrefix(entry, name); ok && strings.HasPrefix(value, "=") {
			return value[1:], true
		}
	}
	if v, ok := e.scope.args.Get(name); ok {
		return v, true
	}
	if slices.Contains(proxyArgs(), name) {
		v, ok := e.scope.plan.args[name]
		return v, ok
	}
	return "", false
}

// Keys returns the names of what has been declared.
func (e *environment) Keys() []string {
	keys := slices.Clone(e.scope.args.names)
	for _, entry := range e.env {
		name, _, _ := strings.Cut(entry, "=")
		keys = append(keys, name)
	}
	return keys
}
