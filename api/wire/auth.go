package wire

import (
	"encoding/base64"
	"strings"

	"moss/engine/image"
)

// AuthConfig is what a client sends along for a registry (document 1, 2.6), in a header or as the body of auth. Password
// and tokens show themselves in no log.
type AuthConfig struct {
	Username      string       `json:"username"`
	Password      image.Secret `json:"password"`
	Auth          image.Secret `json:"auth"` // both of them, as configuration files hold them: base64 of user:password
	Email         string       `json:"email" api:"-1.22"`
	ServerAddress string       `json:"serveraddress"`
	IdentityToken image.Secret `json:"identitytoken" api:"1.24-"`
	RegistryToken image.Secret `json:"registrytoken"`
}

// Registry returns the credentials as the engine takes them. Registries have no use for the email address.
func (a *AuthConfig) Registry() image.RegistryAuth {
	auth := image.RegistryAuth{
		Username: a.Username, Password: a.Password, IdentityToken: a.IdentityToken, RegistryToken: a.RegistryToken,
		ServerAddress: a.ServerAddress,
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

// Login is the answer to auth.
type Login struct {
	Status        string
	IdentityToken string `api:"1.24-"`
}

// NewLogin fills the answer. The token goes out as it is: the client is to keep it.
func NewLogin(l image.Login) *Login {
	return &Login{Status: l.Status, IdentityToken: string(l.IdentityToken)}
}
