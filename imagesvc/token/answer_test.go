package token

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"moss/engine/fault"
	"moss/engine/image"
)

func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		at := func(d time.Duration) string { return now.Add(d).UTC().Format(time.RFC3339) }
		for _, tc := range []struct {
			name   string
			fields object
			want   time.Duration // from now
		}{
			{"nothing", object{}, time.Minute},
			{"seconds", object{"expires_in": 300}, 5 * time.Minute},
			{"less than a minute", object{"expires_in": 5}, time.Minute},
			{"none", object{"expires_in": 0}, time.Minute},
			{"negative", object{"expires_in": -300}, time.Minute},
			{"a fraction", object{"expires_in": 120.7}, 2 * time.Minute},
			{"a string", object{"expires_in": "120"}, 2 * time.Minute},
			{"not a number", object{"expires_in": "NaN"}, time.Minute},
			{"a list", object{"expires_in": []int{300}}, time.Minute},
			{"for ever", object{"expires_in": 1e300}, longest},
			{"issued now", object{"expires_in": 300, "issued_at": at(0)}, 5 * time.Minute},
			{"issued a while ago", object{"expires_in": 300, "issued_at": at(-time.Minute)}, 4 * time.Minute},
			{"issued with a zone", object{"expires_in": 300, "issued_at": now.Add(-time.Minute).In(time.FixedZone("x", 7200)).Format(time.RFC3339Nano)}, 4 * time.Minute},
			{"never less than a minute", object{"expires_in": 300, "issued_at": at(-280 * time.Second)}, time.Minute},
			{"their clock is behind", object{"expires_in": 300, "issued_at": at(-24 * time.Hour)}, time.Minute},
			{"their clock is ahead", object{"expires_in": 300, "issued_at": at(time.Hour)}, 5 * time.Minute},
			{"issued by Go's zero", object{"expires_in": 300, "issued_at": "0001-01-01T00:00:00Z"}, time.Minute},
			{"not a time", object{"expires_in": 300, "issued_at": "yesterday"}, 5 * time.Minute},
			{"a number", object{"expires_in": 300, "issued_at": 1700000000}, 5 * time.Minute},
		} {
			tc.fields["token"] = "t"
			body, err := json.Marshal(tc.fields)
			if err != nil {
				t.Fatal(err)
			}
			a, err := (&exchange{}).parseAnswer(&reply{body: body})
			if got := a.token.Expires.Sub(now); err != nil || got != tc.want {
				t.Errorf("%s: %s is good for %s, %v; want %s", tc.name, body, got, err, tc.want)
			}
		}
	})
}

