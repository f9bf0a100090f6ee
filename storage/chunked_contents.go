package storage

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"moss/engine/tarfile"
	trees "moss/engine/tree"
)

// maxContents is how large a plain table of contents may be, in bytes; the library refuses larger ones too.
const maxContents = 50 << 20

// checkContents spends the budget of trees on a packed table of contents, which the library writes files from: no archive
// passes anybody who would check it.
func checkContents(packed []byte) error {
	r, err := zstd.NewReader(bytes.NewReader(packed), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxContents))
	if err != nil {
		return fmt.Errorf("table of contents: %w", err)
	}
	defer r.Close()
	var contents struct {
		Entries []struct {
			Type     string `json:"type"`
			Name     string `json:"name"`
			LinkName string `json:"linkName"`
		} `json:"entries"`
	}
	if err := json.NewDecoder(io.LimitReader(r, maxContents)).Decode(&contents); err != nil {
		return fmt.Errorf("table of contents: %w", err)
	}
	names := trees.NewNames(trees.NewBudget(trees.Limits{}))
	for _, e := range contents.Entries {
		kind, link := byte(tar.TypeReg), e.LinkName
		switch e.Type {
		case "chunk": // more of the file before
			continue
		case "dir":
			kind = tar.TypeDir
		case "symlink":
			kind = tar.TypeSymlink
		case "hardlink":
			kind = tar.TypeLink
			if link, err = tarfile.CleanName("link target", link, "layer"); err != nil {
				return err
			}
		}
		name, err := tarfile.CleanName("name", e.Name, "layer")
		if err == nil {
			err = names.Enter(name, kind, link)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
