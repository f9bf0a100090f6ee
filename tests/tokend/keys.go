package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// issuer is what the registry's auth.token.issuer has to be.
const issuer = "tokend"

// signer makes JSON web tokens (RFC 7519) that carry the certificate of their key, which is the registry's root as well.
type signer struct {
	key  *rsa.PrivateKey
	cert []byte // DER
}

func newSigner(certFile string) (*signer, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	template := certTemplate("tokend's signatures")
	template.IsCA, template.BasicConstraintsValid = true, true
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &signer{key, cert}, writePEM(certFile, "CERTIFICATE", cert)
}

func (s *signer) signToken(who session, granted []access, now time.Time, life time.Duration) (string, error) {
	header, err := json.Marshal(map[string]any{
		"typ": "JWT", "alg": "RS256", "x5c": []string{base64.StdEncoding.EncodeToString(s.cert)},
	})
	if err != nil {
		return "", err
	}
	claims, err := json.Marshal(map[string]any{
		"iss": issuer, "sub": who.user, "aud": who.service, "jti": rand.Text(), "access": granted,
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(life).Unix(),
	})
	if err != nil {
		return "", err
	}
	text := base64.RawURLEncoding.EncodeToString(header) + "." + base64.RawURLEncoding.EncodeToString(claims)
	hash := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, s.key, crypto.SHA256, hash[:])
	return text + "." + base64.RawURLEncoding.EncodeToString(signature), err
}

// writeCertificates makes a CA, and of it a certificate for a server and one for a client, with keys.
func writeCertificates(dir string, hosts []string) error {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	ca := certTemplate("moss test CA")
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return err
	}
	server := certTemplate("moss test server")
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			server.IPAddresses = append(server.IPAddresses, ip)
		} else {
			server.DNSNames = append(server.DNSNames, h)
		}
	}
	client := certTemplate("moss test client")
	client.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	issue := func(cert *x509.Certificate, certFile, keyFile string) error {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return err
		}
		der, err := x509.CreateCertificate(rand.Reader, cert, ca, key.Public(), caKey)
		if err != nil {
			return err
		}
		pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			return err
		}
		return errors.Join(
			writePEM(filepath.Join(dir, certFile), "CERTIFICATE", der),
			writePEM(filepath.Join(dir, keyFile), "PRIVATE KEY", pkcs8))
	}
	return errors.Join(
		writePEM(filepath.Join(dir, "ca.crt"), "CERTIFICATE", der),
		issue(server, "server.crt", "server.key"),
		issue(client, "client.cert", "client.key")) // the names that a folder of certificates has
}

func certTemplate(name string) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		serial = big.NewInt(1)
	}
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
