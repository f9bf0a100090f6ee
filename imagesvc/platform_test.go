package imagesvc

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"moss/engine/fault"
	"moss/engine/image"
)

func TestParsePlatform(t *testing.T) {
	if p, own, err := parsePlatform(""); err != nil || !own || p.Architecture != runtime.GOARCH {
		t.Errorf("parsePlatform of nothing = %v, %t, %v, want this machine", p, own, err)
	}
	if p, own, err := parsePlatform("linux/aarch64"); err != nil || own || p.String() != "linux/arm64" {
		t.Errorf("parsePlatform of another machine = %v, %t, %v, want linux/arm64", p, own, err)
	}
}

func TestChoose(t *testing.T) {
	for _, tc := range []struct {
		name, want string
		own        bool
		entries    string
		choice     string // empty: none
	}{
		{"plain", "linux/amd64", false, "linux/arm64 linux/amd64 windows/amd64", "linux/amd64"},
		{"own level first", "linux/amd64", true, "linux/amd64/v2 linux/amd64", "linux/amd64"},
		{"v1 is plain", "linux/amd64", false, "linux/amd64/v1", "linux/amd64/v1"},
		{"named level", "linux/amd64/v3", false, "linux/amd64 linux/amd64/v2 linux/amd64/v4", "linux/amd64/v2"},
		{"not above the named level", "linux/amd64", false, "linux/amd64/v2", ""},
		{"32 bit on this machine", "linux/amd64", true, "linux/386", "linux/386"},
		{"32 bit is not what was named", "linux/amd64", false, "linux/386", ""},
		{"arm v7 takes v6", "linux/arm/v7", false, "linux/arm/v5 linux/arm/v6", "linux/arm/v6"},
		{"arm v6 takes no v7", "linux/arm/v6", false, "linux/arm/v7", ""},
		{"arm v7 takes unnamed", "linux/arm/v7", false, "linux/arm", "linux/arm"},
		{"arm is v7", "linux/arm", false, "linux/arm/v6 linux/arm/v7 linux/arm/v8", "linux/arm/v7"},
		{"arm64 with variant", "linux/arm64", false, "linux/arm/v7 linux/arm64/v8", "linux/arm64/v8"},
		{"arm64 machine takes arm", "linux/arm64", true, "linux/arm/v6 linux/arm/v7", "linux/arm/v7"},
		{"others", "linux/riscv64", false, "linux/riscv64", "linux/riscv64"},
		{"none", "linux/s390x", false, "linux/amd64", ""},
		{"unknown entries", "linux/amd64", false, "unknown/unknown linux/amd64", "linux/amd64"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want, _, err := parsePlatform(tc.want)
			if err != nil {
				t.Fatal(err)
			}
			var entries []descriptor
			for text := range strings.FieldsSeq(tc.entries) {
				parts := append(strings.Split(text, "/"), "")
				entries = append(entries, descriptor{
					MediaType: typeOCIManifest, Digest: digest.FromString(text), Platform: &image.DistributedPlatform{Platform: image.Platform{OS: parts[0], Architecture: parts[1], Variant: parts[2]}},
				})
			}
			// What is no image is never chosen.
			p := image.DistributedPlatform{Platform: want}
			entries = append(entries,
				descriptor{MediaType: typeOCIIndex, Platform: &p, Digest: "index"},
				descriptor{MediaType: typeOCIManifest, Platform: &p, Digest: "attestation", Annotations: map[string]string{"vnd.docker.reference.type": "attestation-manifest"}},
				descriptor{MediaType: typeOCIManifest, Platform: &p, Digest: "artifact", ArtifactType: "application/x-thing"},
				descriptor{MediaType: typeOCIManifest, Digest: "nowhere"},
			)
			got, ok := chooseEntry(want, tc.own, entries)
			if ok != (tc.choice != "") || ok && got.Digest != digest.FromString(tc.choice) {
				t.Errorf("%s chose %v of %s, want %q", want, got.Platform, tc.entries, tc.choice)
			}
		})
	}
}

