package imagesvc

import (
	"context"
	"errors"
	"io"
)

// What is read of layers before it is written: the next layer is opened while the last one is still on its way.
const (
	aheadSize   = 1 << 20 // bytes of a piece
	aheadPieces = 8
)

// ahead reads layers one after the other while somebody else writes them.
type ahead struct {
	free   chan []byte
	pieces chan piece
	done   chan struct{}
}

// piece is the next part of a layer; the last one of a layer has end, an error ends everything.
type piece struct {
	data []byte
	end  bool
	err  error
}

// readAhead begins to read the content of folders, in order. It ends with the last one, an error or ctx; wait waits.
func readAhead(ctx context.Context, from contents, folders []plannedFolder) *ahead {
	a := &ahead{free: make(chan []byte, aheadPieces), pieces: make(chan piece, aheadPieces), done: make(chan struct{})}
	for range aheadPieces {
		a.free <- nil
	}
	go func() {
		defer close(a.done)
		for _, f := range folders {
			if f.link != "" {
				continue
			}
			err := a.read(ctx, from, f)
			if err != nil {
				a.send(ctx, piece{err: err})
				return
			}
		}
	}()
	return a
}

// wait waits until nothing is read any more.
func (a *ahead) wait() { <-a.done }

// read reads one layer.
func (a *ahead) read(ctx context.Context, from contents, f plannedFolder) (err error) {
	layer, err := from.OpenLayer(ctx, f.imageID, f.index)
	if err != nil {
		return err
	}
	closed := false
	defer func() {
		if !closed {
			err = errors.Join(err, layer.Close())
		}
	}()
	for {
		var buf []byte
		select {
		case buf = <-a.free:
		case <-ctx.Done():
			return ctx.Err()
		}
		if buf == nil {
			buf = make([]byte, aheadSize)
		}
		n, err := io.ReadFull(layer, buf[:aheadSize])
		end := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !end {
			return err
		}
		if end {
			closed = true
			if err := layer.Close(); err != nil {
				return err
			}
		}
		if !a.send(ctx, piece{data: buf[:n], end: end}) {
			return ctx.Err()
		}
		if end {
			return nil
		}
	}
}

func (a *ahead) send(ctx context.Context, p piece) bool {
	select {
	case a.pieces <- p:
		return true
	case <-ctx.Done():
		return false
	}
}

// copyLayer writes the next layer. It returns the number of its bytes.
func (a *ahead) copyLayer(ctx context.Context, w io.Writer) (int64, error) {
	var total int64
	for {
		var p piece
		select {
		case p = <-a.pieces:
		case <-ctx.Done():
			return total, ctx.Err()
		}
		if p.err != nil {
			return total, p.err
		}
		n, err := w.Write(p.data)
		total += int64(n)
		if err != nil {
			return total, err
		}
		a.free <- p.data // has room: there are no more pieces than it holds
		if p.end {
			return total, nil
		}
	}
}
