package awslogs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// refusal is an answer of the service that is no success.
type refusal struct {
	address string
	action  string
	status  int
	kind    string // the service's name for it; empty: it gave none
	text    string
}

// Error says who refused, what and why.
func (r *refusal) Error() string {
	return fmt.Sprintf("awslogs %s: %s: status %d, %s: %q", r.address, r.action, r.status, r.kind, r.text)
}

// isAnswer reports whether an error is an answer of this kind.
func isAnswer(err error, kind string) bool {
	r, ok := errors.AsType[*refusal](err)
	return ok && r.kind == kind
}

// doRequest makes one signed request and returns the answer's body, which is a JSON object or empty. The error has the address.
// Credentials that may be the reason for it are forgotten, so that they are looked for again.
func (s *sender) doRequest(ctx context.Context, action string, body []byte) ([]byte, error) {
	bounded, cancel := context.WithTimeout(ctx, s.bound)
	defer cancel()
	request, err := http.NewRequestWithContext(bounded, http.MethodPost, s.endpoint+"/", bytes.NewReader(body))
	if err != nil {
		return nil, s.nameError(ctx, err)
	}
	request.Header.Set("Content-Type", "application/x-amz-json-1.1")
	request.Header.Set("X-Amz-Target", "Logs_20140328."+action)
	if s.options.Format != "" && action == actionPut {
		request.Header.Set("X-Amzn-Logs-Format", s.options.Format)
	}
	signRequest(request, body, s.region, s.key, time.Now())
	request.Header.Set("User-Agent", "moss-log") // not signed: a proxy may change it
	response, err := s.client.Do(request)
	if err != nil {
		return nil, s.nameError(ctx, err)
	}
	defer response.Body.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return nil, s.nameError(ctx, err)
	}
	if len(text) > maxAnswer {
		return nil, fmt.Errorf("awslogs %s: %s: answer of more than %d bytes", s.endpoint, action, maxAnswer)
	}
	if response.StatusCode == http.StatusOK {
		if len(text) > 0 && !json.Valid(text) {
			return nil, s.readRefusal(action, response, text)
		}
		return text, nil
	}
	refused := s.readRefusal(action, response, text)
	if refused.status == http.StatusForbidden || refused.status == http.StatusUnauthorized || concernsCredentials(refused.kind) {
		s.key = credentials{}
	}
	return nil, refused
}

// readRefusal makes an error of an answer. The text of the service may hold the request's signature, but never a secret.
func (s *sender) readRefusal(action string, response *http.Response, text []byte) *refusal {
	var said struct {
		Type    string `json:"__type"`
		Message string `json:"message"` // or Message: the names of fields match without case
	}
	if json.Unmarshal(text, &said) != nil || said.Type == "" && said.Message == "" {
		said.Message = string(text[:min(len(text), 200)])
	}
	if said.Type == "" {
		said.Type = response.Header.Get("X-Amzn-Errortype")
	}
	// The name may come with its space before it and with an address after it.
	_, kind, found := strings.Cut(said.Type, "#")
	if !found {
		kind = said.Type
	}
	kind, _, _ = strings.Cut(kind, ":")
	for _, secret := range []string{string(s.key.secret), string(s.key.session)} {
		if secret != "" {
			said.Message = strings.ReplaceAll(said.Message, secret, "[hidden]")
		}
	}
	return &refusal{address: s.endpoint, action: action, status: response.StatusCode, kind: kind, text: said.Message}
}

// concernsCredentials reports whether other credentials may be an answer to a refusal.
func concernsCredentials(kind string) bool {
	switch kind {
	case "ExpiredTokenException", "ExpiredToken", "UnrecognizedClientException", "InvalidClientTokenId",
		"InvalidSignatureException", "MissingAuthenticationTokenException", "AccessDeniedException":
		return true
	default:
		return false
	}
}

// nameError returns an error with the service's address and without what net/http says around its reason.
func (s *sender) nameError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("awslogs %s: %w", s.endpoint, ctx.Err())
	}
	if around, ok := errors.AsType[*url.Error](err); ok {
		err = around.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %s", s.bound)
	}
	return fmt.Errorf("awslogs %s: %w", s.endpoint, err)
}
