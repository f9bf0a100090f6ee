package token

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"moss/engine/fault"
	"moss/engine/image"
)

// registry is a registry and its token server in one transport.
type registry struct {
	open      bool
	challenge []string
	oldForm   bool
	status    int // of /v2/ in place of everything else, if not 0
	plain     bool
	log       []string
}

var errNoTLS = errors.New("server gave HTTP response to HTTPS client")

func (g *registry) server() *server {
	s := &server{}
	s.answer = func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Host == "auth.example" {
			g.token(w, r)
			return
		}
		auth := r.Header.Get("Authorization")
		g.log = append(g.log, r.Method+" "+r.URL.String()+" "+strings.SplitN(auth+" ", " ", 2)[0])
		switch {
		case g.status != 0:
			w.Header().Set("Location", "https://evil.example/v2/")
			gives(w, g.status, nil)
		case g.open, auth == "Bearer good", auth == "Basic "+basicCredentials(ann):
			gives(w, 200, object{})
		default:
			w.Header()["Www-Authenticate"] = g.challenge
			gives(w, 401, object{"errors": []object{{"message": "authentication required"}}})
		}
	}
	return s
}

func (g *registry) token(w http.ResponseWriter, r *http.Request) {
	user, password, _ := r.BasicAuth()
	switch {
	case r.Method == http.MethodPost && g.oldForm:
		gives(w, 404, nil)
	case r.Form.Get("grant_type") == "password" && r.Form.Get("password") == "secret":
		gives(w, 200, object{"access_token": "good", "refresh_token": "identity"})
	case r.Form.Get("refresh_token") == "identity":
		gives(w, 200, object{"access_token": "good", "refresh_token": "identity"})
	case user == "ann" && password == "secret":
		gives(w, 200, object{"token": "good", "refresh_token": "from the old form"})
	default:
		gives(w, 401, object{"error": "invalid_grant", "error_description": "incorrect username or password"})
	}
}

// RoundTrip refuses TLS where the registry has none.
func (g *registry) RoundTrip(r *http.Request) (*http.Response, error) {
	if g.plain && r.URL.Scheme == "https" && r.URL.Host == "reg.example" {
		return nil, errNoTLS
	}
	return g.server().RoundTrip(r)
}

func TestLogin(t *testing.T) {
	bearer := []string{`Bearer realm="` + realm + `",service="svc"`}
	wrong := image.RegistryAuth{Username: "ann", Password: "wrong"}
	const first, basicToo, bearerToo = "GET https://reg.example/v2/ ", "GET https://reg.example/v2/ Basic", "GET https://reg.example/v2/ Bearer"
	for _, tc := range []struct {
		name     string
		registry registry
		auth     image.RegistryAuth
		identity string
		kind     fault.Constructor // nil: it succeeds
		text     string
		log      []string
	}{
		{"open", registry{open: true}, ann, "", nil, "", []string{first}},
		{"basic", registry{challenge: []string{`Basic realm="x"`}}, ann, "", nil, "", []string{first, basicToo}},
		{"basic, wrong", registry{challenge: []string{`Basic realm="x"`}}, wrong, "", fault.Unauthorized, "authentication required", []string{first, basicToo}},
		{"basic, identity token", registry{challenge: []string{`Basic realm="x"`}}, identity, "", fault.Unauthorized, "takes no identity tokens", []string{first}},
		{"token", registry{challenge: bearer}, ann, "identity", nil, "", []string{first, bearerToo}},
		{"token rather than basic", registry{challenge: append([]string{"Basic"}, bearer...)}, ann, "identity", nil, "", []string{first, bearerToo}},
		{"token, wrong", registry{challenge: bearer}, wrong, "", fault.Unauthorized, "incorrect username or password", []string{first}},
		{"token, identity", registry{challenge: bearer}, identity, "identity", nil, "", []string{first, bearerToo}},
		{"token, wrong identity", registry{challenge: bearer}, image.RegistryAuth{IdentityToken: "old"}, "", fault.Unauthorized, "incorrect", []string{first}},
		{"old form", registry{challenge: bearer, oldForm: true}, ann, "", nil, "", []string{first, bearerToo}},
		{"old form, wrong", registry{challenge: bearer, oldForm: true}, wrong, "", fault.Unauthorized, "incorrect", []string{first}},
		{"nobody", registry{open: true}, nobody, "", fault.Invalid, "user name and a password", nil},
		{"no password", registry{open: true}, image.RegistryAuth{Username: "ann"}, "", fault.Invalid, "user name and a password", nil},
		{"no known way", registry{challenge: []string{"Negotiate"}}, ann, "", fault.Internal, "in no way that is known", []string{first}},
		{"no registry", registry{status: 404}, ann, "", fault.Internal, "status 404 is not the answer of a registry", []string{first}},
		{"redirect", registry{status: 302}, ann, "", fault.Internal, "status 302", []string{first}},
		{"busy", registry{status: 429}, ann, "", fault.Unavailable, "too many requests", []string{first}},
		{"denied", registry{status: 403}, ann, "", fault.Forbidden, "denied", []string{first}},
		{"no TLS", registry{open: true, plain: true}, ann, "", nil, "", []string{"GET http://reg.example/v2/ "}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := Registry{Host: "reg.example", Bases: []string{"https://reg.example", "http://reg.example"}, Client: &http.Client{Transport: &tc.registry}}
			got, err := New().Login(t.Context(), r, tc.auth)
			if tc.kind == nil {
				if err != nil || string(got) != tc.identity {
					t.Errorf("Login = %q, %v; want %q", string(got), err, tc.identity)
				}
			} else if !fault.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.text) || !strings.HasPrefix(err.Error(), "log in to reg.example: ") {
				t.Errorf("Login: kind %d, %v; want %q", fault.KindOf(err), err, tc.text)
			}
			if got, want := strings.Join(tc.registry.log, "\n"), strings.Join(tc.log, "\n"); got != want {
				t.Errorf("requests\n got %s\nwant %s", got, want)
			}
		})
	}
}

func TestLoginAsksAfresh(t *testing.T) {
	g := &registry{challenge: []string{`Bearer realm="` + realm + `",service="svc"`}}
	r := Registry{Host: "reg.example", Bases: []string{"https://reg.example"}, Client: &http.Client{Transport: g}}
	svc := New()
	if _, err := svc.Login(t.Context(), r, ann); err != nil {
		t.Fatal(err)
	}
	g.oldForm = true // and with it, the password of the other form
	if got, err := svc.Login(t.Context(), r, ann); err != nil || got != "" {
		t.Errorf("Login = %q, %v; want what the server says now: no identity token", string(got), err)
	}
}

func TestLoginOfNobodyThere(t *testing.T) {
	g := &registry{plain: true}
	r := Registry{Host: "reg.example", Bases: []string{"https://reg.example"}, Client: &http.Client{Transport: g}}
	if _, err := New().Login(t.Context(), r, ann); !errors.Is(err, errNoTLS) || strings.Contains(err.Error(), "/v2/") {
		t.Errorf("Login: %v, want the transport's error", err)
	}
	if _, err := New().Login(t.Context(), Registry{Host: "reg.example"}, ann); err == nil {
		t.Error("Login without an address succeeded")
	}
}
