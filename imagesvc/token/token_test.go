package token

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"moss/engine/fault"
	"moss/engine/image"
)

// server is a token server that does what a test tells it, and its own transport: no socket stands between it and
// synctest's clock.
type server struct {
	answer func(w http.ResponseWriter, r *http.Request)

	mu   sync.Mutex // guards seen
	seen []seen
}

// seen is one request: what is in the form or the query, under any name.
type seen struct {
	method, url, basic string
	params             url.Values
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	params := r.URL.Query()
	if r.Method == http.MethodPost {
		body, _ := io.ReadAll(r.Body)
		params, _ = url.ParseQuery(string(body))
	}
	user, password, ok := r.BasicAuth()
	basic := ""
	if ok {
		basic = user + ":" + password
	}
	s.mu.Lock()
	s.seen = append(s.seen, seen{r.Method, r.URL.Scheme + "://" + r.URL.Host + r.URL.Path, basic, params})
	s.mu.Unlock()
	r.Form = params
	rec := httptest.NewRecorder()
	s.answer(rec, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	res := rec.Result()
	res.Request = r
	return res, nil
}

// requests returns what came since the last call.
func (s *server) requests() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.seen
	s.seen = nil
	return out
}

func (s *server) client() *http.Client { return &http.Client{Transport: s} }

// gives answers with JSON.
func gives(w http.ResponseWriter, status int, doc any) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(doc)
}

type object = map[string]any

// numbered gives tokens t1, t2, and so on, and one refresh token to whoever brings a password.
func numbered(expires int) func(http.ResponseWriter, *http.Request) {
	n := 0
	return func(w http.ResponseWriter, r *http.Request) {
		n++
		doc := object{"access_token": fmt.Sprint("t", n), "expires_in": expires, "scope": r.Form.Get("scope")}
		if r.Form.Get("access_type") == "offline" {
			doc["refresh_token"] = "refresh"
		}
		gives(w, 200, doc)
	}
}

const realm = "https://auth.example/token"

var (
	ann      = image.RegistryAuth{Username: "ann", Password: "secret"}
	identity = image.RegistryAuth{IdentityToken: "identity"}
	nobody   = image.RegistryAuth{}
)

func request(s *server, auth image.RegistryAuth, scope string) Request {
	return Request{
		Registry: "reg.example", Auth: auth, Client: s.client(),
		Challenge: Challenge{Scheme: "bearer", Params: map[string]string{"realm": realm, "service": "svc", "scope": scope}},
	}
}

// get asks for a token and wants one.
func get(t *testing.T, svc *Service, r Request) Token {
	t.Helper()
	token, err := svc.Token(t.Context(), r)
	if err != nil {
		t.Fatalf("Token: %v", err)
	}
	return token
}

func want(t *testing.T, s *server, all ...seen) {
	t.Helper()
	if got := s.requests(); !reflect.DeepEqual(got, append([]seen(nil), all...)) {
		t.Errorf("requests\n got %+v\nwant %+v", got, all)
	}
}

func post(params ...string) seen {
	return seen{"POST", realm, "", values(append(params, "service", "svc", "client_id", "moss")...)}
}

func values(params ...string) url.Values {
	v := url.Values{}
	for i := 0; i < len(params); i += 2 {
		v.Add(params[i], params[i+1])
	}
	return v
}

func TestPasswordThenRefreshTokenThenNothing(t *testing.T) {
	s := &server{answer: numbered(300)}
	svc := New()
	first := request(s, ann, "repository:b:pull repository:a:pull")
	first.Scopes = Scopes{Repository("a", "push")}
	token := get(t, svc, first)
	want(t, s, post("grant_type", "password", "username", "ann", "password", "secret", "access_type", "offline",
		"scope", "repository:a:pull,push repository:b:pull"))
	if string(token.Value) != "t1" || token.Scopes.String() != "repository:a:pull,push repository:b:pull" {
		t.Errorf("token %s for %s", string(token.Value), token.Scopes)
	}
	if token = get(t, svc, first); string(token.Value) != "t1" {
		t.Errorf("the second time: token %q, want the same", string(token.Value))
	}
	want(t, s)
	get(t, svc, request(s, ann, "repository:c:pull"))
	want(t, s, post("grant_type", "refresh_token", "refresh_token", "refresh", "scope", "repository:c:pull"))

	// Nobody else has any of it: another password, another user, nobody, another service, another server.
	other := ann
	other.Password = "wrong"
	for _, auth := range []image.RegistryAuth{other, {Username: "bob", Password: "secret"}} {
		get(t, svc, request(s, auth, "repository:c:pull"))
		if got := s.requests(); len(got) != 1 || got[0].params.Get("grant_type") != "password" {
			t.Errorf("%s: %+v, want a new login", auth.Username, got)
		}
	}
	for name, value := range map[string]string{"service": "other", "realm": "https://auth.example/other", "Realm": "http"} {
		r := request(s, ann, "repository:c:pull")
		r.Challenge.Params[strings.ToLower(name)] = value
		if name == "Realm" {
			r.Insecure = true
			r.Challenge.Params["realm"] = "http://auth.example/token"
		}
		get(t, svc, r)
		if got := s.requests(); len(got) != 1 || got[0].params.Get("grant_type") != "password" {
			t.Errorf("%s %s: %+v, want a new login", name, value, got)
		}
	}
}

