package dockerfile

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"

	"moss/engine/fault"
	"moss/engine/image"
)

// ResolveOptions is what a build asks of a Dockerfile.
type ResolveOptions struct {
	Args          map[string]*string // build arguments; nil: declared without a value
	Target        string             // name or number of a stage; empty: the last
	Platform      image.Platform     // what is built for (TARGETPLATFORM), in its normal form; zero: BuildPlatform
	BuildPlatform image.Platform     // of this machine (BUILDPLATFORM); zero: image.ThisPlatform
}

// Origin is where FROM, COPY --from or RUN --mount=from take files from: a stage, or else an image. An Origin without
// both is scratch.
type Origin struct {
	Stage *Stage
	Image string
}

// Plan is a Dockerfile with the arguments of one build. It may be used by several goroutines.
type Plan struct {
	File   *File
	Target *Stage

	platform image.Platform
	args     map[string]string // build arguments that have a value
	given    []string          // names of all build arguments
	global   *variables        // what FROM sees
	bases    []Origin          // by stage
	images   []image.Platform  // platforms of the base images, by stage
	needed   []*Stage
	warnings []Warning
	grown    atomic.Int64 // bytes that variables have added to instructions

	mu       sync.Mutex // guards declared
	declared map[string]bool
}

// Resolve puts the arguments into FROM, looks the target up and finds what stages it needs. Errors are fault.Invalid, or
// fault.Unsupported for instructions of needed stages that moss does not carry out.
func (f *File) Resolve(opts ResolveOptions) (*Plan, error) {
	if opts.BuildPlatform == (image.Platform{}) {
		opts.BuildPlatform = image.ThisPlatform()
	}
	if opts.Platform == (image.Platform{}) {
		opts.Platform = opts.BuildPlatform
	}
	p := &Plan{
		File: f, platform: opts.Platform, args: map[string]string{}, declared: map[string]bool{},
		given: slices.Sorted(maps.Keys(opts.Args)),
	}
	for name, value := range opts.Args {
		if value == nil {
			continue
		}
		if !isText(*value) {
			return nil, fault.Invalid("build argument %s is not text", name)
		}
		p.args[name] = *value
	}
	target, err := f.findTarget(opts.Target)
	if err != nil {
		return nil, err
	}
	p.Target = target
	findings := newFindings(f.check)
	if err := p.readGlobals(opts, findings); err != nil {
		return nil, err
	}
	for _, stage := range f.Stages {
		if err := p.readFrom(stage, findings); err != nil {
			return nil, err
		}
	}
	if err := p.findNeeded(); err != nil {
		return nil, err
	}
	for _, stage := range p.needed {
		if err := p.Platform(stage).CheckUsable(); err != nil {
			return nil, stage.faultInFrom(f, "%w", err)
		}
	}
	slices.SortStableFunc(findings.list, func(a, b Warning) int { return a.Line - b.Line })
	p.warnings = findings.list
	return p, findings.err()
}

// findTarget finds the stage to build.
func (f *File) findTarget(name string) (*Stage, error) {
	if name == "" {
		return f.Stages[len(f.Stages)-1], nil
	}
	if stage := f.findStage(name, len(f.Stages)); stage != nil {
		return stage, nil
	}
	if number, err := strconv.Atoi(name); err == nil && number >= 0 && number < len(f.Stages) {
		return f.Stages[number], nil
	}
	return nil, fault.Invalid("failed to reach build target %s in Dockerfile", name)
}

// Needed returns the stages that the target needs and itself, in the order of the file.
func (p *Plan) Needed() []*Stage { return slices.Clone(p.needed) }

// Steps returns how many steps are shown: ARGs before the first FROM, and each FROM and instruction of needed stages.
func (p *Plan) Steps() int {
	steps := len(p.File.MetaArgs)
	for _, stage := range p.needed {
		steps += 1 + len(stage.Commands)
	}
	return steps
}

// Base returns what a stage is built on.
func (p *Plan) Base(s *Stage) Origin { return p.bases[s.Index] }

// Platform returns the platform of a stage's base image in its normal form: that of its FROM, or else that of ResolveOptions.
func (p *Plan) Platform(s *Stage) image.Platform { return p.images[s.Index] }

// Warnings returns what Resolve found, in addition to the file's.
func (p *Plan) Warnings() []Warning { return slices.Clone(p.warnings) }

// Unconsumed returns the names of build arguments that no ARG of a needed stage or a trigger declares, sorted.
func (p *Plan) Unconsumed() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.given), func(name string) bool { return p.declared[name] || isKnown(name) })
}

// Hostname returns what containers of RUN are to be called (BUILDKIT_SANDBOX_HOSTNAME); empty: it does not matter.
func (p *Plan) Hostname() string { return p.args["BUILDKIT_SANDBOX_HOSTNAME"] }

// Epoch returns the time that SOURCE_DATE_EPOCH gives to what is built, and whether there is one.
func (p *Plan) Epoch() (time.Time, bool) {
	seconds, err := strconv.ParseInt(p.epochText(), 10, 64)
	if err != nil { // there is none: a text that is no number has been refused
		return time.Time{}, false
	}
	return time.Unix(seconds, 0).UTC(), true
}

func (p *Plan) epochText() string {
	if v, ok := p.args[epochArg]; ok {
		return v
	}
	v, _ := p.global.Get(epochArg)
	return v
}

// Labels returns instructions that set labels, sorted by name, taking the texts as they are.
func Labels(labels map[string]string) []instructions.Command {
	cmds := make([]instructions.Command, 0, len(labels))
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		cmds = append(cmds, instructions.NewLabelCommand(name, labels[name], true))
	}
	return cmds
}
