package wire

import (
	"encoding/base64"
	"strings"

	"moss/api/types"
	"moss/engine/image"
)

// ToRegistryAuth returns credentials as the engine takes them. Registries have no use for the email address.
func ToRegistryAuth(a *types.AuthConfig) image.RegistryAuth {
	auth := image.RegistryAuth{
		Username: a.Username, Password: image.Secret(a.Password), IdentityToken: image.Secret(a.IdentityToken),
		RegistryToken: image.Secret(a.RegistryToken), ServerAddress: a.ServerAddress,
	}
	if auth.Username == "" && auth.Password == "" {
		if raw, err := DecodeBase64(string(a.Auth)); err == nil {
			user, password, _ := strings.Cut(strings.TrimRight(string(raw), "\x00"), ":")
			auth.Username, auth.Password = user, image.Secret(password)
		}
	}
	return auth
}

// DecodeBase64 reads either alphabet of base64, padded or not: clients have sent all four.
func DecodeBase64(text string) ([]byte, error) {
	text = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimSpace(text))
	return base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
}

// NewLogin fills the answer. The token goes out as it is: the client is to keep it.
func NewLogin(l image.Login) *types.Login {
	return &types.Login{Status: l.Status, IdentityToken: string(l.IdentityToken)}
}
