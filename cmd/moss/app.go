package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"moss/api/client"
	"moss/cmd/moss/arg"
	"moss/cmd/moss/launch"
	"moss/cmd/moss/show"
	"moss/cmd/moss/tty"
)

// Exit codes that are the command's own; any other is the container's.
const (
	exitFailed     = 1
	exitEngine     = 125 // of run, create, start -a, attach and exec: the engine or this command failed; wrong usage
	exitNotRunable = 126 // the container's command cannot be run
	exitNotFound   = 127 // the container's command does not exist
	exitSignalled  = 128 // plus the number of the signal that ended this command
)

// app is one run of the command with all it may touch of the world.
type app struct {
	stdin          *os.File
	stdout, stderr io.Writer
	lookup         arg.Lookup    // of the environment
	host           string        // --host
	tls            launch.TLS    // --tls, --tlsverify and the files
	completion     time.Duration // 0: completionTimeout

	once   sync.Once // guards engine, failed and hostFrom
	engine *client.Client
	failed error
	// starter starts the engine; nil where none is to be started.
	starter *launch.Starter
	// hostFrom is the variable of the environment that named the engine's host; empty where none did.
	hostFrom string
}

// exit is an error with an exit code. Without an error only the code is passed on.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

// runArgs runs the command with arguments and returns its exit code.
func (a *app) runArgs(args []string) int {
	root := a.rootCommand(args)
	root.SetArgs(a.takeHost(args))
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	err := root.ExecuteContext(context.Background())
	if a.engine != nil {
		a.engine.Close()
	}
	if err == nil {
		return 0
	}
	code, text := exitFailed, err
	if own, ok := errors.AsType[*exit](err); ok {
		code, text = own.code, own.err
	}
	if text != nil {
		a.printError(text)
	}
	return code
}

// printError writes an error, whatever it holds, on one line.
func (a *app) printError(err error) {
	if _, ok := errors.AsType[*client.ConnectError](err); ok && a.hostFrom != "" {
		err = fmt.Errorf("%w (%s names that host)", err, a.hostFrom)
	}
	text := strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	_, _ = fmt.Fprintln(a.stderr, a.messagePrefix(show.Red)+text)
}

// messagePrefix begins a line of this command's own on stderr: a colour sets it off from what others write to a terminal.
func (a *app) messagePrefix(colour show.Colour) string {
	if a.hasColours(a.stderr) {
		return show.Paint(colour, "moss:") + " "
	}
	return "moss: "
}

// hasColours reports whether what is written to out may have colours: it is a terminal that knows them, whose user wants them.
func (a *app) hasColours(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && tty.Is(file) && a.envValue("NO_COLOR") == "" && a.envValue("TERM") != "dumb"
}

// tableView returns how tables are shown: on a terminal they fit, unless all is to be shown in full.
func (a *app) tableView(full bool) show.View {
	if !a.onScreen() {
		return show.View{}
	}
	view := show.View{Colour: a.hasColours(a.stdout)}
	if !full {
		_, view.Width = a.windowSize()
	}
	return view
}

// printWarnings writes the engine's warnings.
func (a *app) printWarnings(warnings []string) {
	for _, text := range warnings {
		_, _ = fmt.Fprintln(a.stderr, a.messagePrefix(show.Yellow)+"warning: "+strings.TrimPrefix(text, "WARNING: "))
	}
}

// printLine writes one line of result.
func (a *app) printLine(text string) error {
	_, err := fmt.Fprintln(a.stdout, text)
	return err
}

// envValue returns a variable of the environment, empty when it is not set.
func (a *app) envValue(name string) string {
	value, _ := a.lookup(name)
	return value
}

// engineClient returns the engine's client, made at the first call.
func (a *app) engineClient() (*client.Client, error) {
	a.once.Do(func() { a.engine, a.failed = a.newClient(true) })
	return a.engine, a.failed
}

// newClient makes a client; with start it starts the engine if need be.
func (a *app) newClient(start bool) (*client.Client, error) {
	place, err := launch.Find(a.host, a.tls, a.envValue)
	if err != nil {
		return nil, err
	}
	a.hostFrom = place.Source
	opts := client.Options{Host: place.Host.String(), UserAgent: "moss/" + version}
	if place.TLS != nil {
		if opts.TLS, err = client.LoadTLS(*place.TLS); err != nil {
			return nil, err
		}
	}
	if start {
		a.starter = a.newStarter(place)
		opts.Dial = a.starter.Dial
	}
	return client.New(opts)
}

// parallel is how many objects a command works on at once.
const parallel = 16

// applyToEach does one verb on every object, some at once, and writes the results in the given order. It ends with exit code 1
// if any failed.
func (a *app) applyToEach(refs []string, do func(ref string) (string, error)) error {
	type outcome struct {
		text string
		err  error
	}
	results := make([]chan outcome, len(refs))
	slots := make(chan struct{}, parallel)
	for i, ref := range refs {
		results[i] = make(chan outcome, 1)
		go func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			text, err := do(ref)
			results[i] <- outcome{text: text, err: err}
		}()
	}
	var failed bool
	for _, result := range results {
		got := <-result
		if got.err != nil {
			failed = true
			a.printError(got.err)
			continue
		}
		if err := a.printLine(got.text); err != nil {
			return err
		}
	}
	if failed {
		return &exit{code: exitFailed}
	}
	return nil
}

// atOnce calls do for 0 to n-1, some at once, and waits for all of them.
func (a *app) atOnce(n int, do func(i int)) {
	var group sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for i := range n {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			do(i)
		})
	}
	group.Wait()
}

// requireArgs checks how many arguments a command gets; most below 0 is any number.
func requireArgs(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) >= least && (most < 0 || len(args) <= most):
			return nil
		case least == most:
			return usageError(cmd, fmt.Errorf("want %s, got %d", countText(least, "argument"), len(args)))
		case len(args) < least:
			return usageError(cmd, fmt.Errorf("want at least %s, got %d", countText(least, "argument"), len(args)))
		default:
			return usageError(cmd, fmt.Errorf("want at most %s, got %d", countText(most, "argument"), len(args)))
		}
	}
}

func countText(n int, noun string) string {
	switch n {
	case 0:
		return "no " + noun
	case 1:
		return "one " + noun
	default:
		return fmt.Sprintf("%d %ss", n, noun)
	}
}

// usageError returns the error of wrong usage.
func usageError(cmd *cobra.Command, err error) error {
	return &exit{code: exitEngine, err: fmt.Errorf("%w; see '%s --help'", err, cmd.CommandPath())}
}
