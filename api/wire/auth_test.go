package wire_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"moss/api/apiver"
	"moss/api/types"
	"moss/api/wire"
	"moss/engine/image"
)

func TestAuthConfig(t *testing.T) {
	var got types.AuthConfig
	if err := wire.Decode([]byte(`{"username":"u","password":"p","auth":"eDp5"}`), &got, apiver.Max); err != nil {
		t.Fatal(err)
	}
	// user name and password come before what holds both of them
	if auth := wire.ToRegistryAuth(&got); auth.Username != "u" || auth.Password != "p" {
		t.Errorf("user %q, want u", auth.Username)
	}
	if shown := fmt.Sprintf("%v %+v %#v", got, got, got); strings.Contains(shown, "eDp5") || strings.Contains(shown, `"p"`) {
		t.Errorf("printed: %s", shown)
	}
}

func TestAuthOfOneText(t *testing.T) {
	for text, want := range map[string]image.RegistryAuth{
		base64.StdEncoding.EncodeToString([]byte("u:p:q")):       {Username: "u", Password: "p:q"},
		base64.StdEncoding.EncodeToString([]byte("u:p\x00\x00")): {Username: "u", Password: "p"},
		base64.StdEncoding.EncodeToString([]byte("u")):           {Username: "u"},
		"%": {},
		"":  {},
	} {
		auth := types.AuthConfig{Auth: types.Secret(text)}
		if got := wire.ToRegistryAuth(&auth); got != want {
			t.Errorf("auth %q gives user %q, want %q", text, got.Username, want.Username)
		}
	}
}

func FuzzDecodeBase64(f *testing.F) {
	for _, seed := range []string{"", "e30", "e30=", "_-8", "/+8=", " e30= ", "%", "="} {
		f.Add(seed, []byte("{}"))
	}
	f.Fuzz(func(t *testing.T, text string, raw []byte) {
		_, _ = wire.DecodeBase64(text)
		for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding, base64.RawURLEncoding} {
			if got, err := wire.DecodeBase64(encoding.EncodeToString(raw)); err != nil || !bytes.Equal(got, raw) {
				t.Errorf("DecodeBase64(%q) = %q, %v, want %q", encoding.EncodeToString(raw), got, err, raw)
			}
		}
	})
}

// TestContainerConfigFromAnywhere shows what others wrote into an image as far as it can be read.
func TestContainerConfigFromAnywhere(t *testing.T) {
	for raw, want := range map[string]string{
		``:                           "",
		`null`:                       "",
		`{"Hostname":"h"}`:           "h",
		`{"Hostname":"h","Cmd":1}`:   "",
		`{"Hostname":"h","New":[1]}`: "h",
		`[1]`:                        "",
	} {
		shown := wire.NewImageInspect(&image.Image{ContainerConfig: []byte(raw)}, "overlay").ContainerConfig
		if shown == nil || shown.Hostname != want || shown.Labels == nil {
			t.Errorf("%s: got %+v, want the host name %q and labels", raw, shown, want)
		}
	}
}
