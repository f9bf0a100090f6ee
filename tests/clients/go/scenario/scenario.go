// Package scenario numbers the steps of what a client does with an engine, and ends it at the first that fails. It knows no
// client.
package scenario

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Scenario is one run.
type Scenario struct {
	Out    io.Writer // what is told of the steps
	steps  int
	failed bool
}

// Step runs do as the next step, unless one before it has failed.
func (s *Scenario) Step(what string, do func() error) {
	if s.failed {
		return
	}
	s.steps++
	s.say("step %d: %s", s.steps, what)
	if err := do(); err != nil {
		s.failed = true
		s.say("FAILED: %v", err)
	}
}

// End tells how many steps there were, and returns the program's exit status: 1 if one of them failed.
func (s *Scenario) End() int {
	if s.failed {
		return 1
	}
	s.say("steps: %d", s.steps)
	return 0
}

func (s *Scenario) say(format string, args ...any) {
	_, _ = fmt.Fprintf(s.Out, format+"\n", args...) // nobody to tell if nobody listens
}

// Equal is an error if got is not want.
func Equal[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s: got %v, want %v", what, got, want)
	}
	return nil
}

// Contains is an error if one of the parts does not occur in the text.
func Contains(what, text string, parts ...string) error {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return fmt.Errorf("%s: got %q, want it to contain %q", what, text, part)
		}
	}
	return nil
}

// First returns the first error of a list of checks, all of which have been made.
func First(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// ReadAll returns what a stream holds, and closes it.
func ReadAll(stream io.ReadCloser) (string, error) {
	text, err := io.ReadAll(stream)
	return string(text), errors.Join(err, stream.Close())
}

// Page returns what a server says.
func Page(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(answer.Body)
	return string(text), errors.Join(err, answer.Body.Close())
}

// Eventually tries until there is no error, for a minute.
func Eventually(ctx context.Context, do func() error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		err := do()
		if err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return err
		}
	}
}

// Archive is a tar archive of files: names and what is in them, by turns.
func Archive(files ...string) (*bytes.Buffer, error) {
	data := &bytes.Buffer{}
	w := tar.NewWriter(data)
	for i := 0; i+1 < len(files); i += 2 {
		if err := w.WriteHeader(&tar.Header{Name: files[i], Mode: 0o644, Size: int64(len(files[i+1]))}); err != nil {
			return nil, err
		}
		if _, err := io.WriteString(w, files[i+1]); err != nil {
			return nil, err
		}
	}
	return data, w.Close()
}

// File returns what a file of a tar archive holds.
func File(archive io.Reader, name string) (string, error) {
	r := tar.NewReader(archive)
	for {
		h, err := r.Next()
		if err != nil {
			return "", fmt.Errorf("%s in the archive: %w", name, err)
		}
		if strings.TrimPrefix(h.Name, "./") == name {
			data, err := io.ReadAll(r)
			return string(data), err
		}
	}
}
