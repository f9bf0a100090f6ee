package imagesvc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"

	"moss/engine/fault"
	"moss/engine/id"
	"moss/engine/image"
	"moss/storage"
)

// sendAll brings the layers and the config to the registry, several at a time, and returns the form in which the layers are
// there now, and the digests of those that were made for it. The topmost goes first, as clients list them. The first error
// ends the others.
func (p *push) sendAll(
	ctx context.Context, config []byte, layers []storage.LayerInfo,
) (sent []storage.Blob, made []digest.Digest, err error) {
	first := map[digest.Digest]int{} // where a layer is sent from: an image may have one several times
	var jobs []int
	for i, layer := range slices.Backward(layers) {
		if _, again := first[layer.DiffID]; again {
			continue
		}
		first[layer.DiffID] = i
		jobs = append(jobs, i)
		p.tell(image.Progress{ID: id.Short(layer.DiffID.String()), Status: "Preparing"})
	}
	for _, i := range jobs[min(p.s.uploads, len(jobs)):] {
		p.tell(image.Progress{ID: id.Short(layers[i].DiffID.String()), Status: "Waiting"})
	}
	sent, made = make([]storage.Blob, len(layers)), make([]digest.Digest, len(layers))
	err = inParallel(ctx, p.s.uploads, len(jobs)+1, func(ctx context.Context, n int) error {
		if n == len(jobs) {
			return p.sendConfig(ctx, config)
		}
		i := jobs[n]
		b, there, err := p.findLayer(ctx, i, layers[i])
		if sent[i] = b; err == nil && !there {
			sent[i], err = p.uploadLayer(ctx, i, layers[i])
			made[i] = sent[i].Digest
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	for i, layer := range layers {
		sent[i] = sent[first[layer.DiffID]]
	}
	return sent, made, nil
}

// inParallel calls do for 0 to n-1, not more than limit at a time, and waits for all of them. The first error ends the ctx of
// the others and comes back.
func inParallel(ctx context.Context, limit, n int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(limit, n) {
		wg.Go(func() {
			for i := range next {
				if ctx.Err() != nil {
					continue // given out at the same moment
				}
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := range n {
		select {
		case next <- i:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(next)
	wg.Wait()
	return context.Cause(ctx)
}

func (p *push) sendConfig(ctx context.Context, config []byte) error {
	b := storage.Blob{Digest: digest.FromBytes(config), Size: int64(len(config)), MediaType: p.family.configType()}
	there, err := p.dest.Has(ctx, b)
	if err != nil || there {
		return err
	}
	return p.sendAgain(ctx, id.Short(b.Digest.String()), func() (again bool, err error) {
		_, err = p.dest.Put(ctx, b, bytes.NewReader(config))
		return fault.Is(err, fault.Internal), err
	})
}

// findLayer reports whether the registry has a layer, or takes it over from another repository, and in what form.
func (p *push) findLayer(ctx context.Context, index int, layer storage.LayerInfo) (b storage.Blob, there bool, err error) {
	short := id.Short(layer.DiffID.String())
	known := p.family.candidateBlobs(index, layer)
	for _, b := range known {
		if there, err = p.dest.Has(ctx, b); err != nil {
			return b, false, err
		}
		if there {
			p.tell(image.Progress{ID: short, Status: "Layer already exists"})
			return b, true, nil
		}
	}
	for _, b := range known {
		if b.Digest == layer.DiffID {
			continue // a plain archive: registries hold it compressed
		}
		for _, from := range p.sources[layer.DiffID.String()] {
			if there, err = p.dest.Mount(ctx, from, b); err != nil {
				return b, false, err
			}
			if there {
				p.tell(image.Progress{ID: short, Status: "Mounted from " + from.Path()})
				return b, true, nil
			}
		}
	}
	return storage.Blob{}, false, nil
}

// retries are the pauses before an upload that broke is tried again, from its beginning: registries take no part of one up.
var retries = []time.Duration{time.Second, 5 * time.Second}

// sendAgain calls send until it succeeds, or says that another try cannot help, three times at most. short is whose
// progress tells of the pauses.
func (p *push) sendAgain(ctx context.Context, short string, send func() (again bool, err error)) error {
	for try := 0; ; try++ {
		again, err := send()
		if err == nil || !again || try == len(retries) || ctx.Err() != nil {
			return err
		}
		p.tell(image.Progress{ID: short, Status: "Retrying in " + retries[try].String()})
		select {
		case <-time.After(retries[try]):
		case <-ctx.Done():
			return err
		}
	}
}

// uploadLayer compresses a layer into the registry.
func (p *push) uploadLayer(ctx context.Context, index int, layer storage.LayerInfo) (sent storage.Blob, err error) {
	short := id.Short(layer.DiffID.String())
	err = p.sendAgain(ctx, short, func() (again bool, err error) {
		sent, again, err = p.uploadOnce(ctx, index, layer)
		return again, err
	})
	if err != nil {
		return storage.Blob{}, err
	}
	p.tell(image.Progress{ID: short, Status: "Pushed"})
	return sent, nil
}

// uploadOnce is one try. again says that the next one may do better: it is the way to the registry that failed.
func (p *push) uploadOnce(ctx context.Context, index int, layer storage.LayerInfo) (sent storage.Blob, again bool, err error) {
	plain, err := p.s.store.OpenLayer(ctx, p.img.ID, index)
	if err != nil {
		return storage.Blob{}, false, fmt.Errorf("read layer %s: %w", layer.DiffID, err)
	}
	g := newGzipper(&sending{
		ReadCloser: plain, tell: p.tell, total: max(layer.Size, 0), id: id.Short(layer.DiffID.String()),
	}, layer.DiffID, p.s.slots)
	kind := p.family.layerType(formGzip)
	sent, err = p.dest.Put(ctx, storage.Blob{Size: -1, MediaType: kind}, g)
	if cerr := g.Close(); err != nil || cerr != nil {
		return storage.Blob{}, !g.hasFailed() && fault.Is(err, fault.Internal), errors.Join(err, cerr)
	}
	if err := checkDigest(sent.Digest); err != nil {
		return storage.Blob{}, false, fmt.Errorf("the registry took layer %s: %w", layer.DiffID, err)
	}
	return storage.Blob{Digest: sent.Digest, Size: sent.Size, MediaType: kind}, false, nil
}

// sending tells how much of a layer has been read.
type sending struct {
	io.ReadCloser

	tell           func(image.Progress)
	id             string
	current, total int64
	told           time.Time
}

// Read returns bytes of the layer.
func (r *sending) Read(b []byte) (int, error) {
	n, err := r.ReadCloser.Read(b)
	r.current += int64(n)
	if now := time.Now(); errors.Is(err, io.EOF) || now.Sub(r.told) >= tick {
		r.told = now
		r.tell(image.Progress{ID: r.id, Status: "Pushing", Current: r.current, Total: r.total})
	}
	return n, err
}
