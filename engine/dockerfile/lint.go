package dockerfile

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"

	"moss/engine/fault"
)

// Warning is something that is allowed but not advised.
type Warning struct {
	Rule string // as BuildKit names it
	Text string
	Line int // from 1; 0: none
}

// String words the warning: "Rule: text (line 3)".
func (w Warning) String() string { return linter.LintFormatShort(w.Rule, w.Text, w.Line) }

// findings collects what BuildKit's linter says.
type findings struct {
	linter *linter.Linter
	list   []Warning
}

func newFindings(check linter.Config) *findings {
	f := &findings{}
	check.Warn = func(rule, _, _, text string, location []parser.Range) {
		f.list = append(f.list, Warning{Rule: rule, Text: text, Line: lineOf(location)})
	}
	f.linter = linter.New(&check)
	return f
}

// reportRule adds a finding: text breaks a rule.
func (f *findings) reportRule(rule linter.LinterRuleI, location []parser.Range, text string) {
	f.linter.Run(rule, location, text)
}

// linterFor returns the linter for an instruction, whose comments may skip rules.
func (f *findings) linterFor(comments []string) *linter.Linter {
	return f.linter.WithMergedConfigFromComments(comments)
}

// err refuses the file if it wants findings to be errors and there are some. The error is fault.Invalid.
func (f *findings) err() error {
	if !f.linter.ReturnAsError || len(f.list) == 0 {
		return nil
	}
	rules := make([]string, 0, len(f.list))
	for _, w := range f.list {
		rules = append(rules, w.Rule)
	}
	slices.Sort(rules)
	return fault.Invalid("lint violation found for rules: %s\n%s", strings.Join(slices.Compact(rules), ", "), f.list[0])
}

// lintFile looks for what can be seen without knowing what the build is of.
func (f *File) lintFile(findings *findings) {
	f.lintNames(findings)
	f.lintCase(findings)
	for _, stage := range f.Stages {
		last := map[string]instructions.Command{}
		for _, cmd := range stage.Commands {
			lint := findings.linterFor(cmd.Comments())
			switch c := cmd.(type) {
			case *instructions.CmdCommand, *instructions.EntrypointCommand, *instructions.HealthCheckCommand:
				name := strings.ToLower(cmd.Name())
				if old := last[name]; old != nil {
					lint.Run(&linter.RuleMultipleInstructionsDisallowed, old.Location(),
						linter.RuleMultipleInstructionsDisallowed.Format(cmd.Name()))
				}
				last[name] = cmd
			case *instructions.EnvCommand:
				lintPairs(lint, c, c.Env)
				for _, pair := range c.Env {
					lintSecret(lint, "ENV", pair.Key, c)
				}
			case *instructions.LabelCommand:
				lintPairs(lint, c, c.Labels)
			case *instructions.ArgCommand:
				for _, arg := range c.Args {
					lintSecret(lint, "ARG", arg.Key, c)
				}
			}
		}
	}
}

func (f *File) lintNames(findings *findings) {
	seen := map[string]bool{}
	for _, stage := range f.Stages {
		if stage.Name == "" {
			continue
		}
		lint := findings.linterFor(stage.comments)
		if stage.Name == "scratch" || stage.Name == "context" {
			lint.Run(&linter.RuleReservedStageName, stage.location, linter.RuleReservedStageName.Format(stage.Name))
		}
		if seen[stage.Name] {
			lint.Run(&linter.RuleDuplicateStageName, stage.location, linter.RuleDuplicateStageName.Format(stage.Name))
		}
		seen[stage.Name] = true
	}
}

// lintCase reports instructions that are not in the letters of most of the others.
func (f *File) lintCase(findings *findings) {
	type word struct {
		text     string
		location []parser.Range
		comments []string
	}
	var words []word
	for _, stage := range f.Stages {
		words = append(words, word{stage.keyword, stage.location, stage.comments})
		for _, cmd := range stage.Commands {
			words = append(words, word{cmd.Name(), cmd.Location(), cmd.Comments()})
		}
	}
	balance := 0
	for _, w := range words {
		switch w.text {
		case strings.ToLower(w.text):
			balance--
		case strings.ToUpper(w.text):
			balance++
		}
	}
	for _, w := range words {
		right, letters := strings.ToUpper(w.text), "uppercase"
		if balance < 0 {
			right, letters = strings.ToLower(w.text), "lowercase"
		}
		if w.text != right {
			findings.linterFor(w.comments).Run(&linter.RuleConsistentInstructionCasing, w.location,
				linter.RuleConsistentInstructionCasing.Format(w.text, letters))
		}
	}
}

func lintPairs(lint *linter.Linter, cmd instructions.Command, pairs instructions.KeyValuePairs) {
	for _, pair := range pairs {
		if pair.NoDelim {
			lint.Run(&linter.RuleLegacyKeyValueFormat, cmd.Location(), linter.RuleLegacyKeyValueFormat.Format(cmd.Name()))
		}
	}
}

// The words in a name that make its value look like a secret, and those that say it is none.
//
//nolint:gochecknoglobals // constants
var (
	secretName = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(
			`(?i)(?:_|^)(?:apikey|auth|credential|credentials|key|password|pword|passwd|secret|token)(?:_|$)`)
	})
	openName = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)(?:_|^)(?:public|file|version)(?:_|$)`)
	})
)

func lintSecret(lint *linter.Linter, instruction, name string, cmd instructions.Command) {
	if secretName().MatchString(name) && !openName().MatchString(name) {
		lint.Run(&linter.RuleSecretsUsedInArgOrEnv, cmd.Location(), linter.RuleSecretsUsedInArgOrEnv.Format(instruction, name))
	}
}
