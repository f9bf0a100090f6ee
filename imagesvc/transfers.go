package imagesvc

import (
	"cmp"
	"context"
	"runtime"

	"moss/engine/image"
	"moss/imagesvc/registry"
	"moss/imagesvc/token"
)

// Transfers brings images from registries and to them, and asks registries for what they have. Its methods may be called
// by any number of goroutines.
type Transfers struct {
	*collection

	registry     *registry.Client
	tokens       *token.Service
	destinations func(ctx context.Context, ref image.Ref, auth image.RegistryAuth) (destination, error)
	uploads      int
	slots        chan struct{} // one for each processor that compresses layers

	sources registries // nil: there is no way to registries
	flights *flights
}

func newTransfers(c *collection, opts Options) *Transfers {
	s := &Transfers{
		collection: c,
		registry:   opts.Registry,
		tokens:     opts.Tokens,
		uploads:    cmp.Or(opts.MaxUploads, defaultUploads),
		slots:      make(chan struct{}, runtime.GOMAXPROCS(0)),
		flights:    newFlights(cmp.Or(opts.MaxDownloads, DefaultDownloads())),
	}
	if s.tokens == nil {
		s.tokens = token.New()
	}
	s.destinations = s.openDestination
	if opts.Registry != nil {
		s.sources = network{opts.Registry}
	}
	return s
}
