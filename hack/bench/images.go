package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"moss/hack/registry"
)

const (
	bigRepo    = "bench/big"
	hugeRepo   = "bench/huge"
	bigName    = "localhost/bench/big:latest"
	together   = 10 // clients that pull the same at once
	tagChanged = "changed"
)

// How layers are compressed.
const (
	kindGzip = "gzip"
	kindZstd = "zstd"
)

// shelf is a registry with the images to pull, and the archive to load.
type shelf struct {
	*registry.Registry
	archive string
	bytes   int64 // of the large image's layers
}

// makeShelf makes the images below dir and starts their registry.
func makeShelf(ctx context.Context, dir string) (_ *shelf, err error) {
	images := filepath.Join(dir, "images")
	if err := os.MkdirAll(images, 0o700); err != nil {
		return nil, err
	}
	layers, err := treeLayers(ctx, images, layerSizes())
	if err != nil {
		return nil, fmt.Errorf("make the large image: %w", err)
	}
	s := &shelf{archive: filepath.Join(images, "big.tar")}
	for _, layer := range layers {
		s.bytes += layer.size
	}
	if err := saveArchive(s.archive, bigName, layers); err != nil {
		return nil, err
	}
	if s.Registry, err = registry.Start(ctx, filepath.Join(dir, "registry")); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop())
		}
	}()
	for _, kind := range []string{kindGzip, kindZstd} {
		if err := s.pushImage(ctx, bigRepo, kind, kind, layers); err != nil {
			return nil, err
		}
	}
	changed := append([]layerFile(nil), layers...)
	last := len(changed) - 1
	if changed[last], err = randomLayer(filepath.Join(images, "changed.tar"), 1, layers[last].size); err != nil {
		return nil, err
	}
	return s, s.pushImage(ctx, bigRepo, tagChanged, kindGzip, changed)
}

// pushImage puts an image into the registry as repo:tag, with layers compressed in one way.
func (s *shelf) pushImage(ctx context.Context, repo, tag, kind string, layers []layerFile) error {
	blobs := make([]registry.Blob, 0, len(layers))
	for _, layer := range layers {
		content, err := compressLayer(layer, kind)
		if err != nil {
			return err
		}
		blob, err := s.PutLayer(ctx, repo, kind, content)
		if err != nil {
			return err
		}
		blobs = append(blobs, blob)
	}
	config, err := imageConfig(layers)
	if err != nil {
		return err
	}
	_, err = s.PutImage(ctx, repo, config, blobs, tag)
	return err
}

// pullImage fetches an image and returns the seconds it took.
func (a *api) pullImage(ctx context.Context, ref string) (float64, error) {
	repo, tag := ref[:strings.LastIndexByte(ref, ':')], ref[strings.LastIndexByte(ref, ':')+1:]
	query := url.Values{"fromImage": {repo}, "tag": {tag}}
	return a.streamMessages(ctx, "/v1.24/images/create?"+query.Encode(), "", "")
}

// streamMessages makes a request whose answer is a stream of messages, and fails if one of them is an error.
func (a *api) streamMessages(ctx context.Context, path, file, kind string) (float64, error) {
	var out strings.Builder
	began := time.Now()
	var err error
	if file == "" {
		_, err = a.copyAnswer(ctx, http.MethodPost, path, nil, "", &out)
	} else {
		body, openErr := os.Open(file)
		if openErr != nil {
			return 0, openErr
		}
		_, err = a.copyAnswer(ctx, http.MethodPost, path, body, kind, &out) // the client closes it
	}
	took := time.Since(began).Seconds()
	if err == nil && strings.Contains(out.String(), `"error"`) {
		err = fmt.Errorf("%s: %s", path, out.String())
	}
	return took, err
}

func (a *api) removeImage(ctx context.Context, ref string) (float64, error) {
	began := time.Now()
	err := a.call(ctx, http.MethodDelete, "/v1.24/images/"+ref+"?force=1", nil, "", nil)
	return time.Since(began).Seconds(), err
}

// measurePulls measures an image of 470 MiB in six layers on its way from a registry and from an archive, and back.
func (b *bench) measurePulls(ctx context.Context, i *instance) error {
	shelf, s := b.shelf, samples{}
	var err error
	for _, kind := range []string{kindGzip, kindZstd} {
		ref := shelf.Addr() + "/" + bigRepo + ":" + kind
		if s["pull "+kind], err = i.api.pullImage(ctx, ref); err != nil {
			return err
		}
		again, err := i.api.pullImage(ctx, ref)
		if err != nil {
			return err
		}
		s["pull again"] = again * 1000 //nolint:mnd // milliseconds
		if kind == kindGzip {
			other := shelf.Addr() + "/" + bigRepo + ":" + tagChanged
			if s["pull one layer of six"], err = i.api.pullImage(ctx, other); err != nil {
				return err
			}
			s["one layer / all"] = s["pull one layer of six"] / s["pull gzip"]
			if _, err := i.api.removeImage(ctx, other); err != nil {
				return err
			}
		}
		if s["remove"], err = i.api.removeImage(ctx, ref); err != nil {
			return err
		}
		if err := pause(ctx, settle); err != nil { // what an engine still deletes is not the next one's burden
			return err
		}
	}
	b.report.add(i.name, "image", s)
	return b.archiveImage(ctx, i, shelf)
}

