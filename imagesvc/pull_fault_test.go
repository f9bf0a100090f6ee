package imagesvc

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"moss/engine/fault"
	"moss/engine/image"
)

func TestPullFaults(t *testing.T) {
	plain := oneFile(t, "file", 200_000)
	other := oneFile(t, "other", 200_000)
	// instead answers with raw where the n-th layer is asked for, whatever its size is said to be.
	instead := func(g *goods, raw []byte) func(http.ResponseWriter, *http.Request, string) bool {
		want := "blobs/" + g.layers[0]["digest"].(digest.Digest).String()
		return func(w http.ResponseWriter, _ *http.Request, what string) bool {
			if what != want {
				return false
			}
			w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
			_, _ = w.Write(raw)
			return true
		}
	}
	status := func(code int, path string) func(*stock, *goods) {
		return func(s *stock, _ *goods) {
			s.spoil = func(w http.ResponseWriter, _ *http.Request, what string) bool {
				if !strings.HasPrefix(what, path) {
					return false
				}
				refuse(w, code, map[int]string{
					http.StatusUnauthorized: "UNAUTHORIZED", http.StatusForbidden: "DENIED", http.StatusTooManyRequests: "TOOMANYREQUESTS",
				}[code])
				return true
			}
		}
	}
	for _, tc := range []struct {
		name   string
		change func(s *stock, g *goods)
		kind   fault.Constructor
		want   string
		opts   image.PullOptions
	}{
		{name: "wrong digest", want: "filesystem layer verification failed for digest sha256:", change: func(s *stock, g *goods) {
			raw := bytes.Clone(s.blobs[g.layers[0]["digest"].(digest.Digest).String()])
			raw[len(raw)/2] ^= 1
			s.spoil = instead(g, raw)
		}},
		{name: "another layer of the same size", want: "filesystem layer verification failed", change: func(s *stock, g *goods) {
			raw := make([]byte, g.layers[0]["size"].(int))
			copy(raw, compressed(t, other, toGzip))
			s.spoil = instead(g, raw)
		}},
		{name: "truncated", want: "the registry has 200558 bytes where the manifest says 200658", change: func(s *stock, g *goods) {
			raw := s.blobs[g.layers[0]["digest"].(digest.Digest).String()]
			s.spoil = instead(g, raw[:len(raw)-100])
		}},
		{name: "endless", want: "filesystem layer verification failed", change: func(s *stock, g *goods) {
			want := "blobs/" + g.layers[0]["digest"].(digest.Digest).String()
			s.spoil = func(w http.ResponseWriter, r *http.Request, what string) bool {
				if what != want {
					return false
				}
				for r.Context().Err() == nil {
					if _, err := w.Write(make([]byte, 64<<10)); err != nil {
						break
					}
				}
				return true
			}
		}},
		{name: "smaller size in the manifest", want: "the registry has 200658 bytes where the manifest says 200657", change: func(_ *stock, g *goods) {
			g.layers[0]["size"] = g.layers[0]["size"].(int) - 1
		}},
		{name: "larger size in the manifest", want: "the registry has 200658 bytes where the manifest says 200659", change: func(_ *stock, g *goods) {
			g.layers[0]["size"] = g.layers[0]["size"].(int) + 1
		}},
		{name: "negative size", want: "layer sha256:", change: func(_ *stock, g *goods) { g.layers[0]["size"] = -1 }},
		{name: "no digest", want: "layer: invalid digest", change: func(_ *stock, g *goods) { g.layers[0]["digest"] = "../../x" }},
		{name: "layer of an unknown type", kind: fault.Unsupported, want: "application/x-thing", change: func(_ *stock, g *goods) {
			g.layers[0]["mediaType"] = "application/x-thing"
		}},
		{name: "encrypted layer", kind: fault.Unsupported, want: "is encrypted", change: func(_ *stock, g *goods) {
			g.layers[0]["mediaType"] = typeOCILayer + "+gzip+encrypted"
		}},
		{name: "foreign layer", kind: fault.Unsupported, want: "is a foreign layer", change: func(_ *stock, g *goods) {
			g.layers[0]["mediaType"] = typeForeign + ".gzip"
		}},
		{name: "non-distributable layer", kind: fault.Unsupported, want: "is a foreign layer", change: func(_ *stock, g *goods) {
			g.layers[0]["mediaType"] = typeOCIBound + "+zstd"
		}},
		{name: "unknown manifest type", kind: fault.Unsupported, want: `manifest type "application/x-manifest" is not supported`, change: func(_ *stock, g *goods) {
			g.kind, g.manifest["mediaType"] = "application/x-manifest", "application/x-manifest"
		}},
		{name: "manifest of two minds", want: "calls itself", change: func(_ *stock, g *goods) { g.manifest["mediaType"] = typeOCIManifest }},
		{name: "schema 1", kind: fault.Unsupported, want: "manifest schema 1 is not supported: push the image again", change: func(_ *stock, g *goods) {
			g.kind, g.manifest["mediaType"], g.manifest["schemaVersion"] = typeSchema1Signed, typeSchema1Signed, 1
		}},
		{name: "artifact", kind: fault.Unsupported, want: "this is not an image", change: func(_ *stock, g *goods) {
			g.kind, g.manifest["mediaType"] = typeOCIManifest, typeOCIManifest
			g.manifest["config"] = map[string]any{"mediaType": "application/vnd.cncf.helm.config.v1+json", "size": 2, "digest": digest.FromString("{}")}
		}},
		{name: "artifact by its type", kind: fault.Unsupported, want: "this is not an image", change: func(_ *stock, g *goods) {
			g.kind, g.manifest["mediaType"], g.manifest["artifactType"] = typeOCIManifest, typeOCIManifest, "application/x-sbom"
		}},
		{name: "config that is no JSON", want: "the image's config cannot be read", change: func(s *stock, g *goods) {
			d := s.blob([]byte("{}}"))
			g.manifest["config"] = map[string]any{"mediaType": typeConfig, "size": 3, "digest": d}
		}},
		{name: "config of another digest", want: "image config verification failed for digest", change: func(s *stock, g *goods) {
			d := digest.FromString("something")
			s.blobs[d.String()] = []byte("different")
			g.manifest["config"] = map[string]any{"mediaType": typeConfig, "size": 9, "digest": d}
		}},
		{name: "config too large", want: "the config has 9000000 bytes", change: func(_ *stock, g *goods) {
			g.manifest["config"] = map[string]any{"mediaType": typeConfig, "size": 9_000_000, "digest": digest.FromString("x")}
		}},
		{name: "config without a rootfs", want: "invalid rootfs in image configuration", change: func(_ *stock, g *goods) { delete(g.config, "rootfs") }},
		{name: "another system", kind: fault.Unsupported, want: `image operating system "windows" cannot be used on this platform`, change: func(_ *stock, g *goods) {
			g.config["os"] = "windows"
		}},
		{name: "more layers than diff ids", want: "the image's config names 1 layers, and its manifest 2", change: func(_ *stock, g *goods) {
			g.layers = append(g.layers, g.layers[0])
		}},
		{name: "too many layers", kind: fault.Unsupported, want: "the image has 501 layers", change: func(_ *stock, g *goods) {
			for len(g.layers) < 501 {
				g.layers = append(g.layers, g.layers[0])
			}
		}},
		{name: "wrong diff id", want: "its content has the diff id", change: func(_ *stock, g *goods) {
			g.config["rootfs"] = map[string]any{"type": "layers", "diff_ids": []any{digest.FromString("x")}}
		}},
		{name: "layer that is no archive", want: "this is not a tar archive", change: func(s *stock, g *goods) {
			raw := bytes.Repeat([]byte("text "), 1000)
			g.layers[0]["digest"], g.layers[0]["size"] = s.blob(raw), len(raw)
		}},
		{name: "layer that leads out", want: "leads out", change: func(s *stock, g *goods) {
			raw := archive(t, file("../out", 5))
			g.layers[0]["digest"], g.layers[0]["size"] = s.blob(raw), len(raw)
		}},
		{name: "layer that is not there", kind: fault.NotFound, want: "is not in the registry", change: func(s *stock, g *goods) {
			delete(s.blobs, g.layers[0]["digest"].(digest.Digest).String())
		}},
		{name: "unknown tag", kind: fault.NotFound, want: "manifest for ", opts: image.PullOptions{Tag: "none"}, change: func(*stock, *goods) {}},
		{name: "unknown digest", kind: fault.NotFound, want: "manifest for ", opts: image.PullOptions{Tag: digest.FromString("x").String()}, change: func(*stock, *goods) {}},
		{name: "unauthorized", kind: fault.NotFound, want: "pull access denied for ", change: status(http.StatusUnauthorized, "manifests/")},
		{name: "forbidden", kind: fault.NotFound, want: "pull access denied for ", change: status(http.StatusForbidden, "manifests/")},
		{name: "too many requests", kind: fault.Unavailable, want: "toomanyrequests", change: status(http.StatusTooManyRequests, "manifests/")},
		{name: "out of order", kind: fault.Internal, want: "registry 127.0.0.1:", change: status(http.StatusInternalServerError, "manifests/")},
		{name: "blobs out of order", kind: fault.Internal, want: "registry 127.0.0.1:", change: status(http.StatusInternalServerError, "blobs/")},
		{
			name: "another platform than asked for", kind: fault.NotFound, opts: image.PullOptions{Platform: "linux/s390x"},
			want: "does not match the specified platform: wanted linux/s390x, actual: linux/amd64", change: func(*stock, *goods) {},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			reg := newStock(t)
			s, st, events := puller(t, nil)
			g := reg.pack(plain)
			tc.change(reg, g)
			reg.put(g, "v")
			opts := tc.opts
			opts.Repo = reg.repo()
			if opts.Tag == "" {
				opts.Tag = "v"
			}
			var shown lines
			err := s.Pull(t.Context(), opts, shown.add)
			if err == nil || !strings.Contains(err.Error(), tc.want) || tc.kind != nil && !fault.Is(err, tc.kind) {
				t.Errorf("Pull = %v, want an error with %q", err, tc.want)
			}
			if strings.Contains(shown.once(), "Status: ") || events.take() != "" {
				t.Errorf("it looks as if it worked:\n%s", shown.once())
			}
			nothingLeft(t, st)
			noFlights(t, s)

			// What went wrong leaves nothing behind that would stand in the way of another try.
			reg.mu.Lock()
			reg.spoil = nil
			reg.mu.Unlock()
			reg.put(reg.pack(plain), "good")
			if err := s.Pull(t.Context(), image.PullOptions{Repo: reg.repo(), Tag: "good"}, nil); err != nil {
				t.Errorf("Pull of a good image afterwards: %v", err)
			}
		})
	}
}

