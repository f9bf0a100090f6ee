package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"moss/api/client"
	"moss/cmd/moss/credential"
	"moss/cmd/moss/tty"
)

// maxPassword bounds what is read as a password, in bytes. Tokens of some registries are long.
const maxPassword = 1 << 20

type loginFlags struct {
	username, password string
	fromStdin          bool
}

func (a *app) loginCommand() *cobra.Command {
	var flags loginFlags
	cmd := &cobra.Command{
		Use:   "login [flags] [SERVER]",
		Short: "Log in to a registry",
		Long: "Log in to a registry, docker.io when none is named, and store the credentials where docker stores them: with the\n" +
			"helper that is set up for it, or in ~/.docker/config.json.",
		Example:           "  moss login localhost:5000\n  moss login -u jane --password-stdin registry.example.org <token",
		Args:              requireArgs(0, 1),
		ValidArgsFunction: a.completeRegistries,
		RunE: func(cmd *cobra.Command, args []string) error {
			server := ""
			if len(args) == 1 {
				server = args[0]
			}
			if err := flags.checkFlags(cmd.Flags().Changed("password")); err != nil {
				return usageError(cmd, err)
			}
			return runInterruptible(cmd.Context(), func(ctx context.Context) error { return a.loginToRegistry(ctx, server, flags) })
		},
	}
	set := cmd.Flags()
	set.StringVarP(&flags.username, "username", "u", "", "the user's name")
	set.StringVarP(&flags.password, "password", "p", "", "the password; others on this machine may see it")
	set.BoolVar(&flags.fromStdin, "password-stdin", false, "read the password from stdin")
	return cmd
}

func (f *loginFlags) checkFlags(given bool) error {
	switch {
	case given && f.fromStdin:
		return errors.New("--password cannot be combined with --password-stdin")
	case given && f.password == "":
		return errors.New("the password is empty")
	case f.fromStdin && f.username == "":
		return errors.New("--password-stdin requires --username")
	case strings.Contains(f.username, ":"):
		return errors.New("a user's name has no colon in it")
	}
	return nil
}

func (a *app) loginToRegistry(ctx context.Context, server string, flags loginFlags) error {
	engine, err := a.engineClient()
	if err != nil {
		return err
	}
	if flags.password != "" {
		a.printWarnings([]string{"a password on the command line is seen by others; use --password-stdin"})
	}
	store := a.openCredentials()
	if flags.username == "" && flags.password == "" {
		known, err := store.OfRegistry(ctx, server)
		if err != nil {
			a.printWarnings([]string{err.Error()})
		}
		if !known.Empty() {
			if err := a.printLine("Authenticating with existing credentials..."); err != nil {
				return err
			}
			err := a.tryLogin(ctx, engine, store, server, known, known)
			if err == nil || !tty.Is(a.stdin) {
				return err
			}
			a.printError(err)
			flags.username = known.Username
		}
	}
	entered, err := a.askCredential(ctx, server, flags)
	if err != nil {
		return err
	}
	return a.tryLogin(ctx, engine, store, server, entered, credential.Credential{})
}

// askCredential completes what the flags say, from stdin.
func (a *app) askCredential(ctx context.Context, server string, flags loginFlags) (credential.Credential, error) {
	entered := credential.Credential{Username: flags.username, Password: flags.password}
	if flags.fromStdin {
		text, err := io.ReadAll(io.LimitReader(a.stdin, maxPassword))
		if err != nil {
			return entered, fmt.Errorf("read the password: %w", err)
		}
		entered.Password = strings.TrimRight(string(text), "\r\n")
		if entered.Password == "" {
			return entered, errors.New("the password is empty")
		}
		return entered, nil
	}
	if (entered.Username == "" || entered.Password == "") && !tty.Is(a.stdin) {
		return entered, errors.New("stdin is not a terminal to ask on; use --username and --password-stdin")
	}
	for _, question := range []struct {
		text   string
		answer *string
		hidden bool
	}{
		{"Username for " + credential.Host(server) + ": ", &entered.Username, false},
		{"Password: ", &entered.Password, true},
	} {
		if *question.answer != "" {
			continue
		}
		text, err := tty.ReadLine(ctx, a.stdin, tty.Question{Out: a.stderr, Text: question.text, Hidden: question.hidden})
		if err != nil || question.hidden {
			_, _ = fmt.Fprintln(a.stderr) // the user's own line end was not shown, or there was none
		}
		if *question.answer = text; err == nil && text == "" {
			err = errors.New("nothing was entered")
		}
		if err != nil {
			return entered, err
		}
	}
	return entered, nil
}

// tryLogin shows a registry credentials and keeps them if it takes them and they are not those that are known.
func (a *app) tryLogin(
	ctx context.Context, engine *client.Client, store *credential.Store, server string, c, known credential.Credential,
) error {
	result, err := engine.Login(ctx, authOf(server, c))
	if err != nil {
		return fmt.Errorf("login at %s: %w", credential.Host(server), err)
	}
	if result.IdentityToken != "" {
		c.Password, c.IdentityToken = "", result.IdentityToken
	}
	if c != known {
		helper, err := store.Put(ctx, server, c)
		if err != nil {
			return fmt.Errorf("login succeeded, but the credentials cannot be stored: %w", err)
		}
		if helper == "" {
			a.printWarnings([]string{"the credentials are kept unencrypted in " + store.Path() + "; a credential helper keeps them better"})
		}
	}
	return a.printLine(cmp.Or(result.Status, "Login Succeeded"))
}

func (a *app) logoutCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "logout [SERVER]",
		Short:             "Log out from a registry",
		Example:           "  moss logout localhost:5000",
		Args:              requireArgs(0, 1),
		ValidArgsFunction: a.completeRegistries,
		RunE: func(cmd *cobra.Command, args []string) error {
			server := ""
			if len(args) == 1 {
				server = args[0]
			}
			store := a.openCredentials()
			had, err := store.Erase(cmd.Context(), server)
			if err != nil {
				return err
			}
			host := credential.Host(server)
			if left, err := store.OfRegistry(cmd.Context(), server); err == nil && !left.Empty() {
				a.printWarnings([]string{"another file, which moss only reads, still has credentials for " + host})
			}
			if !had {
				return a.printLine("Not logged in to " + host)
			}
			return a.printLine("Removing login credentials for " + host)
		},
	}
}

// completeRegistries offers the registries that there are credentials for.
func (a *app) completeRegistries(_ *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	var hosts []string
	for _, host := range a.openCredentials().Known() {
		if len(args) == 0 && strings.HasPrefix(host, prefix) {
			hosts = append(hosts, host)
		}
	}
	return hosts, cobra.ShellCompDirectiveNoFileComp
}