// archiveImage measures load and save, and how fast the engine answers meanwhile.
func (b *bench) archiveImage(ctx context.Context, i *instance, shelf *shelf) error {
	s := samples{}
	var err error
	if s["load"], err = i.api.streamMessages(ctx, "/v1.24/images/load?quiet=1", shelf.archive, "application/x-tar"); err != nil {
		return err
	}
	began := time.Now()
	n, err := i.api.drainAnswer(ctx, http.MethodGet, "/v1.24/images/"+bigName+"/get", nil, "")
	if err != nil {
		return err
	}
	if n < shelf.bytes {
		return fmt.Errorf("the saved archive has %d bytes, less than its layers' %d", n, shelf.bytes)
	}
	s["save"] = time.Since(began).Seconds()
	if _, err := i.api.removeImage(ctx, bigName); err != nil {
		return err
	}
	if err := pause(ctx, settle); err != nil {
		return err
	}
	b.report.add(i.name, "image", s)
	return nil
}

// pullCrowd measures ten pulls of the same image at once beside one alone, how fast the engine answers meanwhile, and
// the memory that an image of 2 GiB takes to pull.
func (b *bench) pullCrowd(ctx context.Context, i *instance) error {
	shelf := b.shelf
	ref := shelf.Addr() + "/" + bigRepo + ":" + kindGzip
	alone, err := i.api.pullImage(ctx, ref)
	if err != nil {
		return err
	}
	if _, err := i.api.removeImage(ctx, ref); err != nil {
		return err
	}
	done := make(chan struct{})
	var s samples
	var all sync.WaitGroup
	errs := make([]error, together+1)
	began := time.Now()
	for k := range together {
		all.Go(func() { _, errs[k] = i.api.pullImage(ctx, ref) })
	}
	var asking sync.WaitGroup
	asking.Go(func() { s, errs[together] = timePings(ctx, i, done) })
	all.Wait()
	took := time.Since(began).Seconds()
	close(done)
	asking.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	s["ten at once / one"] = took / alone
	if _, err := i.api.removeImage(ctx, ref); err != nil {
		return err
	}
	if s["peak for 2 GiB"], err = b.hugePull(ctx, i, shelf); err != nil {
		return err
	}
	b.report.add(i.name, "pulls", s)
	return nil
}

// timePings times _ping until done is closed, and returns its 99th percentile in milliseconds.
func timePings(ctx context.Context, i *instance, done <-chan struct{}) (samples, error) {
	var times series
	for {
		began := time.Now()
		if err := i.api.call(ctx, http.MethodGet, "/_ping", nil, "", nil); err != nil {
			return nil, err
		}
		times = append(times, toMilliseconds(time.Since(began)))
		select {
		case <-done:
			return samples{"_ping p99": times.quantile(0.99)}, nil
		case <-time.After(busyPause):
		}
	}
}

// hugePull returns the most memory of the engine while it pulls an image of 2 GiB, in MB.
func (b *bench) hugePull(ctx context.Context, i *instance, shelf *shelf) (float64, error) {
	ref := shelf.Addr() + "/" + hugeRepo + ":latest"
	if !b.huge {
		layers := make([]layerFile, hugeLayers)
		var err error
		for k := range layers {
			if layers[k], err = randomLayer(filepath.Join(b.dir, "images", fmt.Sprintf("huge%d.tar", k)), byte(k+2), hugeLayer); err != nil { //nolint:gosec // a handful
				return 0, err
			}
		}
		if err := shelf.pushImage(ctx, hugeRepo, "latest", kindGzip, layers); err != nil {
			return 0, err
		}
		b.huge = true
	}
	if err := resetPeak(i.cmd.Process.Pid); err != nil {
		return 0, err
	}
	if _, err := i.api.pullImage(ctx, ref); err != nil {
		return 0, err
	}
	peak, err := peakOf(i.cmd.Process.Pid)
	if err != nil {
		return 0, err
	}
	_, err = i.api.removeImage(ctx, ref)
	return peak, err
}
