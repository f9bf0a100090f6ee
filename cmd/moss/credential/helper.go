package credential

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// The protocol of the helpers: docker-credential-NAME ACTION, with the key or a record on stdin and a record on stdout.
const (
	helperPrefix = "docker-credential-"
	notFoundText = "credentials not found"
	tokenUser    = "<token>" // the user name of an identity token
)

// maxAnswer bounds what a helper says, in bytes.
const maxAnswer = 1 << 20

// helperGrace is how long a helper's children may keep its output open after it ended.
const helperGrace = 2 * time.Second

// errNotFound says that a helper keeps nothing for a key.
var errNotFound = errors.New(notFoundText)

// program is a helper. Secrets reach it and leave it by its standard streams only.
type program struct {
	name string
	env  []string
}

func (s *Store) helperProgram(helper string) program {
	return program{name: helperPrefix + helper, env: s.env}
}

// record is what helpers read and write.
type record struct {
	ServerURL string
	Username  string
	Secret    string
}

// get returns the credentials for a key, or errNotFound.
func (p program) get(ctx context.Context, key string) (Credential, error) {
	answer, err := p.call(ctx, "get", key)
	if err != nil {
		return Credential{}, err
	}
	var found record
	if err := json.Unmarshal(answer, &found); err != nil {
		return Credential{}, fmt.Errorf("%s get: the answer is no record", p.name)
	}
	if found.Username == tokenUser {
		return Credential{IdentityToken: found.Secret}, nil
	}
	return Credential{Username: found.Username, Password: found.Secret}, nil
}

// store keeps the credentials for a key.
func (p program) store(ctx context.Context, key string, c Credential) error {
	kept := record{ServerURL: key, Username: c.Username, Secret: c.Password}
	if c.IdentityToken != "" {
		kept.Username, kept.Secret = tokenUser, c.IdentityToken
	}
	raw, err := json.Marshal(kept)
	if err != nil {
		return fmt.Errorf("encode credentials: %w", err)
	}
	_, err = p.call(ctx, "store", string(raw))
	return err
}

// erase forgets the credentials for a key.
func (p program) erase(ctx context.Context, key string) error {
	_, err := p.call(ctx, "erase", key)
	return err
}

// call runs the helper once. A helper tells its errors on stdout.
func (p program) call(ctx context.Context, action, input string) ([]byte, error) {
	if strings.ContainsAny(p.name, "/\x00") {
		return nil, fmt.Errorf("credential helper %q: not the name of a program", p.name)
	}
	cmd := exec.CommandContext(ctx, p.name, action) //nolint:gosec // the user's own settings name the program
	cmd.Env, cmd.WaitDelay = p.env, helperGrace
	cmd.Stdin = strings.NewReader(input)
	stdout, stderr := &bounded{}, &bounded{}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s %s: %w", p.name, action, ctx.Err())
	case err == nil && stdout.over:
		return nil, fmt.Errorf("%s %s: the answer is larger than %d bytes", p.name, action, maxAnswer)
	case err == nil:
		return stdout.kept.Bytes(), nil
	}
	if _, ended := errors.AsType[*exec.ExitError](err); !ended {
		return nil, fmt.Errorf("%s %s: %w", p.name, action, err)
	}
	said := strings.TrimSpace(stdout.kept.String())
	if action != "store" && strings.Contains(said, notFoundText) {
		return nil, errNotFound
	}
	if said == "" {
		said = strings.TrimSpace(stderr.kept.String())
	}
	if _, more, cut := strings.Cut(said, "\n"); cut && more != "" {
		said, _, _ = strings.Cut(said, "\n") // the rest may be anything, also the secret
	}
	return nil, fmt.Errorf("%s %s: %w: %.200s", p.name, action, err, said)
}

// bounded keeps the first bytes of an output.
type bounded struct {
	kept bytes.Buffer // not embedded: it would offer to read more than Write takes
	over bool
}

// Write takes everything and keeps what fits.
func (b *bounded) Write(p []byte) (int, error) {
	fits := p[:min(len(p), maxAnswer-b.kept.Len())]
	b.over = b.over || len(fits) < len(p)
	b.kept.Write(fits)
	return len(p), nil
}
