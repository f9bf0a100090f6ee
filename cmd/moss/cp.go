package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"moss/api/client"
	"moss/cmd/moss/archive"
	"moss/cmd/moss/show"
	"moss/cmd/moss/tty"
)

// copying is one run of cp.
type copying struct {
	app    *app
	engine *client.Client

	owners, follow, quiet bool

	moved atomic.Int64 // bytes of the archive
}

func (a *app) copyCommand() *cobra.Command {
	c := &copying{app: a}
	cmd := &cobra.Command{
		Use:   "cp [flags] CONTAINER:PATH PATH|-\n  moss cp [flags] PATH|- CONTAINER:PATH",
		Short: "Copy files between a container and this machine",
		Long: "Copy files between a container and this machine. - is a tar archive on stdin or stdout.\n\n" +
			"What is copied into a folder that exists keeps its name; otherwise it gets the destination's. FOLDER/. is what\n" +
			"a folder holds. Files are the container root's in a container and yours here.",
		Example:           "  moss cp web:/etc/passwd .\n  moss cp site/. web:/var/www\n  moss cp web:/var/log - | tar -t",
		Args:              requireArgs(2, 2),
		ValidArgsFunction: a.completeCopy,
		RunE: func(cmd *cobra.Command, args []string) error {
			from, source := splitPlace(args[0])
			to, target := splitPlace(args[1])
			switch {
			case from != "" && to != "":
				return usageError(cmd, errors.New("copying from one container to another is not supported; pipe one cp into another"))
			case from == "" && to == "":
				return usageError(cmd, errors.New("one of the two paths must be CONTAINER:PATH"))
			case source == "" || target == "":
				return usageError(cmd, errors.New("a path is missing"))
			case to == "" && target == "-" && a.onScreen():
				return usageError(cmd, errors.New("refusing to write an archive to a terminal; redirect stdout"))
			}
			var err error
			if c.engine, err = a.engineClient(); err != nil {
				return err
			}
			if from != "" {
				return c.copyFrom(cmd.Context(), from, source, target)
			}
			return c.copyTo(cmd.Context(), to, source, target)
		},
	}
	set := cmd.Flags()
	set.BoolVarP(&c.owners, "archive", "a", false, "keep user and group ids")
	set.BoolVarP(&c.follow, "follow-link", "L", false, "follow a symbolic link as the source")
	set.BoolVarP(&c.quiet, "quiet", "q", false, "do not show how much was copied")
	return cmd
}

// splitPlace cuts CONTAINER:PATH. What begins with / or . is a path of this machine, whatever follows.
func splitPlace(text string) (ref, place string) {
	ref, place, found := strings.Cut(text, ":")
	if !found || ref == "" || text[0] == '/' || text[0] == '.' {
		return "", text
	}
	return ref, place
}

// completeCopy offers containers, and files where no container fits.
func (a *app) completeCopy(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	names, _ := a.completeContainers(true, -1)(cmd, nil, prefix)
	if len(args) >= 2 || len(names) == 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	for i := range names {
		names[i] += ":"
	}
	return names, cobra.ShellCompDirectiveNoSpace
}

// copyFrom copies from a container.
func (c *copying) copyFrom(ctx context.Context, ref, from, to string) error {
	source := archive.ParseSource(from)
	asked := from
	if c.follow {
		stat, err := c.engine.ContainerStatPath(ctx, ref, from)
		if err == nil && stat.Mode&fs.ModeSymlink != 0 && stat.LinkTarget != "" {
			asked = source.Resolved(stat.LinkTarget)
		}
	}
	stream, stat, err := c.engine.ContainerCopyFrom(ctx, ref, asked)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	if to == "-" {
		_, err := client.CopyBulk(c.app.stdout, stream)
		return err
	}
	if to, err = absolutePath(to); err != nil {
		return err
	}
	target, err := archive.LocalTarget(to)
	if err != nil {
		return err
	}
	dir, name, err := target.Place(source, stat.Mode.IsDir())
	if err != nil {
		return err
	}
	err = archive.Unpack(c.countMoved(stream), dir, archive.Unpacking{
		Name: name, Contents: source.Contents, Owners: c.owners, Notice: c.printNotice,
	})
	if err != nil {
		return err
	}
	c.reportCopied(to)
	return nil
}