func TestEmptyScopeAndNoService(t *testing.T) {
	s := &server{answer: numbered(300)}
	r := request(s, ann, "")
	delete(r.Challenge.Params, "service")
	get(t, New(), r)
	got := s.requests()
	if len(got) != 1 || got[0].params.Has("scope") || got[0].params.Get("service") != "reg.example" {
		t.Errorf("requests %+v, want no scope, and the registry as the service", got)
	}
}

func TestNobodyAsksInTheOldForm(t *testing.T) {
	s := &server{answer: func(w http.ResponseWriter, r *http.Request) { gives(w, 200, object{"token": "t"}) }}
	svc := New()
	r := request(s, nobody, "repository:a:pull repository:b:pull")
	r.Challenge.Params["realm"] = realm + "?x=1"
	if token := get(t, svc, r); string(token.Value) != "t" || token.Scopes != nil {
		t.Errorf("token %+v", token)
	}
	get(t, svc, r)
	want(t, s, seen{"GET", realm, "", values("x", "1", "client_id", "moss", "service", "svc", "scope", "repository:a:pull", "scope", "repository:b:pull")})
}

func TestRegistryTokenIsTakenAsItIs(t *testing.T) {
	token, err := New().Token(t.Context(), Request{Auth: image.RegistryAuth{RegistryToken: "ready"}})
	if err != nil || string(token.Value) != "ready" || !token.Expires.IsZero() {
		t.Errorf("%+v, %v", token, err)
	}
}

func TestServersWithoutThePostForm(t *testing.T) {
	old := seen{"GET", realm, "ann:secret", values("client_id", "moss", "service", "svc", "scope", "repository:a:pull",
		"account", "ann", "offline_token", "true")}
	for _, tc := range []struct {
		name   string
		status int
		doc    any
		old    bool
	}{
		{"404", 404, nil, true},
		{"405", 405, nil, true},
		{"501", 501, nil, true},
		{"401 in words of its own", 401, object{"errors": []object{{"status": 401, "message": "Bad credentials"}}}, true},
		{"400 without words", 400, nil, true},
		{"401 in OAuth's words", 401, object{"error": "invalid_grant"}, false},
		{"403", 403, nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{answer: func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodPost {
						gives(w, tc.status, tc.doc)
						return
					}
					gives(w, 200, object{"token": "t", "expires_in": 60, "refresh_token": "of no use"})
				}}
				svc := New()
				_, err := svc.Token(t.Context(), request(s, ann, "repository:a:pull"))
				if (err == nil) != tc.old {
					t.Fatalf("Token: %v", err)
				}
				got := s.requests()
				if !tc.old {
					if len(got) != 1 {
						t.Errorf("%d requests, want the one that was refused", len(got))
					}
					return
				}
				if len(got) != 2 || got[0].method != "POST" || !reflect.DeepEqual(got[1], old) {
					t.Errorf("requests %+v, want a POST and %+v", got, old)
				}
				time.Sleep(2 * time.Minute)
				get(t, svc, request(s, ann, "repository:a:pull"))
				want(t, s, old) // the form is known now
				time.Sleep(oldForm)
				get(t, svc, request(s, ann, "repository:a:pull"))
				if got := s.requests(); len(got) != 2 {
					t.Errorf("%d requests after a long time, want the other form tried again", len(got))
				}
			})
		})
	}
}

func TestWrongPasswordSaysNothingOfTheForm(t *testing.T) {
	s := &server{answer: func(w http.ResponseWriter, r *http.Request) { gives(w, 401, nil) }}
	svc := New()
	for range 2 {
		if _, err := svc.Token(t.Context(), request(s, ann, "")); !fault.Is(err, fault.Unauthorized) {
			t.Errorf("Token: %v, want unauthorized", err)
		}
		if got := s.requests(); len(got) != 2 || got[0].method != "POST" {
			t.Errorf("requests %+v, want POST and GET", got)
		}
	}
}

// refuses answers like numbered, and refuses these refresh tokens.
func refuses(tokens ...string) func(http.ResponseWriter, *http.Request) {
	next := numbered(60)
	return func(w http.ResponseWriter, r *http.Request) {
		for _, t := range tokens {
			if r.Form.Get("refresh_token") == t {
				gives(w, 400, object{"error": "invalid_grant", "error_description": "revoked: " + t})
				return
			}
		}
		next(w, r)
	}
}

func grants(all []seen) string {
	out := make([]string, 0, len(all))
	for _, s := range all {
		out = append(out, s.method+" "+s.params.Get("grant_type"))
	}
	return strings.Join(out, ", ")
}
