// Command tokend is a token server for the tests: the server's side of API document 3, 5.3, strict about every rule in
// it, and of the older GET form. Docker's registry takes its tokens.
//
//	tokend serve -dir DIR -users FILE [-addr A] [-post=on|off] [-offline=on|off] [-expires N] [-log FILE] [-tls]
//	tokend cert -dir DIR -hosts HOST[,HOST]
//	tokend htpasswd USER PASSWORD
//
// serve writes the certificate of its signing key to DIR/token.crt (the registry's rootcertbundle), prints "ready ADDRESS"
// and runs until SIGTERM. SIGHUP revokes all refresh tokens. The file of users has lines USER:PASSWORD. With -tls it
// uses what cert wrote to DIR: a CA (ca.crt), a server's certificate (server.crt, server.key) and a client's (client.cert,
// client.key). htpasswd prints a line for the registry's file of that name.
//
// Everybody may pull what is not below private/; users may pull and push everything.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/crypto/bcrypt"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "tokend:", err)
		os.Exit(1) //nolint:gocritic // nothing is left to stop
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("want serve, cert or htpasswd")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	dir := flags.String("dir", ".", "where keys and certificates are")
	switch args[0] {
	case "cert":
		hosts := flags.String("hosts", "127.0.0.1,localhost", "what the server is called")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return writeCertificates(*dir, strings.Split(*hosts, ","))
	case "htpasswd":
		if len(args) != 3 {
			return errors.New("want USER PASSWORD")
		}
		hash, err := bcrypt.GenerateFromPassword([]byte(args[2]), bcrypt.MinCost)
		if err == nil {
			_, err = fmt.Fprintf(out, "%s:%s\n", args[1], hash)
		}
		return err
	case "serve":
		return serve(ctx, flags, args[1:], dir, out)
	}
	return fmt.Errorf("no such command: %s", args[0])
}

func serve(ctx context.Context, flags *flag.FlagSet, args []string, dir *string, out io.Writer) error {
	addr := flags.String("addr", "127.0.0.1:0", "where to listen")
	users := flags.String("users", "", "file with lines USER:PASSWORD")
	post := flags.String("post", "on", "on: the POST form is known; off: it answers 404")
	offline := flags.String("offline", "on", "on: refresh tokens are issued; off: they are not")
	expires := flags.Int("expires", 300, "seconds that an access token lives")
	logFile := flags.String("log", "", "one JSON object for each request, without secrets")
	useTLS := flags.Bool("tls", false, "serve over TLS")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s := newServer()
	s.post, s.offline, s.life = *post == "on", *offline == "on", time.Duration(*expires)*time.Second
	var err error
	if s.users, err = readUsers(*users); err != nil {
		return err
	}
	if s.signer, err = newSigner(filepath.Join(*dir, "token.crt")); err != nil {
		return err
	}
	if *logFile != "" {
		f, err := os.OpenFile(*logFile, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		s.log = json.NewEncoder(f)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", *addr)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, "ready", listener.Addr()); err != nil {
		return err
	}
	return s.run(ctx, out, listener, *useTLS, *dir)
}

// run serves until ctx ends. It says "revoked" once it has taken back the refresh tokens.
func (s *server) run(ctx context.Context, out io.Writer, listener net.Listener, useTLS bool, dir string) error {
	web := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	ended := make(chan error, 1)
	go func() {
		if useTLS {
			ended <- web.ServeTLS(listener, filepath.Join(dir, "server.crt"), filepath.Join(dir, "server.key"))
		} else {
			ended <- web.Serve(listener)
		}
	}()
	for {
		select {
		case <-hangup:
			s.revokeTokens()
			if _, err := fmt.Fprintln(out, "revoked"); err != nil {
				return err
			}
		case err := <-ended:
			return err
		case <-ctx.Done():
			err := web.Close()
			<-ended //nolint:errcheck // it says that it was closed
			return err
		}
	}
}

func readUsers(path string) (map[string]string, error) {
	users := make(map[string]string)
	if path == "" {
		return users, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if user, password, ok := strings.Cut(lines.Text(), ":"); ok {
			users[user] = password
		}
	}
	return users, nil
}
