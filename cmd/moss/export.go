package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"moss/api/client"
	"moss/cmd/moss/tty"
)

func (a *app) exportCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:               "export [flags] CONTAINER",
		Short:             "Export a container's file system as a tar archive",
		Example:           "  moss export -o web.tar web",
		Args:              requireArgs(1, 1),
		ValidArgsFunction: a.completeContainers(true, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if output == "" && a.onScreen() {
				return usageError(cmd, errors.New("refusing to write an archive to a terminal; use -o or redirect stdout"))
			}
			return a.exportContainer(cmd.Context(), args[0], output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "write to a `FILE` instead of stdout")
	return cmd
}

// onScreen reports whether stdout is a terminal.
func (a *app) onScreen() bool {
	file, ok := a.stdout.(*os.File)
	return ok && tty.Is(file)
}

func (a *app) exportContainer(ctx context.Context, ref, output string) error {
	engine, err := a.engineClient()
	if err != nil {
		return err
	}
	stream, err := engine.ContainerExport(ctx, ref)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	if output == "" {
		_, err = client.CopyBulk(a.stdout, stream)
		return err
	}
	return writeWhole(output, func(file *os.File) error {
		_, err := client.CopyBulk(file, stream)
		return err
	})
}

// writeWhole fills a file that appears under its name only when it is whole. What is there and no regular file, a
// device or a pipe, is written to as it is.
func writeWhole(path string, fill func(*os.File) error) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		if info.IsDir() {
			return fmt.Errorf("write %s: it is a folder", path)
		}
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(fill(file), file.Close())
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".moss-")
	if err != nil {
		return err
	}
	err = errors.Join(fill(file), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}

func (a *app) commitCommand() *cobra.Command {
	var opts client.Commit
	cmd := &cobra.Command{
		Use:               "commit [flags] CONTAINER [NAME[:TAG]]",
		Short:             "Create an image from a container's changes",
		Example:           "  moss commit -m 'with tools' -c 'CMD [\"httpd\", \"-f\"]' web httpd:mine",
		Args:              requireArgs(1, 2),
		ValidArgsFunction: a.completeContainers(true, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				opts.Repo, opts.Tag = splitTag(args[1])
			}
			engine, err := a.engineClient()
			if err != nil {
				return err
			}
			id, err := engine.ContainerCommit(cmd.Context(), args[0], opts)
			if err != nil {
				return err
			}
			return a.printLine(id)
		},
	}
	set := cmd.Flags()
	set.StringVarP(&opts.Author, "author", "a", "", "the image's author, such as 'Jane Roe <jane@example.org>'")
	set.StringVarP(&opts.Comment, "message", "m", "", "the image's comment")
	set.StringArrayVarP(&opts.Changes, "change", "c", nil, "a build `INSTRUCTION` for the image's configuration, such as 'CMD [\"sh\"]'")
	set.BoolVarP(&opts.Pause, "pause", "p", true, "pause the container meanwhile")
	return cmd
}
