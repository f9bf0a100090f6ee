package imagesvc

import (
	"context"
	"errors"
	"io"
)

// ahead gives one layer after the other to who writes them. The next one is open while the last one is still written: the
// store reads some way ahead of who reads a layer.
type ahead struct {
	from    contents
	folders []plannedFolder // not opened yet
	next    io.ReadCloser   // nil: there is none, or err
	err     error
}

// newAhead opens the first layer of folders. close ends it.
func newAhead(ctx context.Context, from contents, folders []plannedFolder) *ahead {
	a := &ahead{from: from, folders: folders}
	a.openNext(ctx)
	return a
}

// openNext opens the next layer. Its error is that layer's: it comes when the layer's turn does.
func (a *ahead) openNext(ctx context.Context) {
	for len(a.folders) > 0 && a.next == nil && a.err == nil {
		f := a.folders[0]
		a.folders = a.folders[1:]
		if f.link == "" {
			a.next, a.err = a.from.OpenLayer(ctx, f.imageID, f.index)
		}
	}
}

// copyLayer writes the next layer. It returns the number of its bytes.
func (a *ahead) copyLayer(ctx context.Context, w io.Writer) (int64, error) {
	if a.err != nil {
		return 0, a.err
	}
	layer := a.next
	a.next = nil
	a.openNext(ctx)
	n, err := io.Copy(w, layer)
	return n, errors.Join(err, layer.Close())
}

// close closes the layer that nobody has asked for.
func (a *ahead) close() {
	if a.next != nil {
		a.next.Close() //nolint:errcheck // an error is known already
	}
}
