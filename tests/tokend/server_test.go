package main

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
)

type answer struct {
	AccessToken  string `json:"access_token"`
	Token        string `json:"token"`
	Scope        string `json:"scope"`
	ExpiresIn    int    `json:"expires_in"`
	IssuedAt     string `json:"issued_at"`
	RefreshToken string `json:"refresh_token"`
	Error        string `json:"error"`
}

func testServer(t *testing.T) *server {
	t.Helper()
	s := newServer()
	s.users = map[string]string{"ann": "secret"}
	var err error
	if s.signer, err = newSigner(filepath.Join(t.TempDir(), "token.crt")); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *server) ask(t *testing.T, r *http.Request) (int, answer) {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	var a answer
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return w.Code, a
}

func form(text string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/token", strings.NewReader(text))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

const common = "service=s&client_id=c&"

// TestForms goes through the table of API document 3, 5.3.
func TestForms(t *testing.T) {
	for _, tc := range []struct{ name, form, want string }{ // want: the error, empty for none
		{"password", common + "grant_type=password&username=ann&password=secret", ""},
		{"password, scope", common + "grant_type=password&username=ann&password=secret&scope=repository:a:pull+repository:b:pull", ""},
		{"online", common + "grant_type=password&username=ann&password=secret&access_type=online", ""},
		{"no grant type", common + "username=ann&password=secret", "invalid_request"},
		{"no service", "client_id=c&grant_type=password&username=ann&password=secret", "invalid_request"},
		{"no client_id", "service=s&grant_type=password&username=ann&password=secret", "invalid_request"},
		{"client_id with a line break", "service=s&client_id=%0a&grant_type=password&username=ann&password=secret", "invalid_request"},
		{"no password", common + "grant_type=password&username=ann", "invalid_request"},
		{"wrong password", common + "grant_type=password&username=ann&password=x", "invalid_grant"},
		{"unknown user", common + "grant_type=password&username=bob&password=secret", "invalid_grant"},
		{"access type", common + "grant_type=password&username=ann&password=secret&access_type=x", "invalid_request"},
		{"scope twice", common + "grant_type=password&username=ann&password=secret&scope=repository:a:pull&scope=repository:b:pull", "invalid_request"},
		{"service twice", common + "service=s&grant_type=password&username=ann&password=secret", "invalid_request"},
		{"a name twice in the list", common + "grant_type=password&username=ann&password=secret&scope=repository:a:pull+repository:a:push", "invalid_scope"},
		{"not a list", common + "grant_type=password&username=ann&password=secret&scope=x", "invalid_scope"},
		{"no refresh token", common + "grant_type=refresh_token", "invalid_request"},
		{"unknown refresh token", common + "grant_type=refresh_token&refresh_token=x", "invalid_grant"},
		{"refresh token and password", common + "grant_type=refresh_token&refresh_token=x&password=secret", "invalid_request"},
		{"reserved", common + "grant_type=authorization_code", "unsupported_grant_type"},
		{"unknown grant", common + "grant_type=x", "unsupported_grant_type"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			status, a := testServer(t).ask(t, form(tc.form))
			if a.Error != tc.want || (tc.want == "") != (status == 200) || (tc.want == "") != (a.AccessToken != "") {
				t.Errorf("%s: %d %+v, want %q", tc.form, status, a, tc.want)
			}
			if a.RefreshToken != "" {
				t.Error("a refresh token that nobody asked for")
			}
		})
	}
	s := testServer(t)
	r := form(common + "grant_type=password&username=ann&password=secret")
	r.URL.RawQuery = "scope=x"
	if status, a := s.ask(t, r); status != 400 {
		t.Errorf("a query with a form: %d %+v", status, a)
	}
	r = form(common + "grant_type=password&username=ann&password=secret")
	r.Header.Set("Content-Type", "application/json")
	if status, a := s.ask(t, r); status != 400 {
		t.Errorf("another type: %d %+v", status, a)
	}
	s.post = false
	if status, _ := s.ask(t, form(common)); status != 404 {
		t.Errorf("without the POST form: %d, want 404", status)
	}
}

