package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"moss/api/client"
	"moss/cmd/moss/arg"
)

type pullFlags struct {
	all, quiet bool
	platform   string
}

func (a *app) pullCommand() *cobra.Command {
	var flags pullFlags
	cmd := &cobra.Command{
		Use:   "pull [flags] NAME[:TAG|@DIGEST]...",
		Short: "Download an image from a registry",
		Long: "Download an image from a registry. It comes from HOST in HOST[:PORT]/NAME, or from docker.io.\n" +
			"Credentials are those that 'moss login', docker or podman have kept.",
		Example:           "  moss pull busybox\n  moss pull -q localhost:5000/tools/busybox:v1",
		Args:              requireArgs(1, -1),
		ValidArgsFunction: a.completeImages(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range args {
				if _, version := splitName(name); flags.all && version != "" {
					return usageError(cmd, fmt.Errorf("%s has a tag; --all-tags gets them all", name))
				}
			}
			return a.pullAll(cmd.Context(), args, flags)
		},
	}
	set := cmd.Flags()
	set.BoolVarP(&flags.all, "all-tags", "a", false, "download all tags of the image")
	set.BoolVarP(&flags.quiet, "quiet", "q", false, "show the image's name only")
	set.StringVar(&flags.platform, "platform", "", "download the image for a `PLATFORM`, such as linux/arm64")
	return cmd
}

// pullAll gets one image after the other and goes on when one fails.
func (a *app) pullAll(ctx context.Context, names []string, flags pullFlags) error {
	engine, err := a.engineClient()
	if err != nil {
		return err
	}
	return a.inOrder(names, func(name string) error {
		repo, version := splitName(name)
		if version == "" && !flags.all {
			version = "latest"
			if !flags.quiet {
				if err := a.printLine("Using default tag: latest"); err != nil {
					return err
				}
			}
		}
		shown := follower(silent{})
		if !flags.quiet {
			shown = a.newProgress(a.stdout)
		}
		opts := client.PullOptions{Name: repo, Tag: version, Platform: flags.platform}
		if err := a.pullImage(ctx, engine, opts, shown); err != nil {
			return err
		}
		return a.printLine(fullName(repo, version))
	})
}

// inOrder does something with each name. It goes on after an error, but not after a signal, and ends with exit code 1
// if any failed.
func (a *app) inOrder(names []string, do func(name string) error) error {
	failed := false
	for _, name := range names {
		err := do(name)
		if _, signalled := errors.AsType[*exit](err); signalled {
			return err
		}
		if err != nil {
			failed = true
			a.printError(err)
		}
	}
	if failed {
		return &exit{code: exitFailed}
	}
	return nil
}

// pullImage pulls with the credentials that are kept for the registry.
func (a *app) pullImage(ctx context.Context, engine *client.Client, opts client.PullOptions, shown follower) error {
	return a.followProgress(ctx, shown, func(ctx context.Context, each func(client.Progress) error) error {
		opts.Auth = a.authOfImage(ctx, opts.Name)
		return engine.ImagePull(ctx, opts, each)
	})
}

// pullForContainer gets the image of a new container and shows the progress beside the command's own output.
func (a *app) pullForContainer(ctx context.Context, engine *client.Client, ref string, flags *createFlags) error {
	repo, version := splitName(ref)
	if version == "" {
		version = "latest"
	}
	shown := follower(silent{})
	if !flags.quiet {
		shown = a.newProgress(a.stderr)
	}
	err := a.pullImage(ctx, engine, client.PullOptions{Name: repo, Tag: version, Platform: flags.platform}, shown)
	if _, signalled := errors.AsType[*exit](err); err == nil || signalled {
		return err
	}
	return fmt.Errorf("pull %s: %w", ref, err)
}

type pushFlags struct {
	all, quiet bool
	platform   string
}

func (a *app) pushCommand() *cobra.Command {
	var flags pushFlags
	cmd := &cobra.Command{
		Use:               "push [flags] NAME[:TAG]",
		Short:             "Upload an image to a registry",
		Example:           "  moss tag busybox localhost:5000/busybox:v1\n  moss push localhost:5000/busybox:v1",
		Args:              requireArgs(1, 1),
		ValidArgsFunction: a.completeImages(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			platforms, err := arg.Platforms(flags.platform)
			if err != nil {
				return usageError(cmd, err)
			}
			repo, tag := splitName(args[0])
			switch {
			case flags.all && tag != "":
				return usageError(cmd, fmt.Errorf("%s has a tag; --all-tags sends them all", args[0]))
			case tag == "" && !flags.all:
				tag = "latest"
				if !flags.quiet {
					if err := a.printLine("Using default tag: latest"); err != nil {
						return err
					}
				}
			}
			return a.pushImage(cmd.Context(), client.PushOptions{Name: repo, Tag: tag, Platforms: platforms}, flags.quiet)
		},
	}
	set := cmd.Flags()
	set.BoolVarP(&flags.all, "all-tags", "a", false, "upload all tags of the image")
	addPlatform(set, &flags.platform)
	set.BoolVarP(&flags.quiet, "quiet", "q", false, "show the image's name only")
	return cmd
}

func (a *app) pushImage(ctx context.Context, opts client.PushOptions, quiet bool) error {
	engine, err := a.engineClient()
	if err != nil {
		return err
	}
	shown := follower(silent{})
	if !quiet {
		shown = a.newProgress(a.stdout)
	}
	err = a.followProgress(ctx, shown, func(ctx context.Context, each func(client.Progress) error) error {
		opts.Auth = a.authOfImage(ctx, opts.Name)
		return engine.ImagePush(ctx, opts, each)
	})
	if err != nil || !quiet {
		return err
	}
	return a.printLine(fullName(opts.Name, opts.Tag))
}
