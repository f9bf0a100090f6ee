package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"

	"moss/engine/build/copying"
	"moss/engine/build/source"
	"moss/engine/build/worker"
	"moss/engine/id"
	"moss/engine/image"
)

// readyRun gets a RUN ready.
func (st *stage) readyRun(ctx context.Context, cmd *instructions.RunCommand, origins map[int]*stage) (*work, error) {
	run, err := st.state.Run(cmd)
	if err != nil {
		return nil, err
	}
	for _, note := range run.Notes {
		st.t.addText(formatWarning(note))
	}
	step := worker.Step{
		Command: run.Args, Shown: strings.Join(run.Args, " "), Env: st.scope.Environ(st.state.Config), User: st.state.Config.User,
		WorkDir:  st.state.Config.WorkingDir,
		Hostname: st.b.plan.Hostname(), Network: run.Network, Host: st.b.req.Host, Secrets: st.b.lookUpSecret,
	}
	w := &work{state: st.state, text: st.scope.DescribeRun(st.state.Config, run)}
	w.unsaid = !cmd.PrependShell && len(run.Args) > 1 // where one word ends is not in the text
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%q %q %q\n", st.scope.Arguments(st.state.Config), run.Flags, run.Args)
	for _, file := range run.Files {
		step.Files = append(step.Files, worker.File{Name: path.Base(file.Path), Content: file.Content, Mode: 0o755})
		_, _ = fmt.Fprintf(h, "file %q %q\n", file.Path, file.Content)
	}
	for _, m := range run.Mounts {
		mount, skip, err := worker.MountOf(m)
		if err != nil {
			return nil, err
		}
		if skip {
			continue
		}
		read, err := st.setMountSource(ctx, m, &mount, origins)
		if err != nil {
			return nil, err
		}
		_, _ = fmt.Fprintf(h, "mount %q\n", read)
		w.unsaid = w.unsaid || read != ""
		step.Mounts = append(step.Mounts, mount)
	}
	w.content = hex.EncodeToString(h.Sum(nil))
	w.layer = st.b.runLayer(step, st.image)
	return w, nil
}

// lookUpSecret returns a secret of the request.
func (b *build) lookUpSecret(name string) ([]byte, bool) {
	content, ok := b.req.Secrets[name]
	return []byte(content), ok
}

// setMountSource sets where a mount's files come from, and returns what the step depends on because of it.
func (st *stage) setMountSource(
	ctx context.Context, m *instructions.Mount, mount *worker.Mount, origins map[int]*stage,
) (string, error) {
	switch mount.Type {
	case worker.MountTmpfs, worker.MountSecret:
		return "", nil
	case worker.MountCache:
		if m.From == "" {
			return "", nil
		}
	case worker.MountBind:
	}
	if m.From == "" {
		mount.Files = st.b.tree
		plan, err := copying.NewPlan(ctx, copying.Request{
			Items: []copying.Item{{Source: st.b.tree, Origin: copying.FromMount, Path: mount.Path}}, Dest: "/",
		})
		if err != nil {
			return "", fmt.Errorf("RUN --mount=type=%s: %w", mount.Type, err)
		}
		kind, sum, err := plan.Digest(ctx)
		return kind + ":" + sum, err
	}
	img, err := st.resolveOrigin(ctx, m.From, origins)
	if err != nil || img == nil {
		mount.Files = source.Empty()
		return "", err
	}
	mount.Image = img.ID
	return img.ID, nil
}

// resolveOrigin returns the image that COPY --from or a mount names: of a stage, which is carried out, or another one. It is
// nil for a stage of FROM scratch without anything.
func (st *stage) resolveOrigin(ctx context.Context, from string, origins map[int]*stage) (*image.Image, error) {
	found, err := st.b.plan.From(st.def, from)
	if err != nil {
		return nil, err
	}
	if found.Stage != nil {
		return origins[found.Stage.Index].image, nil
	}
	if found.Image == "" {
		return nil, nil
	}
	return st.b.bases.getImage(ctx, found.Image, st.b.plan.Platform(st.def), st.t)
}

// runLayer runs the command of a RUN and makes an image of what it has written.
func (b *build) runLayer(step worker.Step, below *image.Image) layer {
	return func(ctx context.Context, spec image.Step, out *output) (*image.Image, error) {
		parent, err := b.ensureParent(ctx, spec, below)
		if err != nil {
			return nil, err
		}
		step := step
		spec.Parent = parent
		step.Parent, step.Output = parent, out
		step.Started = func(containerID string, warnings []string) {
			for _, w := range warnings {
				out.writeLine(formatWarning(w))
			}
			out.writeLine(" ---> Running in " + id.Short(containerID) + "\n")
		}
		ran, err := b.s.opt.Runner.Run(ctx, step)
		if err != nil {
			return nil, b.handleRunFailure(ctx, ran, err, out)
		}
		spec.ContainerID, spec.ContainerConfig = ran.ContainerID, replaceEnv(ran.Config, spec.Config.Env)
		if !b.req.Remove && !b.req.ForceRemove {
			return b.copyOut(ctx, spec, ran)
		}
		var img *image.Image
		err = b.s.opt.Runner.Seal(ctx, ran, func(ctx context.Context, skip []string) (err error) {
			img, err = b.s.opt.Steps.SealStep(ctx, spec, ran.ContainerID, skip)
			return err
		})
		if err != nil {
			err = errors.Join(err, b.s.opt.Runner.Drop(ctx, ran)) // it may not have come to that
			return nil, fmt.Errorf("make a layer of %s: %w", id.Short(ran.ContainerID), err)
		}
		out.writeLine(formatRemoval(ran.ContainerID))
		return img, nil
	}
}

