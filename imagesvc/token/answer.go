package token

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"moss/engine/fault"
	"moss/engine/image"
)

const (
	// shortest is what a token lives at least, and where the server does not say how long (API document 3, 5.3).
	shortest = time.Minute

	// longest is what is believed of a token's life.
	longest = 24 * time.Hour

	maxToken = 64 << 10 // bytes; no registry takes a longer header
	maxSaid  = 300      // characters of a server's own words in an error
)

// answer is what a token server gives.
type answer struct {
	token   Token
	refresh image.Secret // empty: none
}

// parseAnswer takes an answer of a token server apart (API document 3, 5.3). Its time counts from now, the completion of the
// exchange.
func (x *exchange) parseAnswer(r *reply) (answer, error) {
	var doc struct {
		AccessToken  string          `json:"access_token"`
		Token        string          `json:"token"` // the name in the GET form
		RefreshToken string          `json:"refresh_token"`
		Scope        json.RawMessage `json:"scope"`
		ExpiresIn    json.RawMessage `json:"expires_in"`
		IssuedAt     json.RawMessage `json:"issued_at"`
	}
	wrong := func(what string) error {
		return fmt.Errorf("get a token for %s from %s: %s", x.registry, x.realm.Host, what)
	}
	// The decoder's error may quote what it read.
	if err := json.Unmarshal(r.body, &doc); err != nil {
		return answer{}, wrong("the answer is not the JSON of a token")
	}
	if doc.AccessToken == "" {
		doc.AccessToken = doc.Token
	}
	switch {
	case doc.AccessToken == "":
		return answer{}, wrong("the answer has no token")
	case len(doc.AccessToken) > maxToken || !isVisible(doc.AccessToken):
		return answer{}, wrong("the token is none that a header can carry")
	case len(doc.RefreshToken) > maxToken:
		doc.RefreshToken = ""
	}
	t := Token{
		Value:   image.Secret(doc.AccessToken),
		Expires: computeExpiry(time.Now(), parseLifetime(jsonText(doc.ExpiresIn)), jsonText(doc.IssuedAt)),
	}
	var scope string
	if json.Unmarshal(doc.Scope, &scope) == nil {
		t.Scopes = append(Scopes{}, ParseScopes(scope)...)
	}
	return answer{token: t, refresh: image.Secret(doc.RefreshToken)}, nil
}

// jsonText returns a string or a number as text.
func jsonText(raw json.RawMessage) string { return strings.Trim(string(raw), `" `) }

// parseLifetime reads expires_in. Some servers send it as a string, or with a fraction.
func parseLifetime(seconds string) time.Duration {
	n, err := strconv.ParseFloat(seconds, 64)
	switch {
	case err != nil || !(n >= shortest.Seconds()): // also what is not a number
		return shortest
	case n >= longest.Seconds():
		return longest
	}
	return time.Duration(n) * time.Second
}

// computeExpiry counts from issued_at where it is given. The clocks of two machines differ: a time of issue that has not come
// yet is now, and a token has its minute however long ago it says it was issued. The result is a wall-clock time, since
// the other clock stands still while a laptop sleeps.
func computeExpiry(now time.Time, life time.Duration, issuedAt string) time.Time {
	end := now.Add(life)
	if issued, err := time.Parse(time.RFC3339, issuedAt); err == nil && issued.Before(now) {
		end = issued.Add(life)
		if least := now.Add(shortest); end.Before(least) {
			end = least
		}
	}
	return end.Round(0)
}

// refusalError turns an answer that brings no token into an error, in the server's words as far as they are safe to repeat.
func (x *exchange) refusalError(r *reply) error {
	code, said := parseError(r.body)
	said = scrubText(said, x.secrets)
	if said == "" {
		said = strings.ToLower(http.StatusText(r.status))
	}
	at := fmt.Sprintf("log in to %s: token server %s", x.registry, x.realm.Host)
	switch {
	case r.status == http.StatusUnauthorized, r.status == http.StatusBadRequest && code == "invalid_grant":
		return fault.Unauthorized("%s: unauthorized: %s", at, said)
	case r.status == http.StatusForbidden, r.status == http.StatusBadRequest && code == "access_denied":
		return fault.Forbidden("%s: denied: %s", at, said)
	case r.status == http.StatusTooManyRequests:
		if wait, ok := r.retryAfter(); ok {
			return fault.Unavailable("%s: too many requests: try again in %s", at, wait.Round(time.Second))
		}
		return fault.Unavailable("%s: too many requests", at)
	case r.status >= 300 && r.status < 400:
		return fmt.Errorf("%s: it sends us elsewhere, where credentials must not go", at)
	}
	return fmt.Errorf("%s: status %d: %s", at, r.status, said)
}

// parseError reads an error in the forms that token servers have: OAuth 2.0's (RFC 6749, 5.2), the registry's, and others
// that are seen. The code is OAuth's alone.
func parseError(body []byte) (code, said string) {
	var doc struct {
		Error       json.RawMessage `json:"error"`
		Description json.RawMessage `json:"error_description"`
		Details     json.RawMessage `json:"details"`
		Message     json.RawMessage `json:"message"`
		Errors      []struct {
			Message json.RawMessage `json:"message"`
		} `json:"errors"`
	}
	if json.Unmarshal(body, &doc) != nil {
		return "", ""
	}
	text := func(raw json.RawMessage) (s string) {
		if json.Unmarshal(raw, &s) != nil {
			return ""
		}
		return s
	}
	code = text(doc.Error)
	candidates := []string{text(doc.Description), text(doc.Details), text(doc.Message)}
	for _, e := range doc.Errors {
		candidates = append(candidates, text(e.Message))
	}
	for _, s := range append(candidates, strings.ReplaceAll(code, "_", " ")) {
		if s != "" {
			return code, s
		}
	}
	return code, ""
}

// scrubText makes a server's words fit for an error: short, in one line, and without what we sent it in confidence.
func scrubText(said string, secrets []string) string {
	for _, secret := range secrets {
		if secret != "" {
			said = strings.NewReplacer(secret, "[hidden]", url.QueryEscape(secret), "[hidden]").Replace(said)
		}
	}
	return printableText(said)
}

// printableText is a text from outside in one line of bounded length.
func printableText(text string) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
	if runes := []rune(text); len(runes) > maxSaid {
		return string(runes[:maxSaid]) + "…"
	}
	return text
}

// isVisible tells whether a text has nothing but visible ASCII characters.
func isVisible(text string) bool {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}
