package storage

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"

	"github.com/opencontainers/go-digest"
)

// changeImage changes the library's record of an image that is there. It is called with s.images held.
//
// The library (1.64) changes its records in memory first, and does not take that back when they cannot be written, on a full
// disk for instance: it is made to read them again, so that what answers an error has not been done.
func (c *catalog) changeImage(bare string, change func() error) error {
	c.flusher.markImage(bare)
	return c.changeRecords(change)
}

// changeRecords is changeImage for a change that does not wait for the flusher.
func (c *catalog) changeRecords(change func() error) error {
	err := change()
	if err != nil {
		err = errors.Join(err, c.rereadImages())
	}
	return err
}

func (c *catalog) addNames(bare string, names []string) error {
	return c.changeImage(bare, func() error { return c.cs.AddNames(bare, names) })
}

// addDocument keeps a document with an image.
func (c *catalog) addDocument(bare, key string, raw []byte, sum digest.Digest) error {
	return c.changeImage(bare, func() error {
		return c.cs.SetImageBigData(bare, key, raw, func([]byte) (digest.Digest, error) { return sum, nil })
	})
}

// rereadImages makes the library read its records of images anew: it does when another process has left its mark, 64 bytes
// that are never the same, in the lock file. They are overwritten, which takes no room.
func (c *catalog) rereadImages() error {
	file, err := os.OpenFile(filepath.Join(c.imagesFolder(), "images.lock"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	mark := make([]byte, 64)
	_, err = rand.Read(mark)
	if err == nil {
		_, err = file.WriteAt(mark, 0)
	}
	return errors.Join(err, file.Close())
}
