package build

import (
	"context"
	"fmt"
	"time"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"

	"moss/engine/dockerfile"
	"moss/engine/id"
	"moss/engine/image"
)

// stage is one stage of a build.
type stage struct {
	b      *build
	def    *dockerfile.Stage
	t      *transcript
	first  int                    // number of its FROM
	total  int                    // steps of the build
	labels []instructions.Command // of the request, after all others

	done chan struct{} // closed when the stage is carried out; the fields below hold then
	ok   bool

	// The fields below are of the goroutine that carries the stage out until done is closed.

	image *image.Image // of the latest step; nil: nothing yet (FROM scratch)
	state dockerfile.State
	scope *dockerfile.Scope
	spec  image.Step // what all steps have: platform
}

func newStage(b *build, def *dockerfile.Stage, t *transcript) *stage {
	return &stage{b: b, def: def, t: t, done: make(chan struct{})}
}

// carryOut makes the stage, step by step.
func (st *stage) carryOut(ctx context.Context) error {
	defer close(st.done)
	err := st.runNumbered(ctx, st.first, st.def.Code, func(ctx context.Context) (bool, error) { return false, st.beginFrom(ctx) })
	if err != nil {
		return err
	}
	for i, cmd := range append(append([]instructions.Command(nil), st.def.Commands...), st.labels...) {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		err := st.runNumbered(ctx, st.first+1+i, dockerfile.Text(cmd), func(ctx context.Context) (bool, error) {
			return st.runInstruction(ctx, cmd)
		})
		if err != nil {
			return err
		}
	}
	st.ok = true
	return nil
}

// runNumbered runs one instruction and reports its progress under its number.
func (st *stage) runNumbered(
	ctx context.Context, number int, text string, do func(context.Context) (cached bool, err error),
) error {
	st.t.addText(fmt.Sprintf("Step %d/%d : %s\n", number, st.total, text))
	told := Step{
		Stage: st.def.Index, StageName: st.def.Name, Number: number, Total: st.total, Instruction: text, State: StepStarted,
	}
	st.reportStep(told)
	began := time.Now()
	cached, err := do(ctx)
	told.Seconds = time.Since(began).Seconds()
	switch {
	case err != nil:
		told.State = StepFailed
	case cached:
		told.State = StepCached
	default:
		told.State = StepDone
	}
	if st.image != nil && err == nil {
		told.Image = st.image.ID
	}
	st.reportStep(told)
	if err == nil {
		st.t.addText(" ---> " + st.shortImageID() + "\n")
	}
	return err
}

// reportStep reports the state of a step to programs, if they have asked.
func (st *stage) reportStep(step Step) {
	if st.b.req.Steps {
		st.t.addAux(step)
	}
}

// shortImageID returns the short id of the latest step's image, as lines show it.
func (st *stage) shortImageID() string {
	if st.image == nil {
		return ""
	}
	return id.Short(st.image.ID)
}

// awaitEnd returns when the stage is carried out.
func (st *stage) awaitEnd(ctx context.Context) error {
	select {
	case <-st.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if !st.ok {
		<-ctx.Done() // its failure ends all others
		return context.Cause(ctx)
	}
	return nil
}

// ensureStage returns a stage that an instruction of st needs, once it is done. One that only a trigger of the base image names
// is carried out here and now.
func (st *stage) ensureStage(ctx context.Context, def *dockerfile.Stage) (*stage, error) {
	if other := st.b.stages[def.Index]; other != nil {
		return other, other.awaitEnd(ctx)
	}
	other, first := st.b.extraStage(def, st.t)
	if !first {
		return other, other.awaitEnd(ctx)
	}
	return other, other.carryOut(ctx)
}

// extraStage returns a stage that only triggers need, and whether it is new: who asks first carries it out.
func (b *build) extraStage(def *dockerfile.Stage, t *transcript) (st *stage, first bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if st = b.extra[def.Index]; st != nil {
		return st, false
	}
	st = newStage(b, def, t)
	st.first, st.total = 1, 1+len(def.Commands)
	if b.extra == nil {
		b.extra = map[int]*stage{}
	}
	b.extra[def.Index] = st
	return st, true
}

// beginFrom begins the stage: on top of another one, of an image, or of nothing.
func (st *stage) beginFrom(ctx context.Context) error {
	origin := st.b.plan.Base(st.def)
	platform := st.b.plan.Platform(st.def)
	var (
		config image.Config
		author string
		below  *dockerfile.Scope
	)
	switch {
	case origin.Stage != nil:
		other, err := st.ensureStage(ctx, origin.Stage)
		if err != nil {
			return err
		}
		st.image, below = other.image, other.scope
		config, author = other.state.Config, other.state.Author
	case origin.Image != "":
		img, err := st.b.bases.getImage(ctx, origin.Image, platform, st.t)
		if err != nil {
			return err
		}
		st.image, config, author = img, img.Config, img.Author
	}
	st.spec = specFor(st.image, platform)
	st.scope = st.b.plan.Scope(st.def, below)
	var triggers []string
	st.state, triggers = dockerfile.Begin(config, author)
	return st.runTriggers(ctx, triggers)
}

// runTriggers runs the instructions that the image below has for builds on top of it.
func (st *stage) runTriggers(ctx context.Context, lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	commands, err := st.b.plan.Triggers(st.def, lines)
	if err != nil {
		return err
	}
	plural := ""
	if len(commands) > 1 {
		plural = "s"
	}
	st.t.addText(fmt.Sprintf("# Executing %d build trigger%s\n", len(commands), plural))
	for _, cmd := range commands {
		if _, err := st.runInstruction(ctx, cmd); err != nil {
			return err
		}
	}
	return nil
}

// specFor is what all images of a stage have in common.
func specFor(below *image.Image, platform image.Platform) image.Step {
	if below != nil && below.OS != "" {
		return image.Step{OS: below.OS, Architecture: below.Architecture, Variant: below.Variant}
	}
	return image.Step{OS: platform.OS, Architecture: platform.Architecture, Variant: platform.Variant}
}
