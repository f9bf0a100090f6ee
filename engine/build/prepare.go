package build

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/moby/patternmatcher/ignorefile"

	"moss/engine/build/remote"
	"moss/engine/build/source"
	"moss/engine/container"
	"moss/engine/dockerfile"
	"moss/engine/fault"
	"moss/engine/id"
	"moss/engine/image"
)

// maxDockerfile bounds a Dockerfile and a .dockerignore, in bytes.
const maxDockerfile = 1 << 20

// The names of a Dockerfile, if the request has none.
const (
	defaultName   = "Dockerfile"
	lowerName     = "dockerfile" // in place of the default name, also of one that the request has
	secondName    = "Containerfile"
	ignoreName    = ".dockerignore"
	ignoreSuffix  = ".dockerignore"
	maxTags       = 128
	maxCacheFrom  = 64
	maxStageCount = 1000
)

// prepareBuild reads the context, reads the Dockerfile and checks all that can be checked before anything runs. The caller
// releases the build.
func (s *Service) prepareBuild(ctx context.Context, req Request) (_ *build, err error) {
	names, err := checkRequest(&req)
	if err != nil {
		return nil, err
	}
	platform, err := s.targetPlatform(req.Platform)
	if err != nil {
		return nil, err
	}
	b := &build{s: s, req: req, names: names, holders: 1, kept: map[string]bool{}}
	defer func() {
		if err != nil {
			b.release()
		}
	}()
	b.slots = make(chan struct{}, s.opt.Parallel)
	b.bases = newBases(b)
	if req.NoCache || len(req.CacheFrom) > 0 {
		b.private = id.New() // what others make does not count
	}
	if b.limits, err = limitsOf(req); err != nil {
		return nil, err
	}
	text, name, err := b.takeIn(ctx)
	if err != nil {
		return nil, err
	}
	file, err := dockerfile.Parse(text, dockerfile.ParseOptions{Name: name, Args: req.Args})
	if err != nil {
		return nil, err
	}
	if len(file.Stages) > maxStageCount {
		return nil, fault.Invalid("the Dockerfile has %d stages, more than %d", len(file.Stages), maxStageCount)
	}
	b.plan, err = file.Resolve(dockerfile.ResolveOptions{
		Args: req.Args, Target: req.Target, Platform: platform, BuildPlatform: s.opt.Platform,
	})
	if err != nil {
		return nil, err
	}
	b.addCleanup(s.opt.Runner.Hold(b.tree))
	b.layOut()
	return b, b.openSources(ctx)
}

// targetPlatform reads what a request builds for; nothing is this machine. fault.Invalid for what cannot be built here.
func (s *Service) targetPlatform(text string) (image.Platform, error) {
	if text == "" {
		return s.opt.Platform, nil
	}
	p, err := image.ParsePlatform(text)
	if err == nil {
		err = p.CheckUsable()
	}
	return p, err
}

