package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"moss/api/client"
	"moss/cmd/moss/arg"
	"moss/cmd/moss/tty"
)

func (a *app) saveCommand() *cobra.Command {
	var output, platform string
	cmd := &cobra.Command{
		Use:               "save [flags] IMAGE...",
		Short:             "Save images to a tar archive",
		Long:              "Save images with their layers and names to a tar archive, for 'moss load' and other engines.",
		Example:           "  moss save -o tools.tar busybox:v1 busybox:v2\n  moss save busybox | zstd >busybox.tar.zst",
		Args:              requireArgs(1, -1),
		ValidArgsFunction: a.completeImages(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if output == "" && a.onScreen() {
				return usageError(cmd, errors.New("refusing to write an archive to a terminal; use -o or redirect stdout"))
			}
			platforms, err := arg.Platforms(platform)
			if err != nil {
				return usageError(cmd, err)
			}
			engine, err := a.engineClient()
			if err != nil {
				return err
			}
			return runInterruptible(cmd.Context(), func(ctx context.Context) error {
				if output == "" {
					return engine.ImageSave(ctx, args, a.stdout, platforms...)
				}
				return writeWhole(output, func(file *os.File) error { return engine.ImageSave(ctx, args, file, platforms...) })
			})
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "write to a `FILE` instead of stdout; it appears when it is whole")
	addPlatform(cmd.Flags(), &platform)
	return cmd
}

func (a *app) loadCommand() *cobra.Command {
	var input, platform string
	var quiet bool
	cmd := &cobra.Command{
		Use:     "load [flags]",
		Short:   "Load images from a tar archive",
		Long:    "Load images from a tar archive, plain or compressed, that 'moss save' or another engine wrote.",
		Example: "  moss load -i tools.tar\n  zstd -dc busybox.tar.zst | moss load -q",
		Args:    requireArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if input == "" && tty.Is(a.stdin) {
				return usageError(cmd, errors.New("refusing to read an archive from a terminal; use -i or redirect stdin"))
			}
			platforms, err := arg.Platforms(platform)
			if err != nil {
				return usageError(cmd, err)
			}
			return a.loadImages(cmd.Context(), input, quiet, platforms)
		},
	}
	cmd.Flags().StringVarP(&input, "input", "i", "", "read a `FILE` instead of stdin")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "show the images' names only")
	addPlatform(cmd.Flags(), &platform)
	return cmd
}

func (a *app) loadImages(ctx context.Context, input string, quiet bool, platforms []client.Platform) error {
	archive, size, err := a.openArchive("load", input)
	if err != nil {
		return err
	}
	defer func() { _ = archive.Close() }()
	engine, err := a.engineClient()
	if err != nil {
		return err
	}
	return a.followProgress(ctx, a.newProgress(a.stdout), func(ctx context.Context, each func(client.Progress) error) error {
		return engine.ImageLoad(ctx, archive, size, quiet, each, platforms...)
	})
}

// openArchive opens a file, or stdin for an empty name and -, and returns its size in bytes if that is known. The caller
// closes it; stdin stays open.
func (a *app) openArchive(verb, path string) (io.ReadCloser, int64, error) {
	file, closer := a.stdin, io.NopCloser(nil)
	if path != "" && path != "-" {
		opened, err := os.Open(path)
		if err != nil {
			return nil, 0, err
		}
		file, closer = opened, opened
	}
	var size int64
	if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
		if at, err := file.Seek(0, io.SeekCurrent); err == nil {
			size = info.Size() - at
		}
	} else if err == nil && info.IsDir() {
		return nil, 0, errors.Join(fmt.Errorf("%s %s: it is a folder; pack it with tar first", verb, path), closer.Close())
	}
	// The file is hidden so that net/http does not close what is not its own.
	return struct {
		io.Reader
		io.Closer
	}{file, closer}, size, nil
}

func (a *app) importCommand() *cobra.Command {
	var opts client.ImportOptions
	cmd := &cobra.Command{
		Use:   "import [flags] FILE|URL|- [NAME[:TAG]]",
		Short: "Create an image from an archive of a root file system",
		Long: "Create an image from a tar archive of a root file system, plain or compressed, in a file, at a URL that the engine\n" +
			"fetches, or on stdin (-).",
		Example: "  moss import -c 'CMD [\"sh\"]' rootfs.tar.gz busybox:mine",
		Args:    requireArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				opts.Repo, opts.Tag = splitTag(args[1])
			}
			if _, err := arg.Platforms(opts.Platform); err != nil {
				return usageError(cmd, err)
			}
			return a.importImage(cmd.Context(), args[0], opts)
		},
	}
	cmd.Flags().StringVarP(&opts.Message, "message", "m", "", "the image's comment")
	addPlatform(cmd.Flags(), &opts.Platform)
	cmd.Flags().StringArrayVarP(&opts.Changes, "change", "c", nil, "a build `INSTRUCTION` for the image's configuration, such as 'CMD [\"sh\"]'")
	return cmd
}

func (a *app) importImage(ctx context.Context, source string, opts client.ImportOptions) error {
	var archive io.ReadCloser
	switch {
	case strings.HasPrefix(source, "http://"), strings.HasPrefix(source, "https://"):
		opts.Source = source
	case strings.Contains(source, "://"):
		return fmt.Errorf("import %s: want a file, an http or https URL, or - for stdin", source)
	case source == "-" && tty.Is(a.stdin):
		return errors.New("import -: refusing to read an archive from a terminal; redirect stdin")
	default:
		var err error
		if archive, opts.Size, err = a.openArchive("import", source); err != nil {
			return err
		}
		defer func() { _ = archive.Close() }()
	}
	engine, err := a.engineClient()
	if err != nil {
		return err
	}
	return a.followProgress(ctx, a.newProgress(a.stdout), func(ctx context.Context, each func(client.Progress) error) error {
		return engine.ImageImport(ctx, opts, archive, each)
	})
}
