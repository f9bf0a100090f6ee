package registry_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"moss/engine/image"
	"moss/imagesvc/registry"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	a.cert, a.key, a.pem = sign(t, template, nil)
	return a
}

// issue returns a certificate for a host, or for a client, and both as PEM.
func (a *authority) issue(t *testing.T, host string) (pair tls.Certificate, certPEM, keyPEM []byte) {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if ip := net.ParseIP(host); ip != nil {
		template.DNSNames, template.IPAddresses = nil, []net.IP{ip}
	}
	_, key, certPEM := sign(t, template, a)
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	keyPEM = pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	if pair, err = tls.X509KeyPair(certPEM, keyPEM); err != nil {
		t.Fatal(err)
	}
	return pair, certPEM, keyPEM
}

func sign(t *testing.T, template *x509.Certificate, by *authority) (*x509.Certificate, *ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// trust writes a folder of certificates for a host and returns the one above it.
func trust(t *testing.T, host string, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, host), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, host, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// newTLSServer starts a registry with a certificate for a host. clients, if not nil, has to have signed its clients'.
func newTLSServer(t *testing.T, a *authority, host string, clients *authority) *server {
	t.Helper()
	s := emptyServer()
	s.Server = httptest.NewUnstartedServer(s)
	pair, _, _ := a.issue(t, host)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if clients != nil {
		s.TLS.ClientAuth, s.TLS.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		s.TLS.ClientCAs.AddCert(clients.cert)
	}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	s.host = s.Listener.Addr().String()
	t.Cleanup(s.shut)
	return s
}

// world is a proxy behind which hosts of any name are, so that tests need none that resolves.
type world struct {
	*httptest.Server
	url *url.URL

	mu    sync.Mutex // guards the fields below
	hosts map[string]*server
	asked []string // CONNECT HOST:PORT, or the method and URL of a request without TLS
}

func newWorld(t *testing.T, hosts map[string]*server) *world {
	t.Helper()
	w := &world{hosts: hosts}
	w.Server = httptest.NewServer(http.HandlerFunc(w.serve))
	w.url, _ = url.Parse(w.URL)
	t.Cleanup(func() {
		w.CloseClientConnections()
		w.Close()
	})
	return w
}

func (w *world) serve(res http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	w.asked = append(w.asked, r.Method+" "+r.URL.Host)
	s := w.hosts[r.URL.Host]
	w.mu.Unlock()
	if s == nil {
		res.WriteHeader(http.StatusBadGateway)
		return
	}
	if r.Method != http.MethodConnect {
		s.ServeHTTP(res, r)
		return
	}
	to, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		res.WriteHeader(http.StatusBadGateway)
		return
	}
	from, _, err := http.NewResponseController(res).Hijack()
	if err != nil {
		panic(err)
	}
	_, _ = io.WriteString(from, "HTTP/1.1 200 OK\r\n\r\n")
	go func() {
		_, _ = io.Copy(to, from)
		_ = to.Close()
	}()
	_, _ = io.Copy(from, to)
	_ = from.Close()
}

// proxy is what Config.Proxy takes.
func (w *world) proxy(u *url.URL) (*url.URL, error) {
	if net.ParseIP(u.Hostname()).IsLoopback() {
		return nil, nil //nolint:nilnil // what net/http wants for "none"
	}
	return w.url, nil
}

func (w *world) requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.asked)
}