// checkRequest reads what of a request is not the Dockerfile's, and returns the names of the result.
func checkRequest(req *Request) ([]string, error) {
	if len(req.Tags) > maxTags || len(req.CacheFrom) > maxCacheFrom {
		return nil, fault.Invalid("the build has %d names and %d images to take steps from, more than %d or %d",
			len(req.Tags), len(req.CacheFrom), maxTags, maxCacheFrom)
	}
	var names []string
	for _, tag := range req.Tags {
		ref, err := image.ParseRef(tag)
		if err != nil {
			return nil, err
		}
		if err := ref.CanName(); err != nil {
			return nil, err
		}
		if ref.Digest() != "" {
			return nil, fault.Invalid("invalid name %q: a build's result cannot be named by a digest", tag)
		}
		if name := ref.Familiar(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if mode := req.Host.NetworkMode; mode == "host" {
		return nil, fault.Unsupported("network mode host: steps of builds never run in the host's network; use default, none, a " +
			"network or container:NAME")
	}
	// Each container is checked with its own settings when it is made: this is for what no step would ever tell of, or late.
	_, _, err := container.NewSpec(container.Config{Image: "build", Cmd: []string{"build"}}, req.Host, nil, image.Config{})
	return names, err
}

// limitsOf is the digest of what containers of the steps get that their key does not tell.
func limitsOf(req Request) (string, error) {
	host, err := json.Marshal(req.Host)
	if err != nil {
		return "", fmt.Errorf("write the limits of a build: %w", err)
	}
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%s %t %t\n", host, req.Remove, req.ForceRemove)
	for _, name := range slices.Sorted(maps.Keys(req.Args)) {
		if value := req.Args[name]; value != nil && strings.HasSuffix(strings.ToLower(name), "_proxy") {
			_, _ = fmt.Fprintf(h, "%q %q\n", name, *value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(req.Secrets)) {
		_, _ = fmt.Fprintf(h, "%q %q\n", name, string(req.Secrets[name]))
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// sourceOptions say where what a build reads from elsewhere is kept.
func (b *build) sourceOptions() source.Options {
	return source.Options{Dir: b.s.opt.spoolDir(), Room: b.s.opt.Images.Room}
}

// takeIn reads the context and finds the Dockerfile in it.
func (b *build) takeIn(ctx context.Context) (text []byte, name string, err error) {
	if b.req.Remote != "" {
		from, err := remote.Context(ctx, b.req.Remote, remote.Options{Source: b.sourceOptions(), UserAgent: b.s.opt.UserAgent})
		if err != nil {
			return nil, "", err
		}
		b.addCleanup(from.Tree.Close)
		if from.Dockerfile == nil {
			return b.readDockerfile(ctx, from.Tree)
		}
		// It is all that there is to copy.
		b.tree, err = source.FromReader(ctx, defaultName, bytes.NewReader(from.Dockerfile), 0o644, time.Unix(0, 0), b.sourceOptions())
		if err != nil {
			return nil, "", fmt.Errorf("keep the Dockerfile: %w", err)
		}
		b.addCleanup(b.tree.Close)
		return from.Dockerfile, defaultName, nil
	}
	src := b.req.Context
	if src == nil {
		src = bytes.NewReader(nil)
	}
	tree, err := source.Intake(ctx, src, b.sourceOptions())
	if err != nil {
		return nil, "", err
	}
	b.addCleanup(tree.Close)
	return b.readDockerfile(ctx, tree)
}

// readDockerfile finds the Dockerfile, and leaves out of the context what its ignore file names: <Dockerfile>.dockerignore,
// or else .dockerignore.
func (b *build) readDockerfile(ctx context.Context, tree *source.Tree) (text []byte, name string, err error) {
	names := []string{b.req.Dockerfile}
	switch b.req.Dockerfile {
	case "":
		names = []string{defaultName, lowerName, secondName}
	case defaultName:
		names = []string{defaultName, lowerName}
	}
	for _, name = range names {
		text, err = tree.ReadFile(ctx, name, maxDockerfile)
		if !fault.Is(err, fault.NotFound) {
			break
		}
	}
	switch {
	case fault.Is(err, fault.NotFound):
		return nil, "", fault.Invalid("Cannot locate specified Dockerfile: %s", names[0])
	case err != nil:
		return nil, "", fmt.Errorf("read the Dockerfile: %w", err)
	case len(bytes.TrimSpace(text)) == 0:
		return nil, "", fault.Invalid("the Dockerfile (%s) cannot be empty", name)
	}
	b.tree, err = withoutIgnored(ctx, tree, strings.TrimPrefix(name, "/"))
	return text, name, err
}

// withoutIgnored returns the context as instructions see it.
func withoutIgnored(ctx context.Context, tree *source.Tree, name string) (*source.Tree, error) {
	for _, file := range []string{name + ignoreSuffix, ignoreName} {
		text, err := tree.ReadFile(ctx, file, maxDockerfile)
		switch {
		case fault.Is(err, fault.NotFound):
			continue
		case err != nil:
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		patterns, err := ignorefile.ReadAll(bytes.NewReader(text))
		if err != nil {
			return nil, fault.Invalid("read %s: %w", file, err)
		}
		return tree.Without(patterns)
	}
	return tree, nil
}

// layOut makes the stages that are needed, and gives their steps numbers.
func (b *build) layOut() {
	file := b.plan.File
	b.stages = make([]*stage, len(file.Stages))
	b.console = newConsole(len(file.Stages), b.req.Steps)
	next, total := 1+len(file.MetaArgs), b.plan.Steps()
	for _, def := range b.plan.Needed() {
		st := newStage(b, def, b.console.stages[def.Index])
		if def == b.plan.Target {
			st.labels = dockerfile.Labels(b.req.Labels)
			total += len(st.labels)
		}
		st.first, next = next, next+1+len(def.Commands)
		b.stages[def.Index] = st
	}
	for _, st := range b.stages {
		if st != nil {
			st.total = total
		}
	}
	b.writePreface()
}

// writePreface writes the lines that come before the first stage.
func (b *build) writePreface() {
	t := b.console.stages[b.plan.Needed()[0].Index]
	for _, w := range slices.Concat(b.plan.File.Warnings, b.plan.Warnings()) {
		t.addText(formatWarning(w.String()))
	}
	for i, arg := range b.plan.File.MetaArgs {
		t.addText(fmt.Sprintf("Step %d/%d : %s\n", i+1, b.stages[b.plan.Target.Index].total, dockerfile.Text(arg)))
	}
}

// openSources finds the images whose steps count as done. One that is not here is passed over, as it is before the first
// build anywhere.
func (b *build) openSources(ctx context.Context) error {
	if len(b.req.CacheFrom) == 0 || b.req.NoCache {
		return nil
	}
	b.sources = &pastSources{ancestors: map[string]bool{}}
	for _, ref := range b.req.CacheFrom {
		img, err := b.s.opt.Images.Get(ctx, ref)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err == nil {
			img, err = b.holdImage(ctx, img.ID)
		}
		if err != nil {
			return fmt.Errorf("look at the image %s to take steps from: %w", ref, err)
		}
		past, err := b.s.opt.Images.Past(ctx, img.ID)
		if err != nil {
			return fmt.Errorf("look at the image %s to take steps from: %w", ref, err)
		}
		b.s.cache.addAncestors(img, b.sources.ancestors)
		b.sources.images = append(b.sources.images, pastSource{img, past})
	}
	return nil
}

func formatWarning(text string) string { return "[Warning] " + text + "\n" }

func formatUnconsumed(names []string) string {
	return fmt.Sprintf("[Warning] One or more build-args %v were not consumed\n", names)
}