func TestRefreshTokens(t *testing.T) {
	s := testServer(t)
	_, first := s.ask(t, form(common+"grant_type=password&username=ann&password=secret&access_type=offline"))
	if first.RefreshToken == "" || first.Scope != "" || first.ExpiresIn != 300 {
		t.Fatalf("%+v", first)
	}
	use := common + "grant_type=refresh_token&scope=repository:private/x:pull,push&refresh_token=" + first.RefreshToken
	if status, a := s.ask(t, form(use)); status != 200 || a.Scope != "repository:private/x:pull,push" || a.RefreshToken != "" {
		t.Errorf("%d %+v", status, a)
	}
	if _, a := s.ask(t, form(use+"&access_type=offline")); a.RefreshToken != first.RefreshToken {
		t.Errorf("%+v, want the same refresh token", a)
	}
	if _, a := s.ask(t, form(strings.Replace(use, "service=s", "service=t", 1))); a.Error != "invalid_grant" {
		t.Errorf("another service: %+v", a)
	}
	s.revokeTokens()
	if _, a := s.ask(t, form(use)); a.Error != "invalid_grant" {
		t.Errorf("revoked: %+v", a)
	}
	s.offline = false
	if _, a := s.ask(t, form(common+"grant_type=password&username=ann&password=secret&access_type=offline")); a.RefreshToken != "" || a.AccessToken == "" {
		t.Errorf("-offline=off: %+v", a)
	}
}

func TestOldForm(t *testing.T) {
	for _, tc := range []struct {
		name, query, user, password string
		status                      int
		granted                     string
	}{
		{"nobody", "service=s&scope=repository:a:pull,push&scope=repository:private/b:pull", "", "", 200, "repository:a:pull"},
		{"ann", "service=s&account=ann&scope=repository:a:pull,push&scope=repository:private/b:pull", "ann", "secret", 200, "repository:a:pull,push repository:private/b:pull"},
		{"catalog", "service=s&scope=registry:catalog:*", "", "", 200, ""},
		{"not a scope", "service=s&scope=x:y&scope=z", "ann", "secret", 200, ""},
		{"wrong password", "service=s", "ann", "x", 401, ""},
		{"another account", "service=s&account=bob", "ann", "secret", 401, ""},
		{"no service", "scope=repository:a:pull", "", "", 400, ""},
		{"a secret in the query", "service=s&password=x", "", "", 400, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := testServer(t)
			r := httptest.NewRequest(http.MethodGet, "/token?"+tc.query, nil)
			if tc.user != "" {
				r.SetBasicAuth(tc.user, tc.password)
			}
			status, a := s.ask(t, r)
			if status != tc.status {
				t.Fatalf("%d %+v, want %d", status, a, tc.status)
			}
			if status == 200 {
				if got := scopeList(claims(t, s, a.Token).Access); got != tc.granted || a.Token != a.AccessToken {
					t.Errorf("granted %q, want %q", got, tc.granted)
				}
			}
		})
	}
}

type claimSet struct {
	Issuer   string   `json:"iss"`
	Subject  string   `json:"sub"`
	Audience string   `json:"aud"`
	Expires  int64    `json:"exp"`
	Issued   int64    `json:"iat"`
	Access   []access `json:"access"`
}