// noFlights makes sure that no layer is under way and nobody holds a slot, of which there are DefaultDownloads or so many.
func noFlights(t *testing.T, s *Service, slots ...int) {
	t.Helper()
	want := append(slots, DefaultDownloads())[0]
	s.flights.mu.Lock()
	defer s.flights.mu.Unlock()
	if n, held := len(s.flights.m), len(s.flights.committing); n+held != 0 {
		t.Errorf("%d layers under way, %d commits, want none", n, held)
	}
	if free, queue := s.flights.slots.free, len(s.flights.slots.queue); free != want || queue != 0 {
		t.Errorf("%d slots free, %d layers wait for one, want %d free", free, queue, want)
	}
}

func TestPullVerifiesDigestRef(t *testing.T) {
	reg := newStock(t)
	s, st, _ := puller(t, nil)
	good, _ := reg.put(reg.pack(oneFile(t, "a", 10)), "v")
	bad := reg.manifests["v"]
	bad.raw = append(bytes.Clone(bad.raw), ' ')
	reg.manifests[good.String()] = bad
	err := s.Pull(t.Context(), image.PullOptions{Repo: reg.repo(), Tag: good.String()}, nil)
	if err == nil || !strings.Contains(err.Error(), "manifest verification failed") {
		t.Errorf("Pull of a digest that the manifest has not = %v", err)
	}
	nothingLeft(t, st)
}

func TestPullCancelled(t *testing.T) {
	reg := newStock(t)
	s, st, _ := puller(t, nil)
	g := reg.pack(oneFile(t, "a", 300_000), oneFile(t, "b", 1000))
	reg.put(g, "v")
	gate := make(chan struct{})
	defer close(gate)
	first := g.layers[0]["digest"].(digest.Digest).String()
	reg.spoil = func(w http.ResponseWriter, r *http.Request, what string) bool {
		if what == "blobs/"+first {
			slow(w, reg.blobs[first], gate, r)
			return true
		}
		return false
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := s.Pull(ctx, image.PullOptions{Repo: reg.repo(), Tag: "v"}, func(p image.Progress) {
		if p.Status == "Downloading" && p.ID == blobID(g, 0) && p.Current > 0 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Pull = %v, want cancelled", err)
	}
	nothingLeft(t, st)
	noFlights(t, s)
}