// replaceEnv returns a container's configuration with env as its environment, as the image shows it: build arguments, and
// passwords of proxies among them, are not for users of the image.
func replaceEnv(made json.RawMessage, env []string) json.RawMessage {
	var fields map[string]any
	if json.Unmarshal(made, &fields) != nil {
		return nil // there is none
	}
	fields["Env"] = env
	shown, err := json.Marshal(fields)
	if err != nil {
		return nil // it came out of JSON
	}
	return shown
}

// ensureParent returns the image that a container of a RUN is made of. FROM scratch has none: it gets one without files.
func (b *build) ensureParent(ctx context.Context, spec image.Step, below *image.Image) (string, error) {
	if below != nil {
		return below.ID, nil
	}
	img, err := b.s.opt.Steps.PutStep(ctx, image.Step{
		OS: spec.OS, Architecture: spec.Architecture, Variant: spec.Variant, CreatedBy: "FROM scratch", Created: spec.Created,
		Key: "scratch " + spec.OS + "/" + spec.Architecture + "/" + spec.Variant,
	}, nil)
	if err != nil {
		return "", fmt.Errorf("make an image of nothing: %w", err)
	}
	_, err = b.holdImage(ctx, img.ID)
	return img.ID, err
}

// handleRunFailure removes or keeps the container of a command that failed, as the request says, and returns its error.
func (b *build) handleRunFailure(ctx context.Context, ran worker.Result, err error, out *output) error {
	if ran.ContainerID != "" {
		if b.req.ForceRemove || ctx.Err() != nil {
			err = errors.Join(err, b.s.opt.Runner.Drop(ctx, ran))
			out.writeLine(formatRemoval(ran.ContainerID))
		} else {
			err = errors.Join(err, b.keepContainer(ctx, ran))
		}
	}
	if exit, ok := errors.AsType[*worker.ExitError](err); ok {
		return &ExitError{Command: exit.Command, Code: exit.Code, Err: err}
	}
	return err
}

// copyOut makes an image of what a command has written and leaves its container.
func (b *build) copyOut(ctx context.Context, spec image.Step, ran worker.Result) (_ *image.Image, err error) {
	drop := func(err error) error { return errors.Join(err, b.s.opt.Runner.Drop(ctx, ran)) }
	written, err := b.s.opt.Runner.Layer(ctx, ran)
	if err != nil {
		return nil, drop(err)
	}
	img, err := b.s.opt.Steps.PutStep(ctx, spec, written)
	if err = errors.Join(err, written.Close()); err != nil {
		return nil, drop(fmt.Errorf("make a layer of %s: %w", id.Short(ran.ContainerID), err))
	}
	return img, b.keepContainer(ctx, ran)
}

// keepContainer keeps the container of a run. One that cannot stay is removed: nobody else would before the engine's end.
func (b *build) keepContainer(ctx context.Context, ran worker.Result) error {
	err := b.s.opt.Runner.Keep(ctx, ran)
	if err != nil {
		err = errors.Join(err, b.s.opt.Runner.Drop(ctx, ran))
	}
	return err
}

func formatRemoval(containerID string) string {
	return "Removing intermediate container " + id.Short(containerID) + "\n"
}

// workdirLayer returns the layer of a WORKDIR: its folder, if the image below does not have it.
func (b *build) workdirLayer(dir string, config image.Config, below *image.Image) layer {
	return func(ctx context.Context, spec image.Step, _ *output) (*image.Image, error) {
		files, free, err := b.openFiles(ctx, below)
		if err != nil {
			return nil, err
		}
		defer free()
		folder := copying.Folder{Path: config.WorkingDir, Owner: config.User, Created: spec.Created}
		if files != nil {
			there, err := folder.Exists(ctx, files)
			if err != nil {
				return nil, fmt.Errorf("WORKDIR %s: %w", dir, err)
			}
			if there {
				return b.s.opt.Steps.PutStep(ctx, spec, nil)
			}
		}
		return b.putLayer(ctx, spec, func(ctx context.Context, w io.Writer) error {
			if err := folder.WriteLayer(ctx, files, w); err != nil {
				return fmt.Errorf("WORKDIR %s: %w", dir, err)
			}
			return nil
		})
	}
}
