package dockerfile

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/util/suggest"

	"moss/engine/fault"
	"moss/engine/image"
)

// epochArg names the argument that says when everything was made, in seconds since 1970.
const epochArg = "SOURCE_DATE_EPOCH"

// proxyArgs returns the arguments that every RUN gets without an ARG. They count neither for the history nor for the cache.
func proxyArgs() []string {
	return []string{
		"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "FTP_PROXY", "ftp_proxy", "NO_PROXY", "no_proxy",
		"ALL_PROXY", "all_proxy",
	}
}

// isKnown returns whether an argument means something without being declared.
func isKnown(name string) bool {
	switch name {
	case epochArg, "BUILDKIT_SYNTAX", "BUILDKIT_DOCKERFILE_CHECK", "BUILDKIT_SANDBOX_HOSTNAME":
		return true
	}
	return slices.Contains(proxyArgs(), name) || isPlatformArg(name)
}

func isPlatformArg(name string) bool {
	for _, side := range []string{"BUILD", "TARGET"} {
		switch strings.TrimPrefix(name, side) {
		case "PLATFORM", "OS", "ARCH", "VARIANT":
			return strings.HasPrefix(name, side)
		}
	}
	return name == "TARGETSTAGE"
}

// variables are names with values, in the order in which they came. The zero value has none.
type variables struct {
	names  []string
	values map[string]string
}

// Get returns the value of a variable.
func (v *variables) Get(name string) (string, bool) {
	value, ok := v.values[name]
	return value, ok
}

// Keys returns the names.
func (v *variables) Keys() []string { return v.names }

func (v *variables) setVariable(name, value string) {
	if v.values == nil {
		v.values = map[string]string{}
	}
	if _, ok := v.values[name]; !ok {
		v.names = append(v.names, name)
	}
	v.values[name] = value
}

func (v *variables) clone() *variables {
	return &variables{names: slices.Clone(v.names), values: maps.Clone(v.values)}
}

// platformArgs returns what is known of the platforms without being said, in a fixed order.
func platformArgs(opts ResolveOptions, target *Stage) [][2]string {
	stage := target.Name
	if stage == "" {
		stage = "default"
	}
	args := append(make([][2]string, 0, 9), [2]string{"TARGETSTAGE", stage})
	for _, side := range []struct {
		name string
		image.Platform
	}{{"BUILD", opts.BuildPlatform}, {"TARGET", opts.Platform}} {
		args = append(args, [2]string{side.name + "PLATFORM", side.String()}, [2]string{side.name + "OS", side.OS},
			[2]string{side.name + "ARCH", side.Architecture}, [2]string{side.name + "VARIANT", side.Variant})
	}
	return args
}

// readGlobals reads the ARGs before the first FROM.
func (p *Plan) readGlobals(opts ResolveOptions, findings *findings) error {
	p.global = &variables{}
	for _, arg := range platformArgs(opts, p.Target) {
		if v, ok := p.args[arg[0]]; ok {
			arg[1] = v
		}
		p.global.setVariable(arg[0], arg[1])
	}
	defaults := p.global.clone()
	if err := p.File.addGlobals(defaults, nil); err == nil {
		p.lintDefaults(defaults, findings)
	}
	if err := p.File.addGlobals(p.global, p.args); err != nil {
		return err
	}
	for _, cmd := range p.File.MetaArgs {
		p.markDeclared(cmd)
	}
	if text := p.epochText(); text != "" {
		if _, err := strconv.ParseInt(text, 10, 64); err != nil {
			return fault.Invalid("invalid %s: %q is not a number of seconds", epochArg, text)
		}
	}
	return nil
}

// addGlobals adds the ARGs before the first FROM to into, with the values that were given or else their defaults.
func (f *File) addGlobals(into *variables, given map[string]string) error {
	for _, cmd := range f.MetaArgs {
		for _, arg := range cmd.Args {
			if v, ok := given[arg.Key]; ok {
				into.setVariable(arg.Key, v)
				continue
			}
			if arg.Value == nil {
				continue
			}
			v, err := newExpander(f.Escape, into).expandWord(*arg.Value)
			if err != nil {
				return f.faultIn(cmd, "%w", err)
			}
			into.setVariable(arg.Key, v)
		}
	}
	return nil
}

