package client

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"

	"moss/api/types"
)

// encodeAuth returns the value of X-Registry-Auth: JSON in base64's alphabet for URLs.
func encodeAuth(auth types.AuthConfig) (string, error) {
	raw, err := json.Marshal(auth)
	if err != nil {
		return "", fmt.Errorf("encode credentials: %w", err)
	}
	return base64.URLEncoding.EncodeToString(raw), nil
}

// Login asks a registry whether it takes credentials. One that does not is an *Error with status 401.
func (c *Client) Login(ctx context.Context, auth types.AuthConfig) (types.Login, error) {
	var out types.Login
	err := c.call(ctx, request{method: http.MethodPost, path: "/auth", json: auth}, &out)
	return out, err
}
