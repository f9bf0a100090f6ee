package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"moss/engine/fault"
	"moss/engine/tree"
	"moss/rootless"
)

// kept are the names in the data folder of all that engines keep. identityName, by which the folder is known as one of moss,
// goes after them. Other names are of others.
//
//nolint:gochecknoglobals // a constant list
var kept = []string{"containers", "volumes", "networks", "events", "build", "cache", "storage", "swarm", "damaged"}

// keptSwarm are the names in a folder that the setting swarm-dir names. swarmRecord, by which the folder is known as one of
// moss, goes after them.
//
//nolint:gochecknoglobals // a constant list
var keptSwarm = []string{"state", "tunnel.key", "networks.json"}

// resetOuter enters the namespaces for a reset and removes the folders at last, unless they hold something of others. Both are
// held as by an engine meanwhile.
func resetOuter(ctx context.Context, o rootless.Options) error {
	o.Listen = func(context.Context) (rootless.Sockets, error) { return noSockets{}, nil }
	if err := rootless.Outer(ctx, o); err != nil {
		return err
	}
	for _, dir := range []string{o.Root, o.RunDir} {
		_ = os.Remove(dir) // it fails where something is left
	}
	return nil
}

// resetInner is the work of the inner process, to which the files of the user's sub-ids belong. What cannot be removed does
// not keep the rest. swarmDir is the setting of that name, or empty. fault.Conflict if the data folder is not one of moss.
func resetInner(swarmDir string) error {
	facts, err := rootless.EngineFacts()
	if err != nil {
		return err
	}
	if err := clearData(facts.Root); err != nil {
		return err
	}
	if swarmDir != "" {
		err = clearSwarm(swarmDir)
	}
	for _, name := range []string{"tasks", "runtime"} { // an engine that was killed left them
		err = errors.Join(err, tree.RemovePath(filepath.Join(facts.RunDir, name)))
	}
	return err
}

// clearData removes from a data folder what engines keep there.
func clearData(root string) error {
	identity := filepath.Join(root, identityName)
	if _, err := os.Lstat(identity); errors.Is(err, os.ErrNotExist) {
		for _, name := range kept {
			if _, err := os.Lstat(filepath.Join(root, name)); err == nil {
				return fault.Conflict("%s has no file %s, by which a data folder of moss is known: nothing is removed", root, identityName)
			}
		}
		return nil
	}
	var failed error
	for _, name := range kept {
		failed = errors.Join(failed, tree.RemovePath(filepath.Join(root, name)))
	}
	if failed != nil {
		return fmt.Errorf("%s: %w", root, failed)
	}
	return os.Remove(identity)
}

// clearSwarm removes this node's part in a swarm from a folder outside the data folder. A folder without a record of a node is
// left as it is. The folder itself goes unless it holds files of others.
func clearSwarm(dir string) error {
	record := filepath.Join(dir, swarmRecord)
	if _, err := os.Lstat(record); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var failed error
	for _, name := range keptSwarm {
		failed = errors.Join(failed, tree.RemovePath(filepath.Join(dir, name)))
	}
	if failed != nil {
		return fmt.Errorf("%s: %w", dir, failed)
	}
	if err := os.Remove(record); err != nil {
		return err
	}
	_ = os.Remove(dir) // it fails where something is left
	return nil
}

// noSockets are those of a mossd that serves nobody.
type noSockets struct{}

// Files returns none.
func (noSockets) Files() []*os.File { return nil }

// Folders returns none.
func (noSockets) Folders() []string { return nil }

// Restore opens none.
func (noSockets) Restore(context.Context) ([]*os.File, error) { return nil, nil }

// Hosts returns none.
func (noSockets) Hosts() []string { return nil }

// Close does nothing.
func (noSockets) Close() error { return nil }