// copyTo copies to a container.
func (c *copying) copyTo(ctx context.Context, ref, from, to string) error {
	target, err := c.containerTarget(ctx, ref, to)
	if err != nil {
		return err
	}
	put := client.PutOptions{NoOverwriteDirNonDir: true}
	if from == "-" {
		if !target.Dir {
			return fmt.Errorf("%s:%s is no folder of the container; an archive needs one", ref, to)
		}
		if tty.Is(c.app.stdin) {
			return errors.New("stdin is a terminal; it should be a tar archive")
		}
		// The reader is hidden so that net/http does not close a file that is not its own.
		return c.engine.ContainerCopyTo(ctx, ref, target.Path, io.MultiReader(c.app.stdin), put)
	}
	if from, err = absolutePath(from); err != nil {
		return err
	}
	source := archive.ParseSource(from)
	file, isDir, err := archive.LocalSource(source, c.follow)
	if err != nil {
		return err
	}
	dir, name, err := target.Place(source, isDir)
	if err != nil {
		return err
	}
	reader, writer := io.Pipe()
	packed := make(chan struct{})
	go func() {
		defer close(packed)
		_ = writer.CloseWithError(archive.Pack(ctx, writer, file, archive.Packing{Name: name, Owners: c.owners, Notice: c.printNotice}))
	}()
	err = c.engine.ContainerCopyTo(ctx, ref, dir, c.countMoved(reader), put)
	_ = reader.Close() // ends a packer that the engine no longer listens to
	<-packed
	if err != nil {
		return err
	}
	c.reportCopied(ref + ":" + to)
	return nil
}

// containerTarget looks a path of a container up and follows it if it is a symbolic link. One that cannot be looked up
// is taken as one that does not exist: the engine says better what is wrong.
func (c *copying) containerTarget(ctx context.Context, ref, to string) (archive.Target, error) {
	if !path.IsAbs(to) {
		to = "/" + to // as the engine reads it (API document 2, 4.1: archive)
	}
	target := archive.NewTarget(to)
	stat, err := c.engine.ContainerStatPath(ctx, ref, to)
	if err == nil && stat.Mode&fs.ModeSymlink != 0 && stat.LinkTarget != "" {
		target.Path = archive.ParseSource(to).Resolved(stat.LinkTarget)
		stat, err = c.engine.ContainerStatPath(ctx, ref, target.Path)
	}
	switch status := client.StatusOf(err); {
	case err == nil:
		target.Exists, target.Dir = true, stat.Mode.IsDir()
	case status == 0:
		return target, err // the engine is gone
	}
	return target, nil
}

// absolutePath makes a path absolute and keeps what its end says.
func absolutePath(text string) (string, error) {
	full, err := filepath.Abs(text)
	if err != nil {
		return "", err
	}
	switch {
	case text == "." || strings.HasSuffix(text, "/."):
		full += "/."
	case strings.HasSuffix(text, "/") && full != "/":
		full += "/"
	}
	return full, nil
}

// countMoved counts what a stream moves.
func (c *copying) countMoved(r io.Reader) io.Reader { return &counter{r: r, n: &c.moved} }

type counter struct {
	r io.Reader
	n *atomic.Int64
}

// Read counts.
func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// reportCopied tells a person how much was copied; a script must not find words it did not ask for.
func (c *copying) reportCopied(to string) {
	if file, ok := c.app.stderr.(*os.File); ok && !c.quiet && tty.Is(file) {
		_, _ = fmt.Fprintf(file, "copied %s to %s\n", show.Size(c.moved.Load()), show.Plain(to))
	}
}

func (c *copying) printNotice(text string) { c.app.printWarnings([]string{show.Plain(text)}) }
