package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"moss/api/client"
	"moss/api/types"
	"moss/cmd/moss/credential"
	"moss/cmd/moss/progress"
	"moss/cmd/moss/tty"
	"moss/cmd/moss/upload"
)

// onStdin is how a context or a Dockerfile that comes on stdin is named.
const onStdin = "-"

func (a *app) buildCommand() *cobra.Command {
	var flags imageBuildFlags
	cmd := &cobra.Command{
		Use:   "build [flags] FOLDER|URL|-",
		Short: "Build an image from a Dockerfile",
		Long: "Build an image from a Dockerfile and the files around it: those of a folder, without what .dockerignore names in it,\n" +
			"of a git repository or an archive that the engine fetches, or of an archive on stdin (-). A Dockerfile alone may come\n" +
			"on stdin as well. When a RUN fails, the exit code is that of its command.",
		Example: "  moss build -t web:1 .\n  moss build -f docker/web.Dockerfile --build-arg VERSION=1.2 .\n" +
			"  moss build --secret id=token,src=token.txt https://example.org/web.git#main:app\n  moss build - <Dockerfile",
		Args: requireArgs(1, 1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			opts, err := flags.buildOptions(cmd.Flags().Changed, a.lookup)
			if err != nil {
				return usageError(cmd, err)
			}
			if err := flags.checkFlags(args[0], tty.Is(a.stdin), a.onScreen()); err != nil {
				return usageError(cmd, err)
			}
			return a.buildImage(cmd.Context(), args[0], flags, opts)
		},
	}
	flags.registerFlags(cmd.Flags())
	completeFlag(cmd, "network", a.completeNetworks(-1))
	completeFlag(cmd, "cache-from", a.completeImages(-1))
	styles := []string{progressAuto, progressPlain, progressTTY}
	completeFlag(cmd, "progress", cobra.FixedCompletions(styles, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// completeFlag completes a flag's value.
func completeFlag(cmd *cobra.Command, flag string, values completer) {
	_ = cmd.RegisterFlagCompletionFunc(flag, values) // the flag exists, so it cannot fail
}

// buildImage runs a build, shows it and writes down the image's id.
func (a *app) buildImage(ctx context.Context, where string, flags imageBuildFlags, opts client.BuildOptions) error {
	if flags.idFile != "" {
		// What an earlier build wrote must not be taken for this one's.
		if err := os.Remove(flags.idFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	shown := a.buildProgress(flags)
	defer func() { _ = shown.end() }() // who comes here without a result has another error to tell
	opts.Steps = shown.live != nil
	if err := a.buildContext(where, flags.file, &opts, shown); err != nil {
		return err
	}
	engine, err := a.engineClient()
	if err != nil {
		return err
	}
	err = runInterruptible(ctx, func(ctx context.Context) error {
		opts.Auths = a.allAuths(ctx)
		return cmp.Or(engine.ImageBuild(ctx, opts, shown.Show), shown.end())
	})
	if err != nil {
		return a.buildFailed(err, shown)
	}
	if flags.quiet {
		if err := a.printLine(shown.id); err != nil {
			return err
		}
	}
	if flags.idFile == "" {
		return nil
	}
	if shown.id == "" {
		return fmt.Errorf("write %s: the engine did not tell the image's id", flags.idFile)
	}
	return os.WriteFile(flags.idFile, []byte(shown.id), 0o644)
}

// buildFailed gives an error the exit code of the command that failed, as clients of this API do.
func (a *app) buildFailed(err error, shown *buildView) error {
	_ = shown.end() // of the two errors the first one counts
	if text := shown.held.String(); text != "" {
		_, _ = io.WriteString(a.stderr, text)
	}
	if answered, ok := errors.AsType[*client.Error](err); ok && answered.Code > 0 {
		return &exit{code: answered.Code, err: err}
	}
	return err
}

// buildContext sets what the engine builds from.
func (a *app) buildContext(where, file string, opts *client.BuildOptions, shown *buildView) error {
	switch {
	case where == onStdin:
		return a.contextOnStdin(file, opts)
	case isFolder(where):
		var text io.Reader
		if file == onStdin {
			file, text = "", a.stdin
		}
		folder, err := upload.Open(where, file, text)
		if err != nil {
			return err
		}
		folder.Notice = func(text string) { shown.addNote(func() { a.printWarnings([]string{text}) }) }
		opts.Dockerfile, opts.Write = folder.Dockerfile, shown.countSent(folder.Write)
		return nil
	case isRemote(where):
		if file == onStdin {
			return errors.New("a Dockerfile on stdin cannot be combined with a URL")
		}
		opts.Remote, opts.Dockerfile = where, file
		return nil
	}
	if _, err := os.Stat(where); err != nil {
		return fmt.Errorf("context %s: %w", where, withoutPath(err))
	}
	return fmt.Errorf("context %s: it is no folder; an archive goes on stdin, a Dockerfile behind --file", where)
}

func (a *app) contextOnStdin(file string, opts *client.BuildOptions) error {
	in := bufio.NewReader(a.stdin)
	archive, err := upload.IsArchive(in)
	if err != nil {
		return fmt.Errorf("context on stdin: %w", err)
	}
	if archive {
		opts.Context, opts.Dockerfile = struct{ io.Reader }{in}, file
		return nil
	}
	if file != "" {
		return fmt.Errorf("stdin is not an archive that could hold %s", file)
	}
	alone, err := upload.Alone(in)
	if err != nil {
		return err
	}
	opts.Write = alone.Write
	return nil
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// isRemote reports whether a context is fetched by the engine.
func isRemote(where string) bool {
	return strings.Contains(where, "://") || strings.HasPrefix(where, "git@") || strings.HasPrefix(where, "github.com/")
}

func withoutPath(err error) error {
	if wrapped, ok := errors.AsType[*fs.PathError](err); ok {
		return wrapped.Err
	}
	return err
}

// allAuths returns the credentials for every registry that there are some for: which of them a Dockerfile needs is the
// engine's to know. Those that cannot be read are told of and left out.
func (a *app) allAuths(ctx context.Context) map[string]types.AuthConfig {
	store := a.openCredentials()
	hosts := store.Known()
	found, failed := make([]credential.Credential, len(hosts)), make([]error, len(hosts))
	a.atOnce(len(hosts), func(i int) { found[i], failed[i] = store.OfRegistry(ctx, hosts[i]) })
	auths := map[string]types.AuthConfig{}
	for i, host := range hosts {
		switch {
		case !found[i].Empty():
			auths[credential.Address(host)] = authOf(host, found[i])
		case failed[i] != nil:
			a.printWarnings([]string{"going on without credentials for " + host + ": " + failed[i].Error()})
		}
	}
	return auths
}

// buildView shows a build and keeps what its messages say of the result.
type buildView struct {
	shown follower
	live  *progress.Build // nil: not on a terminal
	held  strings.Builder // the text of a quiet build, for when it fails
	id    string
	end   func() error // may be called often

	mu    sync.Mutex // guards notes
	notes []func()   // to be said when the terminal is free
}

func (a *app) buildProgress(flags imageBuildFlags) *buildView {
	v := &buildView{}
	switch {
	case flags.quiet:
		v.shown = silent{}
	case flags.progress == progressPlain || flags.progress == progressAuto && (!a.onScreen() || a.envValue("TERM") == "dumb"):
		v.shown = progress.NewLines(a.stdout)
	default:
		file, _ := a.stdout.(*os.File)
		v.live = progress.NewBuild(a.stdout, func() (height, width int) { return tty.Size(file) })
		v.shown = v.live
	}
	v.end = sync.OnceValue(func() error {
		err := v.shown.Close()
		v.mu.Lock()
		defer v.mu.Unlock()
		for _, say := range v.notes {
			say()
		}
		return err
	})
	return v
}

// addNote has something said once nothing is drawn any more.
func (v *buildView) addNote(say func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.notes = append(v.notes, say)
}

// Show shows one message.
func (v *buildView) Show(message client.Progress) error {
	var built client.Built
	if len(message.Aux) > 0 && json.Unmarshal(message.Aux, &built) == nil && built.ID != "" {
		v.id = built.ID
	}
	if _, quiet := v.shown.(silent); quiet {
		if id := strings.TrimSpace(message.Stream); strings.HasPrefix(id, "sha256:") {
			v.id = id
		} else {
			v.held.WriteString(message.Stream)
		}
	}
	return v.shown.Show(message)
}

// countSent tells how much of a context is on its way.
func (v *buildView) countSent(write func(io.Writer) error) func(io.Writer) error {
	if v.live == nil {
		return write
	}
	return func(w io.Writer) error { return write(&sending{Writer: w, tell: v.live.Sent}) }
}

// sending is a writer that tells how much it has written.
type sending struct {
	io.Writer

	n    int64
	tell func(int64)
}

// Write writes.
func (s *sending) Write(p []byte) (int, error) {
	n, err := s.Writer.Write(p)
	s.n += int64(n)
	s.tell(s.n)
	return n, err
}
