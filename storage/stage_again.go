package storage

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc64"
	"os"

	tarsplit "github.com/vbatts/tar-split/tar/storage"
	graphdriver "go.podman.io/storage/drivers"
	"golang.org/x/sys/unix"

	"moss/engine/tree"
)

// StageAgain stages the content of a staged layer once more, for another place of the same image. The first one stays as it
// is; it must not be spent.
//
// Errors are those of Stage.
func (g *staging) StageAgain(ctx context.Context, staged *Staged) (*Staged, error) {
	staged.mu.Lock()
	out, file := staged.out, staged.file
	staged.mu.Unlock()
	if file != "" {
		plain, err := os.Open(file)
		if err != nil {
			return nil, wrapError(err, "stage layer again")
		}
		again, err := g.Stage(ctx, plain, staged.blob)
		return again, errors.Join(err, plain.Close())
	}
	if out == nil || out.TarSplit == nil {
		return nil, ErrLayersGone
	}
	parts, err := newStagedAssembler(out)
	if err != nil {
		return nil, fmt.Errorf("stage layer again: %w", err)
	}
	defer parts.close()
	again, err := g.Stage(ctx, parts, staged.blob)
	if err == nil && again.diffID != staged.diffID {
		return nil, errors.Join(fmt.Errorf("stage layer again: %w", errDamaged), again.Discard())
	}
	return again, err
}

// newStagedAssembler puts the archive of a layer together that is part of nothing yet: its headers lie plain in a file
// without a name, which is opened anew, from its beginning.
func newStagedAssembler(out *graphdriver.DriverWithDifferOutput) (*assembler, error) {
	a := &assembler{file: -1, root: -1, crc: crc64.New(tarsplit.CRCTable)}
	var err error
	if a.headers, err = os.Open(tree.PathOf(int(out.TarSplit.Fd()))); err != nil {
		return nil, fmt.Errorf("open its headers: %w", err)
	}
	a.entries = json.NewDecoder(bufio.NewReaderSize(a.headers, 64<<10))
	if a.root, err = unix.Open(out.Target, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		a.close()
		return nil, fmt.Errorf("open its folder: %w", err)
	}
	return a, nil
}
