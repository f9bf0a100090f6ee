package build

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"

	"moss/engine/build/source"
	"moss/engine/dockerfile"
	"moss/engine/fault"
	"moss/engine/image"
)

// work is an instruction that is ready: what it depends on is known, and how to carry it out if that was not done before.
type work struct {
	state   dockerfile.State // after it
	text    string           // for the history
	content string           // digest of what it reads; empty: nothing that text does not tell
	unsaid  bool             // the history of an image from elsewhere does not tell whether it was this
	layer   layer            // makes the image; nil: only the config differs
}

// layer makes the image of a step that has a layer, and writes what there is to tell about it.
type layer func(ctx context.Context, spec image.Step, out *output) (*image.Image, error)

// runInstruction runs an instruction, or finds its image from before.
func (st *stage) runInstruction(ctx context.Context, cmd instructions.Command) (cached bool, err error) {
	warnings, err := st.scope.Expand(cmd, st.state.Config)
	if err != nil {
		return false, err
	}
	for _, w := range warnings {
		st.t.addText(formatWarning(w.String()))
	}
	needs, err := st.b.plan.Needs(st.def, cmd)
	if err != nil {
		return false, err
	}
	origins := map[int]*stage{}
	for _, def := range needs {
		if origins[def.Index], err = st.ensureStage(ctx, def); err != nil {
			return false, err
		}
	}
	select {
	case st.b.slots <- struct{}{}:
		defer func() { <-st.b.slots }()
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	w, err := st.readyInstruction(ctx, cmd, origins)
	if err != nil {
		return false, err
	}
	img, cached, err := st.obtainImage(ctx, w)
	if err != nil {
		return false, err
	}
	st.image, st.state = img, w.state
	return cached, nil
}

// readyInstruction gets an instruction ready: it finds out what it depends on.
func (st *stage) readyInstruction(ctx context.Context, cmd instructions.Command, origins map[int]*stage) (*work, error) {
	switch c := cmd.(type) {
	case *instructions.RunCommand:
		return st.readyRun(ctx, c, origins)
	case *instructions.CopyCommand:
		return st.readyCopy(ctx, c, origins)
	case *instructions.AddCommand:
		return st.readyAdd(ctx, c)
	}
	next, err := st.state.Edit(cmd)
	if err != nil {
		return nil, err
	}
	w := &work{state: next, text: next.Describe(cmd)}
	if c, ok := cmd.(*instructions.WorkdirCommand); ok {
		w.layer = st.b.workdirLayer(c.Path, next.Config, st.image)
	}
	return w, nil
}

// specOf is the image that a work makes.
func (st *stage) specOf(w *work) image.Step {
	spec := st.spec
	if st.image != nil {
		spec.Parent = st.image.ID
	}
	spec.Config, spec.Author, spec.CreatedBy = w.state.Config, w.state.Author, w.text
	return spec
}

// tries bounds how often a step is begun anew because its image is removed as soon as it is there.
const tries = 5

// obtainImage returns the image of a work: one that was made before, one that another build is about to make, or a new one.
func (st *stage) obtainImage(ctx context.Context, w *work) (img *image.Image, cached bool, err error) {
	b, spec := st.b, st.specOf(w)
	if spec.Key, err = keyOf(spec, w.content); err != nil {
		return nil, false, err
	}
	if at, ok := b.plan.Epoch(); ok {
		spec.Key = fmt.Sprintf("%s-%d", spec.Key, at.Unix())
	}
	if img, err = st.findCached(ctx, w, spec); img != nil || err != nil {
		if img != nil {
			st.t.addText(" ---> Using cache\n")
		}
		return img, true, err
	}
	for range tries {
		img, cached, err = st.runOrJoin(ctx, w, spec)
		if !fault.Is(err, fault.NotFound) || img == nil {
			return img, cached, err
		}
	}
	return nil, false, err
}

// findCached returns the image of a step that was made before; nil if there is none that counts.
func (st *stage) findCached(ctx context.Context, w *work, spec image.Step) (*image.Image, error) {
	if st.b.req.NoCache {
		return nil, nil
	}
	imageID := st.b.s.cache.findStep(spec.Key)
	if st.b.sources == nil || st.b.sources.ancestors[imageID] {
		if img, err := st.b.holdIfStored(ctx, imageID); img != nil || err != nil {
			return img, err
		}
	}
	if w.unsaid {
		return nil, nil
	}
	return st.b.fromPast(ctx, spec, st.image)
}

// runOrJoin carries a work out, or waits for another build that does. The error is fault.NotFound, with the image, if that was
// removed meanwhile.
func (st *stage) runOrJoin(ctx context.Context, w *work, spec image.Step) (*image.Image, bool, error) {
	b := st.b
	key := spec.Key + b.limits + b.private
	known := func() string {
		if b.private != "" {
			return ""
		}
		return b.s.cache.findStep(spec.Key)
	}
	below := st.image
	do := func(ctx context.Context, out *output) (*image.Image, error) {
		return b.makeImage(ctx, out, w, spec, below)
	}
	fl, imageID := b.s.flights.joinOrStart(b.s.life, key, known, b.retainBuild, do) //nolint:contextcheck // others may wait for it too
	if fl == nil {
		img, err := b.holdIfStored(ctx, imageID)
		if img == nil && err == nil {
			return &image.Image{ID: imageID}, false, image.NoSuch(imageID)
		}
		st.t.addText(" ---> Using cache\n")
		return img, true, err
	}
	st.t.addOutput(fl.output, func() { b.s.flights.releaseReader(fl) })
	made, err := b.s.flights.waitForResult(ctx, key, fl)
	if err != nil {
		return nil, false, err
	}
	img, err := b.holdImage(ctx, made.ID)
	if err != nil {
		return made, false, err
	}
	return img, false, nil
}

// makeImage makes the image of a step and puts it into the cache.
func (b *build) makeImage(ctx context.Context, out *output, w *work, spec image.Step, below *image.Image) (*image.Image, error) {
	spec.Created = b.creationTime()
	spec.ContainerConfig = stepConfig(spec) // of a RUN that of its container takes its place
	var (
		img *image.Image
		err error
	)
	if w.layer == nil {
		img, err = b.s.opt.Steps.PutStep(ctx, spec, nil)
	} else {
		img, err = w.layer(ctx, spec, out)
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		return nil, err
	}
	built := image.Built{
		ID: img.ID, Parent: spec.Parent, Key: spec.Key, CreatedBy: spec.CreatedBy, Created: spec.Created, Size: img.Size,
	}
	if below != nil {
		built.Size = max(0, img.Size-below.Size)
	}
	b.s.cache.addStep(built)
	return img, nil
}

// stepConfig is what an image of a step without a container shows as its container's configuration: the step's own, with a
// command that does nothing and names the instruction as the history does.
func stepConfig(spec image.Step) json.RawMessage {
	config := spec.Config
	config.Cmd = []string{"/bin/sh", "-c", strings.TrimPrefix(spec.CreatedBy, "/bin/sh -c ")}
	shown, err := json.Marshal(config)
	if err != nil {
		return nil // it is made of strings
	}
	return shown
}

// layerPiece is how much of a layer goes from who writes it to who stores it at once, in bytes.
const layerPiece = 256 << 10

// putLayer makes the image of a step whose layer write writes.
func (b *build) putLayer(
	ctx context.Context, spec image.Step, write func(ctx context.Context, w io.Writer) error,
) (*image.Image, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		buf := bufio.NewWriterSize(w, layerPiece)
		err := write(ctx, buf)
		if err == nil {
			err = buf.Flush()
		}
		_ = w.CloseWithError(err) // nil is the end of the archive
		done <- err
	}()
	img, err := b.s.opt.Steps.PutStep(ctx, spec, r)
	_ = r.CloseWithError(errUnread) // nil
	if err != nil {
		cancel(err)
	}
	written := <-done
	if err != nil && written != nil && !errors.Is(written, errUnread) {
		return nil, written // that is what could not be read
	}
	return img, err
}

// errUnread is what a layer's writer gets when nobody reads it any more.
var errUnread = errors.New("the layer is not read any more")

// openFiles opens the files of an image; nil for none. The caller calls free.
func (b *build) openFiles(ctx context.Context, below *image.Image) (files source.Source, free func(), err error) {
	if below == nil {
		return nil, func() {}, nil
	}
	view, err := b.s.opt.Images.Open(ctx, below.ID)
	if err != nil {
		return nil, nil, fmt.Errorf("open the files of %s: %w", below.ID, err)
	}
	return source.Rooted(view.Root), func() {
		if err := view.Close(); err != nil {
			b.s.opt.Log.Warn().Err(err).Str("image", below.ID).Msg("close the files of an image")
		}
	}, nil
}
