package imagesvc

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"moss/engine/fault"
	"moss/engine/image"
	"moss/imagesvc/token"
)

func TestRegistryHost(t *testing.T) {
	for _, tc := range []struct{ address, want string }{ // want: empty where it is refused
		{"", "docker.io"},
		{"docker.io", "docker.io"},
		{"https://index.docker.io/v1/", "docker.io"},
		{"https://registry-1.docker.io", "docker.io"},
		{"127.0.0.1:5000", "127.0.0.1:5000"},
		{"Reg.Example/v2/", "reg.example"},
		{"http://reg.example:5000/v1/", "reg.example:5000"},
		{"[::1]:5000", "[::1]:5000"},
		{"file:///etc/passwd", ""},
		{"ftp://reg.example", ""},
		{"user:password@reg.example", ""},
		{"https://", ""},
		{"a b", ""},
		{"reg\x00", ""},
	} {
		got, err := registryHost(tc.address)
		if got != tc.want || (err == nil) != (tc.want != "") || (err != nil && !fault.Is(err, fault.Invalid)) {
			t.Errorf("registryHost(%q) = %q, %v; want %q", tc.address, got, err, tc.want)
		}
	}
}

// oneRegistry is a registry that takes ann's password, under whatever name it is asked for.
type oneRegistry struct{ *httptest.Server }

func (r oneRegistry) HTTP(string) (*http.Client, []string, error) {
	return r.Client(), []string{r.URL}, nil
}

type noRegistry struct{}

func (noRegistry) HTTP(host string) (*http.Client, []string, error) {
	return nil, nil, fault.Internal("certificates for %s: broken", host)
}

func TestLogin(t *testing.T) {
	r := oneRegistry{httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "ann" || password != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))}
	defer r.Close()
	got, err := loginToRegistry(t.Context(), r, token.New(), "reg.example", image.RegistryAuth{Username: "ann", Password: "secret"})
	if err != nil || got.Status != "Login Succeeded" || got.IdentityToken != "" {
		t.Errorf("login = %+v, %v", got, err)
	}
	_, err = loginToRegistry(t.Context(), r, token.New(), "reg.example", image.RegistryAuth{Username: "ann", Password: "wrong"})
	if !fault.Is(err, fault.Unauthorized) {
		t.Errorf("a wrong password: %v, want unauthorized", err)
	}
	if _, err = loginToRegistry(t.Context(), noRegistry{}, token.New(), "reg.example", image.RegistryAuth{}); err == nil {
		t.Error("a registry without a client: no error")
	}
	s := New(Store{}, Options{})
	if _, err := s.Login(t.Context(), image.RegistryAuth{ServerAddress: "file:///x"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("no address: %v, want invalid", err)
	}
	if _, err := s.Login(t.Context(), image.RegistryAuth{ServerAddress: "reg.example"}); !fault.Is(err, fault.Unsupported) {
		t.Errorf("an engine without registries: %v, want unsupported", err)
	}
}