func TestTLS(t *testing.T) {
	ca, other, users := newAuthority(t), newAuthority(t), newAuthority(t)
	_, userCert, userKey := users.issue(t, "somebody")
	const host = "reg.example:5000"
	trusted := trust(t, host, map[string][]byte{"ca.crt": ca.pem})
	withKey := trust(t, host, map[string][]byte{"ca.crt": ca.pem, "me.cert": userCert, "me.key": userKey})
	none := t.TempDir()
	for _, tc := range []struct {
		name     string
		host     string
		dirs     []string
		insecure []string
		plain    bool
		signer   *authority
		clients  *authority
		want     string // part of the error; empty: it works
	}{
		{name: "known authority", dirs: []string{none, trusted}},
		{name: "first folder counts", dirs: []string{trust(t, host, map[string][]byte{"ca.crt": other.pem}), trusted}, want: "unknown authority"},
		{name: "unknown authority", dirs: []string{none}, want: "certificate signed by unknown authority: put the authority's certificate into certs.d/reg.example:5000/ca.crt"},
		{name: "other authority", dirs: []string{trusted}, signer: other, want: "unknown authority"},
		{name: "insecure by name", insecure: []string{host}},
		{name: "insecure by name without port", insecure: []string{"REG.example"}},
		{name: "insecure by another port", insecure: []string{"reg.example:5001"}, want: "unknown authority"},
		{name: "insecure network of a name that nobody knows", insecure: []string{"10.0.0.0/8"}, want: "unknown authority"},
		{name: "insecure network", host: "10.1.2.3:5000", insecure: []string{"10.0.0.0/8"}},
		{name: "not in the insecure network", host: "11.1.2.3:5000", insecure: []string{"10.0.0.0/8"}, want: "x509: "},
		{name: "insecure network of IPv6", host: "[fd00::7]:5000", insecure: []string{"fd00::/8"}},
		{name: "without TLS", plain: true, want: "name it in insecure-registry"},
		{name: "without TLS and insecure", plain: true, insecure: []string{host}},
		{name: "client certificate", dirs: []string{withKey}, clients: users},
		{name: "no client certificate", dirs: []string{trusted}, clients: users, want: "certificate required"},
		{name: "half of a client certificate", dirs: []string{trust(t, host, map[string][]byte{"me.cert": userCert})}, want: "missing key me.key"},
		{name: "certificate for another host", host: "other.example:5000", dirs: []string{trust(t, "other.example:5000", map[string][]byte{"ca.crt": ca.pem})}, want: "not other.example"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.host == "" {
				tc.host = host
			}
			if tc.signer == nil {
				tc.signer = ca
			}
			s := newTLSServer(t, tc.signer, "reg.example", tc.clients)
			if tc.plain {
				s = newServer(t)
			}
			w := newWorld(t, map[string]*server{tc.host: s})
			manifest, blob := s.put("a/b", "v", noise(1000))
			c := newClient(t, registry.Config{CertDirs: tc.dirs, Insecure: tc.insecure, Proxy: w.proxy})
			s.writable()
			err := pullAndPush(t, c, tc.host+"/a/b:v", manifest)
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("got %v", err)
			case tc.want == "":
				if _, err := readBlob(t, open(t, c, tc.host+"/a/b:v", image.RegistryAuth{}), blob); err != nil {
					t.Error(err)
				}
			case err == nil || !strings.Contains(err.Error(), tc.want):
				t.Errorf("got %v, want %q", err, tc.want)
			}
			for _, asked := range w.requests() {
				if tc.insecure == nil && !strings.HasPrefix(asked, "CONNECT ") {
					t.Errorf("%q went out without TLS", asked)
				}
			}
		})
	}
}

// pullAndPush uses both ways to a registry, which have to agree.
func pullAndPush(t *testing.T, c *registry.Client, name string, manifest []byte) error {
	t.Helper()
	src, err := c.Source(t.Context(), parse(t, name), image.RegistryAuth{})
	if err == nil {
		err = src.Close()
	}
	d, pushErr := c.Destination(t.Context(), parse(t, name), image.RegistryAuth{})
	if pushErr == nil {
		_, pushErr = d.PutManifest(t.Context(), manifest)
		if closeErr := d.Close(); closeErr != nil {
			t.Error(closeErr)
		}
	}
	if (err == nil) != (pushErr == nil) {
		t.Errorf("pull: %v, push: %v", err, pushErr)
	}
	return err
}

// TestLoopback needs no setting, with TLS and without, and not with a name that only resolves to it.
func TestLoopback(t *testing.T) {
	s := newTLSServer(t, newAuthority(t), "wrong.example", nil)
	plain := newServer(t)
	c := newClient(t, registry.Config{})
	for _, s := range []*server{s, plain} {
		manifest, _ := s.put("a/b", "v", nil)
		s.writable()
		_, port, err := net.SplitHostPort(s.host)
		if err != nil {
			t.Fatal(err)
		}
		for _, host := range []string{s.host, "localhost:" + port} {
			if err := pullAndPush(t, c, host+"/a/b:v", manifest); err != nil {
				t.Errorf("%s: %v", host, err)
			}
		}
	}
}
