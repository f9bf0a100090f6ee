package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path"
	"sync"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/opencontainers/go-digest"

	"moss/engine/build/copying"
	"moss/engine/build/remote"
	"moss/engine/build/source"
	"moss/engine/fault"
	"moss/engine/image"
)

// readyCopy gets a COPY ready.
func (st *stage) readyCopy(ctx context.Context, c *instructions.CopyCommand, origins map[int]*stage) (*work, error) {
	req := copying.Request{
		Dest: c.DestPath, WorkDir: st.state.Config.WorkingDir, Chown: c.Chown, Chmod: c.Chmod, Link: c.Link, Parents: c.Parents,
		Exclude: c.ExcludePatterns,
	}
	memo := ""
	from, origin := (*image.Image)(nil), copying.FromContext
	if c.From != "" {
		var err error
		if from, err = st.resolveOrigin(ctx, c.From, origins); err != nil {
			return nil, err
		}
		origin = copying.FromImage
		if from != nil {
			memo = fmt.Sprintf("%s %q %#v", from.ID, c.SourcePaths, req) // no pointer is in there
		}
	}
	find := func(ctx context.Context) (*copying.Plan, error) {
		req := req
		files := source.Source(st.b.tree)
		if origin == copying.FromImage {
			var err error
			if files, err = st.b.filesOf(ctx, from); err != nil {
				return nil, err
			}
		}
		for _, p := range c.SourcePaths {
			req.Items = append(req.Items, copying.Item{Source: files, Origin: origin, Path: p})
		}
		req.Items = append(req.Items, st.b.inlineItems(c.SourceContents)...)
		return st.b.planCopy(ctx, req)
	}
	if len(c.SourceContents) > 0 {
		memo = ""
	}
	return st.readyCopyOrAdd(ctx, c, c.Link, memo, find)
}

// readyAdd gets an ADD ready. What it names elsewhere is fetched here, since what it holds is part of what the step depends on.
func (st *stage) readyAdd(ctx context.Context, c *instructions.AddCommand) (*work, error) {
	req := copying.Request{
		Add: true, Dest: c.DestPath, WorkDir: st.state.Config.WorkingDir, Chown: c.Chown, Chmod: c.Chmod, Link: c.Link,
		Exclude: c.ExcludePatterns,
	}
	memo := ""
	if c.Checksum != "" {
		elsewhere := false
		if len(c.SourcePaths) == 1 && len(c.SourceContents) == 0 {
			kind, err := remote.KindOf(c.SourcePaths[0])
			if err != nil {
				return nil, fmt.Errorf("ADD failed: %w", err)
			}
			elsewhere = kind != remote.Local
		}
		if !elsewhere {
			return nil, fault.Invalid("ADD --checksum is for one source that is a URL or a git repository")
		}
		memo = fmt.Sprintf("%s %q %#v %t %t", c.Checksum, c.SourcePaths, req, c.KeepGitDir != nil && *c.KeepGitDir,
			c.Unpack != nil && *c.Unpack)
	}
	req.Unpack = c.Unpack
	find := func(ctx context.Context) (*copying.Plan, error) {
		req := req
		for _, p := range c.SourcePaths {
			item, err := st.b.openAddSource(ctx, c, p, st.t)
			if err != nil {
				return nil, fmt.Errorf("ADD failed: %w", err)
			}
			req.Items = append(req.Items, item)
		}
		req.Items = append(req.Items, st.b.inlineItems(c.SourceContents)...)
		return st.b.planCopy(ctx, req)
	}
	return st.readyCopyOrAdd(ctx, c, c.Link, memo, find)
}

// readyCopyOrAdd gets a COPY or an ADD ready. What a plan that find makes reads is remembered by memo, unless that is empty:
// the plan is then needed only if the step was not done before.
func (st *stage) readyCopyOrAdd(
	ctx context.Context, cmd instructions.Command, link bool, memo string, find func(context.Context) (*copying.Plan, error),
) (*work, error) {
	var plan *copying.Plan
	content := st.b.s.digests.getContent(memo)
	if content == "" {
		var err error
		if plan, err = find(ctx); err != nil {
			return nil, err
		}
		for _, pattern := range plan.Unmatched() {
			st.t.addText(formatWarning("nothing fits " + pattern))
		}
		kind, sum, err := plan.Digest(ctx)
		if err != nil {
			return nil, err
		}
		content = kind + ":" + sum
		st.b.s.digests.putContent(memo, content)
	}
	w := &work{state: st.state, text: st.state.DescribeCopy(cmd, content), content: content}
	below := st.image
	w.layer = func(ctx context.Context, spec image.Step, _ *output) (*image.Image, error) {
		if plan == nil {
			var err error
			if plan, err = find(ctx); err != nil {
				return nil, err
			}
		}
		return st.b.copyLayer(ctx, spec, plan, link, below)
	}
	return w, nil
}

