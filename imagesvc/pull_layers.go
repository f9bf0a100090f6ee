package imagesvc

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/rs/zerolog"

	"moss/engine/id"
	"moss/engine/image"
	"moss/storage"
)

const (
	// maxRounds is how often a pull begins again with what has gone, or what another pull failed to bring or was quicker to
	// use. In each of them somebody else came to an end, so that a dozen pulls at once can take a dozen.
	maxRounds = 32
	// growth and fileSize are what a compressed layer makes of itself, by a low guess: nobody is refused who has room.
	growth   = 2
	fileSize = 64 << 10
)

// errAgain says that a layer which another pull was to bring must be fetched after all.
var errAgain = errors.New("the layer must be fetched again")

// wantedLayer is one layer of an image that is pulled.
type wantedLayer struct {
	descriptor

	diffID digest.Digest
	nth    int // earlier places of the same blob in the image
	line   layerLine
	flight *flight // nil: not joined
	mine   bool    // this pull does the work
	again  bool    // the flight is of no use: join another
}

func newWantedLayer(d descriptor, diffID digest.Digest, nth int) *wantedLayer {
	return &wantedLayer{descriptor: d, diffID: diffID, nth: nth, line: layerLine{id: id.Short(d.Digest.Encoded()), total: d.Size}}
}

// isCompressed reports whether the layer grows when it is unpacked.
func (l *wantedLayer) isCompressed() bool {
	return !strings.HasSuffix(l.MediaType, ".tar")
}

// bringLayers fetches the layers that are not here and puts the image into the store. What is under way for nobody else
// ends with it.
func (p *pull) bringLayers(ctx context.Context) (*image.Image, error) {
	defer func() {
		for _, l := range p.layers {
			p.leaveFlight(ctx, l)
		}
	}()
	for round := 1; ; round++ {
		here := p.joinFlights(ctx)
		if round == 1 {
			if err := p.announceLayers(here); err != nil {
				return nil, err
			}
		}
		p.startFlights(here)
		err := p.waitForLayers(ctx, here)
		if err == nil {
			var img *image.Image
			if img, err = p.commitImage(ctx); err == nil {
				return img, nil
			}
		}
		if again := errors.Is(err, errAgain) || errors.Is(err, storage.ErrLayersGone); !again || round == maxRounds {
			return nil, err
		}
	}
}

// leaveFlight ends the interest in a layer's flight.
func (p *pull) leaveFlight(ctx context.Context, l *wantedLayer) {
	if l.flight == nil {
		return
	}
	f := l.flight
	l.flight, l.mine, l.again = nil, false, false
	if err := p.s.flights.leaveFlight(f); err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Str("layer", l.Digest.String()).Msg("staged layer not removed")
	}
}

// joinFlights takes part in the flights of all layers that are not in the store, and returns the number of those that are. It
// looks after joining: a flight that another pull has brought home before is in the store by then.
func (p *pull) joinFlights(ctx context.Context) (here int) {
	for _, l := range p.layers {
		if l.again {
			p.leaveFlight(ctx, l)
		}
		if l.flight == nil {
			l.flight = p.s.flights.joinFlight(ctx, blobKey{l.Digest, l.Size, l.diffID, l.nth})
		}
	}
	here = p.s.store.Here(p.diffIDs)
	for _, l := range p.layers[:here] {
		p.leaveFlight(ctx, l)
	}
	return here
}

// announceLayers tells the client of all layers and makes sure that those to fetch will fit.
func (p *pull) announceLayers(here int) error {
	var bytes, files int64
	for i, l := range p.layers {
		if i < here {
			l.line.shown = phaseStaged
			p.progress(image.Progress{ID: l.line.id, Status: "Already exists"})
			continue
		}
		l.line.shown = phaseKnown
		p.progress(image.Progress{ID: l.line.id, Status: phaseKnown.String()})
		n := l.Size
		if l.isCompressed() {
			n *= growth
		}
		bytes, files = bytes+n, files+1+n/fileSize
	}
	return p.s.store.Room(bytes, files)
}

// startFlights begins the work on layers that nobody else works on, the largest first: what is begun last ends soon.
func (p *pull) startFlights(here int) {
	order := slices.Clone(p.layers[here:])
	slices.SortStableFunc(order, func(a, b *wantedLayer) int { return cmp.Compare(b.Size, a.Size) })
	for _, l := range order {
		p.src.addUser()
		begun := p.s.flights.startFlight(l.flight, func(ctx context.Context, m *meter) (*storage.Staged, error) {
			return p.s.fetchLayer(ctx, p.src, l.descriptor, l.diffID, m)
		}, p.src.release)
		l.mine = l.mine || begun
	}
}

// waitForLayers returns when all layers from here on are staged, and tells the client meanwhile. The first failure ends it.
func (p *pull) waitForLayers(ctx context.Context, here int) error {
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for i := here; i < len(p.layers); {
		l := p.layers[i]
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.flight.done:
			if err := l.checkFailure(); err != nil {
				return err
			}
			l.line.reportEnd(&l.flight.meter, p.progress)
			i++
		case <-tick.C:
			for _, l := range p.layers[i:] {
				if err := l.checkFailure(); err != nil {
					return err
				}
				l.line.reportChanges(&l.flight.meter, p.progress)
			}
		}
	}
	return nil
}

// checkFailure returns why a layer will not come, nil as long as it may. Another pull's failure is a reason to try it oneself.
func (l *wantedLayer) checkFailure() error {
	select {
	case <-l.flight.done:
	default:
		return nil
	}
	if l.flight.err != nil && !l.mine {
		l.again = true
		return errAgain
	}
	return l.flight.err
}

// commitImage makes the image of what is here and what was staged. A layer that went into another image over other layers
// meanwhile is errAgain: the next round copies it from there.
func (p *pull) commitImage(ctx context.Context) (img *image.Image, err error) {
	err = p.s.flights.runCommit(ctx, func() (spent []*flight, err error) {
		here := p.s.store.Here(p.diffIDs)
		put := storage.Pulled{
			Config: p.config, Manifest: p.document, Index: p.index, DiffIDs: p.diffIDs, Layers: make([]*storage.Staged, len(p.layers)),
			Names: slices.Compact([]string{p.ref.Canonical(), p.digestName()}),
		}
		for i, l := range p.layers[here:] {
			if l.again = l.flight == nil || l.flight.staged == nil; l.again {
				err = errAgain
				continue
			}
			put.Layers[here+i] = l.flight.staged
			spent = append(spent, l.flight)
		}
		if err != nil {
			return nil, err
		}
		if img, err = p.s.store.PutPulled(ctx, put); errors.Is(err, storage.ErrLayersGone) {
			return nil, err
		}
		return spent, err
	})
	return img, err
}
