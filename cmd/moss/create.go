package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"moss/api/client"
)

func (a *app) createCommand() *cobra.Command {
	var flags createFlags
	var remove bool
	cmd := &cobra.Command{
		Use:               "create [flags] IMAGE [COMMAND] [ARG...]",
		Short:             "Create a container without starting it",
		Example:           "  moss create --name web -p 8080:80 busybox httpd -f",
		Args:              arguments(1, -1),
		ValidArgsFunction: a.completeImages(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			body, err := a.body(cmd, &flags, args)
			if err == nil && remove {
				err = flags.checkRemove()
			}
			if err != nil {
				return usage(cmd, err)
			}
			body.HostConfig.AutoRemove = remove
			id, err := a.create(cmd.Context(), &flags, body)
			if err != nil {
				return asEngine(err)
			}
			return a.print(id)
		},
	}
	cmd.Flags().SetInterspersed(false)
	flags.register(cmd.Flags())
	cmd.Flags().BoolVar(&remove, "rm", false, "remove the container and its anonymous volumes when it ends")
	a.completeCreateFlags(cmd)
	return cmd
}

// body builds the container's settings from flags and this process's surroundings.
func (a *app) body(cmd *cobra.Command, flags *createFlags, args []string) (client.Create, error) {
	dir, err := os.Getwd()
	if err != nil {
		return client.Create{}, err
	}
	switch flags.pull {
	case "missing", "never", "always":
	default:
		return client.Create{}, fmt.Errorf("pull %q: want missing, never or always", flags.pull)
	}
	return flags.build(args, surroundings{given: cmd.Flags().Changed, lookup: a.lookup, dir: dir})
}

// create creates the container, gets its image if that is missing, and writes its id where --cidfile says.
func (a *app) create(ctx context.Context, flags *createFlags, body client.Create) (string, error) {
	engine, err := a.client()
	if err != nil {
		return "", err
	}
	idFile, err := openIDFile(flags.cidFile)
	if err != nil {
		return "", err
	}
	created, err := a.createOrPull(ctx, engine, flags, body)
	if err != nil {
		return "", errors.Join(err, idFile.discard())
	}
	a.warn(created.Warnings)
	if err := idFile.write(created.ID); err != nil {
		return "", fmt.Errorf("container %s is created, but its id cannot be written: %w", created.ID, err)
	}
	return created.ID, nil
}

func (a *app) createOrPull(ctx context.Context, engine *client.Client, flags *createFlags, body client.Create) (client.Created, error) {
	if flags.pull == "always" {
		if err := a.fetchMissing(ctx, engine, body.Image, flags.quiet); err != nil {
			return client.Created{}, err
		}
	}
	created, err := engine.ContainerCreate(ctx, flags.name, body)
	if client.StatusOf(err) != statusNotFound {
		return created, err
	}
	// A volume or a network may be what is missing; only the image can be helped.
	if _, inspected := engine.ImageInspect(ctx, body.Image); client.StatusOf(inspected) != statusNotFound {
		return created, err
	}
	if flags.pull == "never" {
		return created, fmt.Errorf("image %s is not here; get it with 'moss pull', 'moss load' or 'moss import'", body.Image)
	}
	if !flags.quiet {
		_, _ = fmt.Fprintf(a.stderr, "Unable to find image '%s' locally\n", body.Image)
	}
	if err := a.fetchMissing(ctx, engine, body.Image, flags.quiet); err != nil {
		return created, err
	}
	return engine.ContainerCreate(ctx, flags.name, body)
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

func (f *idFile) write(id string) error {
	if f == nil {
		return nil
	}
	_, err := f.file.WriteString(id)
	return errors.Join(err, f.file.Close())
}

func (f *idFile) discard() error {
	if f == nil {
		return nil
	}
	return errors.Join(f.file.Close(), os.Remove(f.file.Name()))
}