func TestPullOfIndex(t *testing.T) {
	reg := newStock(t)
	s, st, _ := puller(t, nil)
	entry := func(arch, variant string, layers ...[]byte) (map[string]any, digest.Digest) {
		g := reg.pack(layers...)
		g.kind, g.manifest["mediaType"] = typeOCIManifest, typeOCIManifest
		g.config["architecture"], g.config["variant"] = arch, variant
		d, config := reg.put(g)
		return map[string]any{
			"mediaType": typeOCIManifest, "digest": d, "size": len(reg.manifests[d.String()].raw),
			"platform": map[string]string{"os": "linux", "architecture": arch, "variant": variant},
		}, config
	}
	arm, armConfig := entry("arm64", "v8", oneFile(t, "arm", 10))
	own, ownConfig := entry(runtime.GOARCH, "", oneFile(t, "own", 10))
	index := reg.document(typeOCIIndex, map[string]any{
		"schemaVersion": 2, "mediaType": typeOCIIndex, "manifests": []any{arm, own},
	}, "v")
	pull := func(platform string) (lines, error) {
		var shown lines
		err := s.Pull(t.Context(), image.PullOptions{Repo: reg.repo(), Tag: "v", Platform: platform}, shown.add)
		return shown, err
	}
	shown, err := pull("")
	if err != nil || !strings.Contains(shown.once(), "Digest: "+index.String()) {
		t.Fatalf("Pull = %v, progress:\n%s", err, shown.once())
	}
	img, err := s.Get(t.Context(), reg.repo()+":v")
	if err != nil || img.ID != ownConfig.String() || len(img.RepoDigests) != 1 || img.RepoDigests[0] != reg.repo()+"@"+index.String() {
		t.Errorf("Get = %+v, %v, want %s with the index's digest", img, err, ownConfig)
	}
	if runtime.GOARCH != "arm64" {
		// The other platform is another image, and takes the names.
		if shown, err = pull("linux/arm64"); err != nil || !strings.Contains(shown.once(), "Downloaded newer image") {
			t.Errorf("Pull for arm64 = %v, progress:\n%s", err, shown.once())
		}
		if img, err = s.Get(t.Context(), reg.repo()+":v"); err != nil || img.ID != armConfig.String() {
			t.Errorf("Get = %+v, %v, want %s", img, err, armConfig)
		}
		if shown, err = pull("linux/arm64/v8"); err != nil || !strings.Contains(shown.once(), "up to date") {
			t.Errorf("Pull for arm64 again = %v, progress:\n%s", err, shown.once())
		}
		// Everything of the first one is here still.
		blobs := reg.count("blobs/*")
		if shown, err = pull(""); err != nil || reg.count("blobs/*") != blobs {
			t.Errorf("Pull for this machine again = %v, %d blobs, progress:\n%s", err, reg.count("blobs/*")-blobs, shown.once())
		}
	}
	// By its own digest the image gets that name besides, and nothing is fetched.
	if _, err = pull(""); err != nil {
		t.Fatal(err)
	}
	ownDigest, _ := own["digest"].(digest.Digest)
	for range 2 {
		blobs := reg.count("blobs/*")
		err = s.Pull(t.Context(), image.PullOptions{Repo: reg.repo(), Tag: ownDigest.String()}, shown.add)
		img, getErr := s.Get(t.Context(), reg.repo()+":v")
		if err != nil || getErr != nil || len(img.RepoDigests) != 2 || !slices.Contains(img.RepoDigests, reg.repo()+"@"+ownDigest.String()) ||
			reg.count("blobs/*") > blobs+1 {
			t.Errorf("Pull by the image's own digest = %v, names %v, %v, want the digest too and no layer fetched", err, img.RepoDigests, getErr)
		}
	}
	if _, err = pull("linux/s390x"); !fault.Is(err, fault.NotFound) || err.Error() != "no matching manifest for linux/s390x in the manifest list entries" {
		t.Errorf("Pull for s390x = %v", err)
	}
	_ = st
}

func TestPullOfBadIndex(t *testing.T) {
	for _, tc := range []struct {
		name, want string
		kind       fault.Constructor
		change     func(reg *stock, entry map[string]any)
	}{
		{"another size", "and the index says 7", nil, func(_ *stock, entry map[string]any) { entry["size"] = 7 }},
		{"leads to an index", "leads to another index", fault.Unsupported, func(reg *stock, entry map[string]any) {
			d := reg.document(typeOCIIndex, map[string]any{"schemaVersion": 2, "mediaType": typeOCIIndex, "manifests": []any{}})
			entry["digest"], entry["size"] = d, len(reg.manifests[d.String()].raw)
		}},
		{"another manifest", "manifest verification failed", nil, func(reg *stock, entry map[string]any) {
			d := digest.FromString("x")
			reg.manifests[d.String()] = reg.manifests[entry["digest"].(digest.Digest).String()]
			entry["digest"] = d
		}},
		{"no manifest", "not found", fault.NotFound, func(_ *stock, entry map[string]any) { entry["digest"] = digest.FromString("y") }},
		{"bad digest", "invalid digest", nil, func(_ *stock, entry map[string]any) { entry["digest"] = "sha256:x" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			reg := newStock(t)
			s, st, _ := puller(t, nil)
			d, _ := reg.put(reg.pack(oneFile(t, "a", 10)))
			entry := map[string]any{
				"mediaType": typeSchema2, "digest": d, "size": len(reg.manifests[d.String()].raw),
				"platform": map[string]string{"os": "linux", "architecture": runtime.GOARCH},
			}
			tc.change(reg, entry)
			reg.document(typeList, map[string]any{"schemaVersion": 2, "mediaType": typeList, "manifests": []any{entry}}, "v")
			err := s.Pull(t.Context(), image.PullOptions{Repo: reg.repo(), Tag: "v"}, nil)
			if err == nil || !strings.Contains(err.Error(), tc.want) || tc.kind != nil && !fault.Is(err, tc.kind) {
				t.Errorf("Pull = %v, want an error with %q", err, tc.want)
			}
			nothingLeft(t, st)
		})
	}
}
