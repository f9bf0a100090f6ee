package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Reset stops the engine and removes its data folder, as far as moss has made it, and its log. Nobody starts another one
// meanwhile. left says which folder stays, since it holds files of others; empty if none does. What cannot be removed is an
// error, and the rest has gone.
func (s *Starter) Reset(ctx context.Context) (left string, err error) {
	if err := refuseRoot(os.Geteuid(), s.Env); err != nil {
		return "", err
	}
	root, err := s.Root()
	if err != nil {
		return "", err
	}
	if err := prepareRunDir(s.Place.RunDir); err != nil {
		return "", err
	}
	if _, err := s.Stop(ctx, true); err != nil { // first: who has the lock may wait for the end of that engine
		return "", err
	}
	release, err := takeStartLock(ctx, filepath.Join(s.Place.RunDir, startLock))
	if err != nil {
		return "", err
	}
	defer release()
	if _, err := s.Stop(ctx, true); err != nil { // and that is what they start then
		return "", err
	}
	if _, err := os.Lstat(root); err == nil {
		if err := s.clearData(ctx); err != nil {
			return "", err
		}
	}
	path := s.LogPath()
	if err := os.Remove(path); err != nil && !isMissing(err) {
		return "", err
	}
	_ = os.Remove(filepath.Dir(path)) // it may hold files of others
	if files, err := os.ReadDir(root); err == nil && len(files) > 0 {
		left = root
	}
	return left, nil
}

// clearData has the engine's program remove what lies in its data folder: it knows what it has made, and can remove files that
// belong to the user's sub-ids.
func (s *Starter) clearData(ctx context.Context) error {
	binary, err := s.findBinary()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, binary, "--reset", "--run-dir", s.Place.RunDir, "--log-format", "text", "--log-level", "error")
	cmd.Dir = "/"
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return errors.Join(fmt.Errorf("remove the data folder: %s --reset: %w", binary, err), errors.New(strings.TrimSpace(said.String())))
	}
	return nil
}
