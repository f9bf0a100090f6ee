package remote

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"moss/engine/fault"
)

const (
	silence   = 120 * time.Second // without a sign of life from git, which reports its progress
	watch     = time.Second       // between two looks at the room that is left
	roomAhead = 32 << 20          // bytes that must be free while git writes
	maxOutput = 8 << 10           // bytes kept of what git says
	grace     = 5 * time.Second   // for pipes that others hold once git is dead
)

// runGit runs git in the checkout and returns what it prints, trimmed. The end of ctx, silence and a full disk kill it with all
// that it has started; it does not outlive the engine.
func (g *git) runGit(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	cmd := exec.CommandContext(ctx, g.program, args...)
	cmd.Dir, cmd.Env = g.dir, g.buildEnviron()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // it is this thread's death that the kernel answers: nobody else may use it up
	defer runtime.UnlockOSThread()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = grace
	var out, said tail
	said.heard = make(chan struct{}, 1)
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := g.checkRoom(); err != nil {
		return "", err
	}
	var watching sync.WaitGroup
	watching.Go(func() { g.watchProgress(ctx, cancel, said.heard) })
	err := cmd.Run()
	cause := context.Cause(ctx)
	cancel(nil)
	watching.Wait()
	switch {
	case err == nil:
		return strings.TrimSpace(out.String()), nil
	case cause != nil:
		return "", cause
	default:
		return "", wordGit(err, strings.ReplaceAll(said.String(), g.dir, "."))
	}
}

// checkRoom fails if there is no room for what git writes next.
func (g *git) checkRoom() error {
	if g.room == nil {
		return nil
	}
	return g.room(roomAhead, 1)
}

// watchProgress watches git and cancels it when it falls silent or the disk fills up.
func (g *git) watchProgress(ctx context.Context, cancel context.CancelCauseFunc, heard <-chan struct{}) {
	look := time.NewTicker(watch)
	defer look.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-heard:
			last = time.Now()
		case now := <-look.C:
			if now.Sub(last) > silence {
				cancel(fault.Internal("nothing was heard of the server for %s", silence))
				return
			}
			if err := g.checkRoom(); err != nil {
				cancel(err)
				return
			}
		}
	}
}

// buildEnviron returns the environment of git: nothing of the user's, and rules for what it may speak and run, which hold for
// submodules too. Credentials go to their own host alone, and stand neither in arguments nor in a file.
func (g *git) buildEnviron() []string {
	env := []string{
		"PATH=" + os.Getenv("PATH"),
		"LC_ALL=C",
		"HOME=" + g.missingDir(),
		"XDG_CONFIG_HOME=" + g.missingDir(),
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0",
		"GIT_ALLOW_PROTOCOL=http:https:git",
		"GIT_PROTOCOL_FROM_USER=0",
	}
	for _, name := range []string{
		"http_proxy", "https_proxy", "no_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY",
		"GIT_SSL_CAINFO", "GIT_SSL_CAPATH",
	} {
		if value := os.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	settings := [][2]string{
		{"core.hooksPath", "/dev/null"},
		{"core.fsmonitor", "false"},
		{"credential.helper", ""},
		{"protocol.file.allow", "never"},
		{"protocol.ext.allow", "never"},
		{"protocol.ssh.allow", "never"},
		{"gc.auto", "0"},
		{"maintenance.auto", "false"},
		{"advice.detachedHead", "false"},
	}
	if g.r.user != nil && g.r.remote.Scheme != "git" {
		settings = append(settings, [2]string{
			"http." + (&url.URL{Scheme: g.r.remote.Scheme, Host: g.r.remote.Host, Path: "/"}).String() + ".extraHeader",
			"Authorization: Basic " + encodeCredentials(g.r.user),
		})
	}
	env = append(env, "GIT_CONFIG_COUNT="+strconv.Itoa(len(settings)))
	for i, s := range settings {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, s[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, s[1]))
	}
	return env
}

func encodeCredentials(user *url.Userinfo) string {
	password, _ := user.Password()
	return base64.StdEncoding.EncodeToString([]byte(user.Username() + ":" + password))
}

// wordGit gives what git says its kind. It has no other way of telling than its words, which are the C locale's.
func wordGit(err error, said string) error {
	var lines []string
	for line := range strings.FieldsFuncSeq(said, func(c rune) bool { return c == '\n' || c == '\r' }) {
		if (strings.HasPrefix(line, "fatal: ") || strings.HasPrefix(line, "error: ")) && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	text := strings.Join(lines, "; ")
	if text == "" {
		text = err.Error()
	}
	switch {
	case strings.Contains(text, "couldn't find remote ref"), strings.Contains(text, "not found"),
		strings.Contains(text, "not exported"):
		return fault.NotFound("git: %s", text)
	case strings.Contains(text, "could not read Username"), strings.Contains(text, "Authentication failed"),
		strings.Contains(text, "error: 403"):
		return fault.Forbidden("git: %s", text)
	case strings.Contains(text, "transport ") && strings.Contains(text, "not allowed"):
		return fault.Invalid("git: %s", text)
	default:
		return errors.New("git: " + text)
	}
}

// tail keeps the end of what is written to it.
type tail struct {
	buf   bytes.Buffer
	heard chan struct{} // gets something now and then while there is output; may be nil
}

// Write keeps p.
func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	t.buf.Write(p)
	if over := t.buf.Len() - maxOutput; over > 0 {
		t.buf.Next(over)
	}
	select {
	case t.heard <- struct{}{}:
	default:
	}
	return n, nil
}

// String returns what was kept.
func (t *tail) String() string { return t.buf.String() }
