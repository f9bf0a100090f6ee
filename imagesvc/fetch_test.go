package imagesvc

import (
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"moss/engine/fault"
)

const (
	someDigest = `"sha256:4bcff63911fcb4448bd4fdacec207030997caf25e9bea4045fa6c8c44de311d1"`
	someBlob   = `{"mediaType":"` + typeConfig + `","size":2,"digest":` + someDigest + `}`
	someLayer  = `{"mediaType":"` + typeLayer + `.gzip","size":2,"digest":` + someDigest + `}`
)

func TestParseManifest(t *testing.T) {
	for _, tc := range []struct {
		name, raw, outside string
		want               string // media type, or the beginning of an error
		kind               fault.Constructor
	}{
		{"docker", `{"schemaVersion":2,"mediaType":"` + typeSchema2 + `","config":` + someBlob + `,"layers":[` + someLayer + `]}`, typeSchema2, typeSchema2, nil},
		{"oci without a type inside", `{"schemaVersion":2,"config":` + someBlob + `,"layers":[]}`, typeOCIManifest + "; charset=utf-8", typeOCIManifest, nil},
		{"without any type", `{"schemaVersion":2,"config":` + someBlob + `,"layers":[]}`, "", typeOCIManifest, nil},
		{"index without any type", `{"schemaVersion":2,"manifests":[]}`, "application/json", typeOCIIndex, nil},
		{"type inside alone", `{"schemaVersion":2,"mediaType":"` + typeList + `","manifests":[]}`, "text/plain", typeList, nil},
		{"both without a type", `{"schemaVersion":2,"manifests":[],"config":` + someBlob + `,"layers":[]}`, "", "manifest type", fault.Unsupported},
		{"both as an index", `{"schemaVersion":2,"manifests":[],"layers":[` + someLayer + `]}`, typeOCIIndex, "the manifest is an index and has layers", nil},
		{"both as an image", `{"schemaVersion":2,"manifests":[],"config":` + someBlob + `}`, typeOCIManifest, "the manifest is that of an image and has", nil},
		{"schema 1 by its number", `{"schemaVersion":1,"fsLayers":[]}`, "", "manifest schema 1", fault.Unsupported},
		{"schema 1 by its type", `{"fsLayers":[]}`, typeSchema1, "manifest schema 1", fault.Unsupported},
		{"schema 3", `{"schemaVersion":3,"config":` + someBlob + `}`, typeSchema2, "the manifest has schema version 3", nil},
		{"no config", `{"schemaVersion":2,"layers":[]}`, typeSchema2, "the manifest names no config", nil},
		{"no JSON", `<html>`, typeSchema2, "the manifest cannot be read", nil},
		{"html", `{}`, "text/html", "manifest type", fault.Unsupported},
		{"md5", `{"schemaVersion":2,"config":{"digest":"md5:d41d8cd98f00b204e9800998ecf8427e"}}`, typeSchema2, "config: invalid digest", nil},
		{"sha384", `{"schemaVersion":2,"config":{"digest":"sha384:` + strings.Repeat("a", 96) + `"}}`, typeSchema2, "config: digest", nil},
		{"huge size", `{"schemaVersion":2,"config":` + someBlob + `,"layers":[{"digest":` + someDigest + `,"size":9223372036854775807}]}`, typeSchema2, "layer sha256:", nil},
		{"too long", strings.Repeat(" ", maxManifest+1), typeSchema2, "the manifest has more than", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, err := parseManifest([]byte(tc.raw), tc.outside)
			switch {
			case err == nil && m.MediaType != tc.want:
				t.Errorf("type %s, want %s", m.MediaType, tc.want)
			case err != nil && (!strings.HasPrefix(err.Error(), tc.want) || tc.kind != nil && !fault.Is(err, tc.kind)):
				t.Errorf("error %v, want %s", err, tc.want)
			}
		})
	}
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"schemaVersion":2,"config":`+someBlob+`,"layers":[`+someLayer+`]}`), typeSchema2)
	f.Add([]byte(`{"schemaVersion":2,"manifests":[{"mediaType":"`+typeSchema2+`","digest":`+someDigest+`,"platform":{"os":"linux","architecture":"amd64"}}]}`), typeList)
	f.Add([]byte(`{"schemaVersion":1}`), "")
	f.Fuzz(func(t *testing.T, raw []byte, mediaType string) {
		m, err := parseManifest(raw, mediaType)
		if err != nil {
			return
		}
		if len(m.Layers) > maxLayers {
			t.Errorf("%d layers came through", len(m.Layers))
		}
		all := slices.Concat(m.Layers, m.Manifests)
		if !m.isIndex() {
			all = append(all, m.Config)
		}
		for _, d := range all {
			if d.Digest.Validate() != nil || d.Size < 0 || d.Size > maxBlob {
				t.Errorf("%+v came through", d)
			}
		}
		want, _, _ := parsePlatform("linux/amd64")
		if entry, ok := chooseEntry(want, true, m.Manifests); ok && entry.Platform == nil {
			t.Errorf("chose %+v", entry)
		}
	})
}

func FuzzImageConfig(f *testing.F) {
	f.Add([]byte(`{"os":"linux","rootfs":{"type":"layers","diff_ids":[`+someDigest+`]}}`), 1)
	f.Add([]byte(`{"rootfs":{"type":"layers"}}`), 0)
	f.Fuzz(func(t *testing.T, raw []byte, layers int) {
		c, err := parseConfig(raw, layers)
		if err != nil {
			return
		}
		if len(c.diffIDs) != layers {
			t.Errorf("%d diff ids came through for %d layers", len(c.diffIDs), layers)
		}
		for _, d := range c.diffIDs {
			if d.Validate() != nil || d.Algorithm() != digest.SHA256 {
				t.Errorf("the diff id %q came through", d)
			}
		}
	})
}

func FuzzPlatform(f *testing.F) {
	f.Add("linux/arm/v7")
	f.Add("x86_64")
	f.Fuzz(func(t *testing.T, text string) {
		p, own, err := parsePlatform(text)
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Errorf("%v is no invalid fault", err)
			}
			return
		}
		if len(candidatePlatforms(p, own)) == 0 || p.NormalForm() != p {
			t.Errorf("parsePlatform(%q) = %v with the candidates %v", text, p, candidatePlatforms(p, own))
		}
	})
}
