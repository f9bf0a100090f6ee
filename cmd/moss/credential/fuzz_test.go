package credential

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// FuzzFile reads, changes and writes any file: what is written can be read again and holds what was put in.
func FuzzFile(f *testing.F) {
	for _, seed := range []string{
		`{"auths":{"r.io":{"auth":"YTpi"},"https://x.io/v1/":{}},"credsStore":"x","credHelpers":{"y.io":""},"z":[1e99]}`, `null`, ``, `{"auths":null}`,
	} {
		f.Add([]byte(seed), "r.io/a")
	}
	f.Fuzz(func(t *testing.T, text []byte, image string) {
		file, err := parseFile("config.json", bytes.NewReader(text))
		if err != nil {
			return
		}
		registry, repository := Registry(image), Repository(image)
		_ = file.helperFor(registry, repository)
		_, _ = file.credentialFor(registry, repository)
		want := Credential{Username: "u", Password: "p"}
		file.removeEntries(registry)
		if err := file.setEntry(registryKey(registry), want); err != nil {
			t.Fatal(err)
		}
		out, err := file.encode()
		if err != nil {
			t.Fatalf("encode: %v", err)
		}
		again, err := parseFile("config.json", bytes.NewReader(out))
		if err != nil {
			t.Fatalf("read again: %v\n%s", err, out)
		}
		if !json.Valid([]byte(`"`+registry+`"`)) || strings.ContainsRune(registry, '\uFFFD') || strings.ToValidUTF8(registry, "") != registry {
			return // no such registry can be written in JSON as it is
		}
		if got, err := again.readEntry(registryKey(registry), again.auths[registryKey(registry)]); err != nil || got != want {
			t.Errorf("%s has %q, %v, want what was put in", registry, got.Username, err)
		}
	})
}
