package client

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// Auth is what a registry is shown (API document 1, 2.6: AuthConfig). The zero value asks as nobody. It shows no secret
// when it is printed.
type Auth struct {
	Username      string `json:"username,omitempty"`
	Password      string `json:"password,omitempty"`
	IdentityToken string `json:"identitytoken,omitempty"` // takes the place of user name and password
	RegistryToken string `json:"registrytoken,omitempty"` // a bearer token that is sent as it is
	ServerAddress string `json:"serveraddress,omitempty"` // of the registry the rest is for
}

// Format writes the user's name and the registry, whatever the verb.
func (a Auth) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "{"+a.Username+" at "+a.ServerAddress+"}")
}

// headerValue returns the value of X-Registry-Auth: JSON in base64's alphabet for URLs.
func (a Auth) headerValue() (string, error) {
	raw, err := json.Marshal(a)
	if err != nil {
		return "", fmt.Errorf("encode credentials: %w", err)
	}
	return base64.URLEncoding.EncodeToString(raw), nil
}

// LoginResult is a registry's answer to credentials.
type LoginResult struct {
	Status        string
	IdentityToken string // empty: the registry has none to give, and the password has to be kept
}

// Login asks a registry whether it takes credentials. One that does not is an *Error with status 401.
func (c *Client) Login(ctx context.Context, auth Auth) (LoginResult, error) {
	var out LoginResult
	err := c.call(ctx, request{method: http.MethodPost, path: "/auth", json: auth}, &out)
	return out, err
}