func TestAnswersThatAreNone(t *testing.T) {
	long := strings.Repeat("x", maxToken+1)
	for _, tc := range []struct{ name, body, want string }{
		{"empty", "", "not the JSON"},
		{"a page", "<html>secret</html>", "not the JSON"},
		{"cut", `{"token":"secret`, "not the JSON"},
		{"another type", `{"token":["secret"]}`, "not the JSON"},
		{"no token", `{"refresh_token":"secret"}`, "no token"},
		{"a line break", `{"token":"secret\r\nX-Evil: 1"}`, "header can carry"},
		{"a space", `{"token":"se cret"}`, "header can carry"},
		{"another alphabet", `{"token":"sécret"}`, "header can carry"},
		{"long", `{"token":"` + long + `"}`, "header can carry"},
		{"endless", `{"token":"` + strings.Repeat(" ", maxAnswer), "more than 1048576 bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &server{answer: func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprint(w, tc.body) }}
			svc := New()
			_, err := svc.Token(t.Context(), request(s, ann, ""))
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "cret") {
				t.Errorf("Token: %v, want %q and nothing of the token", err, tc.want)
			}
			if len(svc.tokens)+len(svc.refresh) != 0 {
				t.Error("something of it was kept")
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	oauth := func(code, text string) object { return object{"error": code, "error_description": text} }
	for _, tc := range []struct {
		name   string
		status int
		doc    any
		kind   fault.Constructor
		text   string
	}{
		{"wrong password", 400, oauth("invalid_grant", "no such user"), fault.Unauthorized, "unauthorized: no such user"},
		{"wrong password by status", 401, oauth("access_denied", ""), fault.Unauthorized, "unauthorized: access denied"},
		{"denied", 400, oauth("access_denied", "not yours"), fault.Forbidden, "denied: not yours"},
		{"denied by status", 403, object{"details": "not yours"}, fault.Forbidden, "denied: not yours"},
		{"no words", 403, nil, fault.Forbidden, "denied: forbidden"},
		{"our fault", 400, oauth("invalid_scope", "which?"), fault.Internal, "status 400: which?"},
		{"a registry's words", 403, object{"errors": []object{{"code": "X"}, {"message": "second"}}}, fault.Forbidden, "denied: second"},
		{"several lines", 403, object{"message": "a\nb\x1b[31m\u202ec"}, fault.Forbidden, "denied: a b [31m c"},
		{"long", 403, object{"message": strings.Repeat("ä", 10000)}, fault.Forbidden, "denied: " + strings.Repeat("ä", maxSaid) + "…"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &server{answer: func(w http.ResponseWriter, r *http.Request) { gives(w, tc.status, tc.doc) }}
			_, err := New().Token(t.Context(), request(s, ann, ""))
			want := "log in to reg.example: token server auth.example: " + tc.text
			if !fault.Is(err, tc.kind) || err.Error() != want {
				t.Errorf("Token: kind %d, %v\nwant %s", fault.KindOf(err), err, want)
			}
		})
	}
}

// TestSecretsStay lets everything come back that a server was told, and wants none of it in an error.
func TestSecretsStay(t *testing.T) {
	auth := image.RegistryAuth{Username: "ann", Password: "pass word&1", IdentityToken: "identity/1"}
	echo := func(w http.ResponseWriter, r *http.Request) {
		said := fmt.Sprint(r.Form.Encode(), r.Form, r.Header.Get("Authorization"))
		if r.Form.Get("grant_type") == "refresh_token" {
			gives(w, 401, object{"error": "invalid_grant", "error_description": said})
			return
		}
		if r.Method == http.MethodPost {
			gives(w, 404, object{"message": said})
			return
		}
		gives(w, 401, object{"message": said})
	}
	identityOnly := auth
	identityOnly.Username, identityOnly.Password = "", ""
	for name, a := range map[string]image.RegistryAuth{"password": auth, "identity token": identityOnly} {
		s := &server{answer: echo}
		_, err := New().Token(t.Context(), request(s, a, ""))
		if !fault.Is(err, fault.Unauthorized) || !strings.Contains(err.Error(), "[hidden]") {
			t.Errorf("%s: %v, want unauthorized in the server's words", name, err)
			continue
		}
		for _, secret := range []string{"pass word", "pass+word", "identity/1", "identity%2F1", basicCredentials(auth)} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: %v shows %q", name, err, secret)
			}
		}
	}
	token := Token{Value: "secret"}
	if text := fmt.Sprintf("%v %+v %#v %s", token, token, token, token.Value); strings.Contains(text, "secret") {
		t.Errorf("a token shows itself: %s", text)
	}
	if text := fmt.Sprintf("%+v", Request{Auth: auth, Refused: "refused"}); strings.Contains(text, "pass word") || strings.Contains(text, "refused") {
		t.Errorf("a request shows itself: %s", text)
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"access_token":"a","expires_in":300,"issued_at":"2026-01-01T00:00:00Z","scope":"a:b:c","refresh_token":"r"}`))
	f.Add([]byte(`{"error":"invalid_grant","errors":[{"message":"x"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		x := &exchange{secrets: []string{"secret"}}
		r := &reply{status: 401, header: http.Header{}, body: body}
		if x.realm, _ = parseRealm(request(&server{}, ann, "")); x.refusalError(r) == nil {
			t.Error("no refusal")
		}
		a, err := x.parseAnswer(r)
		if err != nil {
			return
		}
		left := time.Until(a.token.Expires)
		if left < shortest-time.Second || left > longest || !isVisible(string(a.token.Value)) || a.token.Value == "" {
			t.Errorf("%q is good for %s", body, left)
		}
	})
}