// claims checks a token's signature by the certificate that it brings, and that one against the signer's.
func claims(t *testing.T, s *server, token string) (c claimSet) {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("token %q", token)
	}
	var raw [3][]byte
	for i, p := range parts {
		var err error
		if raw[i], err = base64.RawURLEncoding.DecodeString(p); err != nil {
			t.Fatal(err)
		}
	}
	var header struct {
		Alg string
		X5c [][]byte
	}
	if err := json.Unmarshal(raw[0], &header); err != nil || header.Alg != "RS256" || len(header.X5c) != 1 || !bytes.Equal(header.X5c[0], s.signer.cert) {
		t.Fatalf("header %s: %v", raw[0], err)
	}
	cert, err := x509.ParseCertificate(header.X5c[0])
	if err != nil {
		t.Fatal(err)
	}
	hash := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if err := rsa.VerifyPKCS1v15(cert.PublicKey.(*rsa.PublicKey), crypto.SHA256, hash[:], raw[2]); err != nil {
		t.Error(err)
	}
	if err := json.Unmarshal(raw[1], &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTokens(t *testing.T) {
	s := testServer(t)
	s.life = time.Minute
	_, a := s.ask(t, form(common+"grant_type=password&username=ann&password=secret&scope=repository:a:push"))
	issued, err := time.Parse(time.RFC3339, a.IssuedAt)
	c := claims(t, s, a.AccessToken)
	if err != nil || a.ExpiresIn != 60 || c.Issuer != issuer || c.Subject != "ann" || c.Audience != "s" || c.Issued != issued.Unix() || c.Expires != issued.Unix()+60 {
		t.Errorf("%+v, %+v, %v", a, c, err)
	}
}

func TestLogHasNoSecrets(t *testing.T) {
	s := testServer(t)
	var log bytes.Buffer
	s.log = json.NewEncoder(&log)
	_, a := s.ask(t, form(common+"grant_type=password&username=ann&password=secret&access_type=offline&scope=repository:a:pull"))
	s.ask(t, form(common+"grant_type=refresh_token&refresh_token="+url.QueryEscape(a.RefreshToken)))
	s.ask(t, form(common+"grant_type=refresh_token&refresh_token=x&password=secret"))
	for _, secret := range []string{"secret", a.RefreshToken, a.AccessToken} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log has %q:\n%s", secret, &log)
		}
	}
	var first entry
	if err := json.NewDecoder(&log).Decode(&first); err != nil || first.GrantType != "password" || first.ClientID != "c" ||
		first.Account != "ann" || first.Access != "offline" || len(first.Scope) != 1 || first.Status != 200 {
		t.Errorf("%+v, %v", first, err)
	}
}

func TestCertificates(t *testing.T) {
	dir := t.TempDir()
	if err := run(t.Context(), []string{"cert", "-dir", dir, "-hosts", "127.0.0.1,reg.test"}, nil); err != nil {
		t.Fatal(err)
	}
	pemCA, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pemCA)
	for name, use := range map[string]x509.ExtKeyUsage{"server.crt": x509.ExtKeyUsageServerAuth, "client.cert": x509.ExtKeyUsageClientAuth} {
		cert, err := tls.LoadX509KeyPair(filepath.Join(dir, name), filepath.Join(dir, strings.Split(name, ".")[0]+".key"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cert.Leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{use}}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	server, _ := os.ReadFile(filepath.Join(dir, "server.crt"))
	block, _ := pem.Decode(server)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil || cert.VerifyHostname("reg.test") != nil || cert.VerifyHostname("127.0.0.1") != nil || cert.VerifyHostname("other.test") == nil {
		t.Errorf("%v: names %v %v", err, cert.DNSNames, cert.IPAddresses)
	}
}

func TestPasswordFile(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"htpasswd", "ann", "secret"}, &out); err != nil {
		t.Fatal(err)
	}
	user, hash, _ := strings.Cut(strings.TrimSpace(out.String()), ":")
	if err := bcrypt.CompareHashAndPassword([]byte(hash), []byte("secret")); user != "ann" || err != nil {
		t.Errorf("%s: %v", &out, err)
	}
}

func TestUsage(t *testing.T) {
	none := t.TempDir() + "/none"
	for _, args := range [][]string{nil, {"x"}, {"htpasswd", "ann"}, {"serve", "-users", none}, {"serve", "-x"}, {"cert", "-dir", none}} {
		if err := run(t.Context(), args, &bytes.Buffer{}); err == nil {
			t.Errorf("run(%q) succeeded", args)
		}
	}
}
