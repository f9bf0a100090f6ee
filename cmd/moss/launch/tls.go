package launch

import (
	"errors"
	"os"
	"path/filepath"

	"moss/api/client"
)

// TLS is what the flags say about how to speak to a host of TCP. What they leave open the environment says, in the variables
// of docker's clients or those of the same names that begin with MOSS.
type TLS struct {
	On, Verify        bool
	CACert, Cert, Key string
}

// Ports of hosts that name none.
const (
	plainPort  = "2375"
	securePort = "2376"
)

// isGiven reports whether the flags say anything.
func (t TLS) isGiven() bool { return t != TLS{} }

// fillFromEnv takes from the environment what the flags leave open.
func (t TLS) fillFromEnv(env Env) TLS {
	t.Verify = t.Verify || lookupVariable(env, "TLS_VERIFY") != ""
	t.On = t.On || t.Verify || lookupVariable(env, "TLS") != ""
	return t
}

// certFiles returns the files to read; nil without TLS. Those that no flag names are in the folder that the environment names,
// else in docker's own; a certificate of the client's that is not there is not shown.
func (t TLS) certFiles(env Env) (*client.TLSFiles, error) {
	if !t.On {
		if t.isGiven() {
			return nil, errors.New("--tlscacert, --tlscert and --tlskey have no use without --tls or --tlsverify")
		}
		return nil, nil //nolint:nilnil // no TLS
	}
	dir := lookupVariable(env, "CERT_PATH")
	if dir == "" {
		dir = env("DOCKER_CONFIG")
	}
	if dir == "" {
		dir = filepath.Join(env("HOME"), ".docker")
	}
	files := &client.TLSFiles{Cert: t.Cert, Key: t.Key}
	if t.Verify {
		files.CA = t.CACert
		if files.CA == "" {
			files.CA = filepath.Join(dir, "ca.pem")
		}
	} else if t.CACert != "" {
		return nil, errors.New("--tlscacert has no use without --tlsverify")
	}
	if files.Cert == "" && files.Key == "" {
		cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
		if fileExists(cert) && fileExists(key) {
			files.Cert, files.Key = cert, key
		}
	}
	return files, nil
}

// lookupVariable returns a variable of moss's own, else of docker's clients.
func lookupVariable(env Env, name string) string {
	if value := env("MOSS_" + name); value != "" {
		return value
	}
	return env("DOCKER_" + name)
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