// copyLayer makes the image of a COPY or an ADD.
func (b *build) copyLayer(
	ctx context.Context, spec image.Step, plan *copying.Plan, link bool, below *image.Image,
) (*image.Image, error) {
	if link {
		below = nil // its files are not looked at
	}
	files, free, err := b.openFiles(ctx, below)
	if err != nil {
		return nil, err
	}
	defer free()
	if err := b.s.opt.Images.Room(plan.Size()); err != nil {
		return nil, err
	}
	return b.putLayer(ctx, spec, func(ctx context.Context, w io.Writer) error { return plan.WriteLayer(ctx, files, w) })
}

// planCopy finds what a COPY or an ADD copies.
func (b *build) planCopy(ctx context.Context, req copying.Request) (*copying.Plan, error) {
	if at, ok := b.plan.Epoch(); ok {
		req.Created = at
	}
	return copying.NewPlan(ctx, req)
}

// filesOf returns the files of an image; nil has none. They stay open until the build is over.
func (b *build) filesOf(ctx context.Context, img *image.Image) (source.Source, error) {
	if img == nil {
		return source.Empty(), nil
	}
	files, free, err := b.openFiles(ctx, img)
	if err != nil {
		return nil, err
	}
	b.addCleanup(func() error { free(); return nil })
	return files, nil
}

// inlineItems returns the inline documents of a COPY or an ADD as items.
func (b *build) inlineItems(contents []instructions.SourceContent) []copying.Item {
	items := make([]copying.Item, 0, len(contents))
	for _, c := range contents {
		name := path.Base(path.Clean("/" + c.Path))
		items = append(items, copying.Item{
			Source: source.SingleFile(name, []byte(c.Data), 0o644, b.creationTime()), Origin: copying.FromInline, Path: name,
		})
	}
	return items
}

// openAddSource opens one source of an ADD, and fetches it if it is elsewhere. It stays until the build is over.
func (b *build) openAddSource(ctx context.Context, c *instructions.AddCommand, text string, t *transcript) (copying.Item, error) {
	opt := remote.Options{Source: b.sourceOptions(), UserAgent: b.s.opt.UserAgent}
	kind, err := remote.KindOf(text)
	if err != nil {
		return copying.Item{}, err
	}
	switch kind {
	case remote.Local:
		return copying.Item{Source: b.tree, Origin: copying.FromContext, Path: text}, nil
	case remote.HTTP:
		var want digest.Digest
		if c.Checksum != "" {
			if want, err = digest.Parse(c.Checksum); err != nil {
				return copying.Item{}, fault.Invalid("--checksum=%s: %w", c.Checksum, err)
			}
		}
		opt.Progress = func(current, total int64) {
			t.addProgress(image.Progress{ID: remote.Redacted(text), Status: "Downloading", Current: current, Total: total})
		}
		tree, name, err := remote.File(ctx, text, want, opt)
		if err != nil {
			return copying.Item{}, err
		}
		b.addCleanup(tree.Close)
		if name == "" {
			if dest := c.DestPath; dest == "" || dest[len(dest)-1] == '/' {
				return copying.Item{}, fault.Invalid("cannot determine filename for source %s", remote.Redacted(text))
			}
			name = "download"
		}
		return copying.Item{Source: tree, Origin: copying.FromDownload, Path: name}, nil
	case remote.Git:
		tree, err := remote.Repository(ctx, text, remote.GitOptions{Keep: c.KeepGitDir != nil && *c.KeepGitDir, Checksum: c.Checksum},
			opt)
		if err != nil {
			return copying.Item{}, err
		}
		b.addCleanup(tree.Close)
		return copying.Item{Source: tree, Origin: copying.FromGit, Path: "/"}, nil
	}
	return copying.Item{}, fault.Invalid("invalid source %q", text)
}

// digestsKept bounds digests.
const digestsKept = 4096

// digests remembers what was read of things that never change: images, and what has a checksum.
type digests struct {
	mu    sync.Mutex // guards known
	known map[string]string
}

func (d *digests) getContent(memo string) string {
	if memo == "" {
		return ""
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known[memoKey(memo)]
}

func (d *digests) putContent(memo, content string) {
	if memo == "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil || len(d.known) >= digestsKept {
		d.known = map[string]string{}
	}
	d.known[memoKey(memo)] = content
}

func memoKey(memo string) string {
	sum := sha256.Sum256([]byte(memo))
	return hex.EncodeToString(sum[:])
}
