package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"moss/api/client"
	"moss/api/types"
	"moss/cmd/moss/arg"
)

func (a *app) createCommand() *cobra.Command {
	var flags createFlags
	var remove bool
	cmd := &cobra.Command{
		Use:               "create [flags] IMAGE [COMMAND] [ARG...]",
		Short:             "Create a container without starting it",
		Example:           "  moss create --name web -p 8080:80 busybox httpd -f",
		Args:              requireArgs(1, -1),
		ValidArgsFunction: a.completeImages(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			body, err := a.bodyFromFlags(cmd, &flags, args)
			if err == nil && remove {
				err = flags.checkRemove()
			}
			if err != nil {
				return usageError(cmd, err)
			}
			body.HostConfig.AutoRemove = remove
			id, err := a.createContainer(cmd.Context(), &flags, body)
			if err != nil {
				return asEngine(err)
			}
			return a.printLine(id)
		},
	}
	cmd.Flags().SetInterspersed(false)
	flags.registerFlags(cmd.Flags())
	cmd.Flags().BoolVar(&remove, "rm", false, "remove the container and its anonymous volumes when it ends")
	a.completeCreateFlags(cmd)
	return cmd
}

// bodyFromFlags builds the container's settings from flags and this process's surroundings.
func (a *app) bodyFromFlags(cmd *cobra.Command, flags *createFlags, args []string) (types.ContainerCreate, error) {
	dir, err := os.Getwd()
	if err != nil {
		return types.ContainerCreate{}, err
	}
	switch {
	case flags.pull != "missing" && flags.pull != "never" && flags.pull != "always":
		return types.ContainerCreate{}, fmt.Errorf("pull %q: want missing, never or always", flags.pull)
	case flags.replace && flags.name == "":
		return types.ContainerCreate{}, errors.New("--replace requires --name")
	}
	if _, err := arg.Platforms(flags.platform); err != nil {
		return types.ContainerCreate{}, err
	}
	return flags.buildBody(args, surroundings{given: cmd.Flags().Changed, lookup: a.lookup, dir: dir})
}

// createContainer creates the container, gets its image if that is missing, and writes its id where --cidfile says.
func (a *app) createContainer(ctx context.Context, flags *createFlags, body types.ContainerCreate) (string, error) {
	engine, err := a.engineClient()
	if err != nil {
		return "", err
	}
	idFile, err := openIDFile(flags.cidFile)
	if err != nil {
		return "", err
	}
	var created types.ContainerCreated
	if flags.replace {
		created, err = a.createInPlace(ctx, engine, flags, body)
	} else {
		created, err = a.createOrPull(ctx, engine, flags, flags.name, body)
	}
	if err != nil {
		return "", errors.Join(err, idFile.discardFile())
	}
	a.printWarnings(created.Warnings)
	if err := idFile.writeID(created.ID); err != nil {
		return "", fmt.Errorf("container %s is created, but its id cannot be written: %w", created.ID, err)
	}
	return created.ID, nil
}

// createInPlace creates a container that takes the name of another one, which is removed. It has another name until then: what
// cannot be created takes nothing away.
func (a *app) createInPlace(ctx context.Context, engine *client.Client, flags *createFlags, body types.ContainerCreate) (types.ContainerCreated, error) {
	created, err := a.createOrPull(ctx, engine, flags, "", body)
	if err != nil {
		return created, err
	}
	old, err := engine.ContainerInspect(ctx, flags.name, false)
	switch {
	case client.StatusOf(err) == statusNotFound:
		err = nil
	case err == nil && old.Name == "/"+flags.name: // otherwise it is another one's id
		if err = engine.ContainerRemove(ctx, old.ID, client.RemoveOptions{Force: true}); isGone(err) {
			err = nil
		}
	}
	if err == nil {
		err = engine.ContainerRename(ctx, created.ID, flags.name)
	}
	if err == nil {
		return created, nil
	}
	err = fmt.Errorf("replace container %s: %w", flags.name, err)
	if removed := engine.ContainerRemove(ctx, created.ID, client.RemoveOptions{Force: true, Volumes: true}); !isGone(removed) {
		err = errors.Join(err, fmt.Errorf("remove container %.12s: %w", created.ID, removed))
	}
	return created, err
}

func (a *app) createOrPull(
	ctx context.Context, engine *client.Client, flags *createFlags, name string, body types.ContainerCreate,
) (types.ContainerCreated, error) {
	platforms, err := arg.Platforms(flags.platform)
	if err != nil {
		return types.ContainerCreated{}, err
	}
	if flags.pull == "always" {
		if err := a.pullForContainer(ctx, engine, body.Image, flags); err != nil {
			return types.ContainerCreated{}, err
		}
	}
	opts := client.CreateOptions{Name: name, Platform: flags.platform}
	created, err := a.createNext(ctx, engine, opts, body)
	if client.StatusOf(err) != statusNotFound {
		return created, err
	}
	// A volume or a network may be what is missing; only the image can be helped.
	if _, inspected := engine.ImageInspect(ctx, body.Image, platforms...); client.StatusOf(inspected) != statusNotFound {
		return created, err
	}
	if flags.pull == "never" {
		return created, fmt.Errorf("image %s is not here; download it with 'moss pull', 'moss load' or 'moss import'", body.Image)
	}
	if !flags.quiet {
		_, _ = fmt.Fprintf(a.stderr, "Unable to find image '%s' locally\n", body.Image)
	}
	if err := a.pullForContainer(ctx, engine, body.Image, flags); err != nil {
		return created, err
	}
	return a.createNext(ctx, engine, opts, body)
}

// createNext creates a container, with the next engine where this one is being stopped.
func (a *app) createNext(
	ctx context.Context, engine *client.Client, opts client.CreateOptions, body types.ContainerCreate,
) (created types.ContainerCreated, err error) {
	err = a.withNext(ctx, func() (err error) {
		created, err = engine.ContainerCreate(ctx, opts, body)
		return err
	})
	return created, err
}

// idFile is the file that --cidfile names; nil without the flag.
type idFile struct{ file *os.File }

// openIDFile makes the file before the container: an id that cannot be written is known too late.
func openIDFile(path string) (*idFile, error) {
	if path == "" {
		return nil, nil
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("cidfile: %w", err)
	}
	return &idFile{file: file}, nil
}

func (f *idFile) writeID(id string) error {
	if f == nil {
		return nil
	}
	_, err := f.file.WriteString(id)
	return errors.Join(err, f.file.Close())
}

func (f *idFile) discardFile() error {
	if f == nil {
		return nil
	}
	return errors.Join(f.file.Close(), os.Remove(f.file.Name()))
}