// lintDefaults reports base images that have no name unless arguments are given.
func (p *Plan) lintDefaults(defaults *variables, findings *findings) {
	for _, stage := range p.File.Stages {
		name, err := newExpander(p.File.Escape, defaults).expandWord(stage.From)
		if err != nil {
			return
		}
		if _, err := image.ParseLookup(name); err != nil {
			findings.linterFor(stage.comments).Run(&linter.RuleInvalidDefaultArgInFrom, stage.location,
				linter.RuleInvalidDefaultArgInFrom.Format(stage.From))
		}
	}
}

// readFrom puts the global arguments into a FROM.
func (p *Plan) readFrom(stage *Stage, findings *findings) error {
	lint := findings.linterFor(stage.comments)
	name, _, err := p.expandFrom(stage, stage.From, lint)
	if err != nil {
		return stage.faultInFrom(p.File, "%w", err)
	}
	if name == "" {
		return stage.faultInFrom(p.File, "base name (%s) should not be blank", stage.From)
	}
	origin := Origin{Image: name}
	if base := p.File.findStage(name, stage.Index); base != nil {
		origin = Origin{Stage: base}
	} else if name == scratch {
		origin = Origin{}
	}
	platform := p.platform
	if stage.Platform != "" {
		text, used, err := p.expandFrom(stage, stage.Platform, lint)
		if err != nil {
			return stage.faultInFrom(p.File, "failed to process arguments for platform %s: %w", stage.Platform, err)
		}
		if text == "" {
			return stage.faultInFrom(p.File, "empty platform value from expression %s", stage.Platform)
		}
		if platform, err = image.ParsePlatform(text); err != nil {
			return stage.faultInFrom(p.File, "failed to parse platform %s: %w", stage.Platform, err)
		}
		p.lintPlatform(stage, text, used, lint)
	}
	p.bases, p.images = append(p.bases, origin), append(p.images, platform)
	return nil
}

// expandFrom puts arguments into a word of FROM. It returns the names that had a value, and the others.
func (p *Plan) expandFrom(stage *Stage, word string, lint *linter.Linter) (string, matches, error) {
	e := newExpander(p.File.Escape, p.global)
	text, err := e.expandWord(word)
	if len(e.unmatched) == 0 {
		return text, e.matches, err
	}
	known := slices.Clone(p.global.Keys())
	for _, cmd := range p.File.MetaArgs {
		for _, arg := range cmd.Args {
			known = append(known, arg.Key)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.unmatched)) {
		if !slices.Contains(known, name) {
			nearest, _ := suggest.Search(name, known, true)
			lint.Run(&linter.RuleUndefinedArgInFrom, stage.location, linter.RuleUndefinedArgInFrom.Format(name, nearest))
		}
	}
	return text, e.matches, err
}

func (p *Plan) lintPlatform(stage *Stage, platform string, used matches, lint *linter.Linter) {
	const target = "TARGETPLATFORM"
	_, named := used.matched[target]
	switch {
	case len(used.matched)+len(used.unmatched) == 0:
		if os, arch, _ := strings.Cut(platform, "/"); !strings.Contains(stage.Name, os) &&
			(arch == "" || !strings.Contains(stage.Name, arch)) {
			lint.Run(&linter.RuleFromPlatformFlagConstDisallowed, stage.location,
				linter.RuleFromPlatformFlagConstDisallowed.Format(platform))
		}
	case named && len(used.matched) == 1 && len(used.unmatched) == 0:
		if v, _ := p.global.Get(target); v == platform {
			lint.Run(&linter.RuleRedundantTargetPlatform, stage.location,
				linter.RuleRedundantTargetPlatform.Format(stage.Platform))
		}
	}
}
