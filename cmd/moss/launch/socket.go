package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"moss/api/client"
)

// Place is where the engine should be.
type Place struct {
	Host   client.Host
	TLS    *client.TLSFiles // how to speak to a host of TCP; nil: without TLS
	RunDir string           // of the default socket; empty when another host was named, and then no engine is started
	Source string           // the variable of the environment that named the host; empty: none did
}

// Env returns a variable of the environment, empty when it is not set; os.Getenv is one.
type Env func(name string) string

// Find returns the engine's place: the --host flag, MOSS_HOST, DOCKER_HOST or the default socket, in this order. TLS is for
// hosts of TCP: for others the flags are an error, and the environment's words are not meant.
func Find(flag string, secure TLS, env Env) (Place, error) {
	if flag != "" {
		return placeOfHost(flag, secure, env)
	}
	for _, variable := range []string{"MOSS_HOST", "DOCKER_HOST"} {
		host := env(variable)
		if host == "" {
			continue
		}
		place, err := placeOfHost(host, secure, env)
		if err != nil {
			return Place{}, fmt.Errorf("%s: %w", variable, err)
		}
		place.Source = variable
		return place, nil
	}
	if secure.isGiven() {
		return Place{}, errTLSOnUnix
	}
	base, err := runBase(env)
	if err != nil {
		return Place{}, err
	}
	return Place{
		Host:   client.Host{Network: "unix", Address: filepath.Join(base, socketName)},
		RunDir: base,
	}, nil
}

var errTLSOnUnix = errors.New("TLS is for hosts of tcp://: a unix socket needs none")

// placeOfHost returns the place of a host that somebody named.
func placeOfHost(host string, secure TLS, env Env) (Place, error) {
	filled, port := secure.fillFromEnv(env), plainPort
	if filled.On {
		port = securePort
	}
	parsed, err := client.ParseHostPort(host, port)
	switch {
	case err != nil:
		return Place{}, err
	case parsed.Network != "tcp" && secure.isGiven():
		return Place{}, errTLSOnUnix
	case parsed.Network != "tcp":
		return Place{Host: parsed, RunDir: defaultRunDir(parsed.Address, env)}, nil
	}
	files, err := filled.certFiles(env)
	return Place{Host: parsed, TLS: files}, err
}

// socketName is the default socket's, in the folder of this boot.
const socketName = "moss.sock"

// defaultRunDir returns the folder of this boot if a path is that of the default socket, and nothing if it is another.
func defaultRunDir(path string, env Env) string {
	base, err := runBase(env)
	if err != nil || !sameFile(path, filepath.Join(base, socketName)) {
		return "" // where there is no default socket, the path is another one
	}
	return base
}

// sameFile reports whether two paths lead to one file, or will once it is made: /var/run is a link to /run.
func sameFile(one, other string) bool {
	one, other = filepath.Clean(one), filepath.Clean(other)
	if one == other {
		return true
	}
	info, err := os.Stat(one)
	otherInfo, otherErr := os.Stat(other)
	switch {
	case err == nil && otherErr == nil:
		return os.SameFile(info, otherInfo)
	case isMissing(err) && isMissing(otherErr) && filepath.Base(one) == filepath.Base(other):
		return sameFile(filepath.Dir(one), filepath.Dir(other))
	default:
		return false
	}
}

// runBase returns the folder of this boot's files, by the chain that the engine follows as well (package rootless):
// $XDG_RUNTIME_DIR/moss, /run/user/UID/moss, $TMPDIR/moss-UID, /tmp/moss-UID. The first two count only if the folder
// above is the user's alone.
func runBase(env Env) (string, error) {
	uid := os.Geteuid()
	if dir := env("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) && checkPrivate(dir, uid) == nil {
		return filepath.Join(dir, "moss"), nil
	}
	if dir := filepath.Join("/run/user", strconv.Itoa(uid)); checkPrivate(dir, uid) == nil {
		return filepath.Join(dir, "moss"), nil
	}
	temp := env("TMPDIR")
	if !filepath.IsAbs(temp) {
		temp = "/tmp"
	}
	if err := keptApart(temp, uid); err != nil {
		return "", fmt.Errorf("XDG_RUNTIME_DIR is of no use and %w", err)
	}
	dir := filepath.Join(temp, "moss-"+strconv.Itoa(uid))
	// Anyone may have made a folder of this name in a shared one: what listens there is not to be trusted then.
	if err := checkPrivate(dir, uid); err != nil && !isMissing(err) {
		return "", fmt.Errorf("XDG_RUNTIME_DIR is of no use and %w", err)
	}
	return dir, nil
}

// checkPrivate checks that dir is a folder of the user's own that nobody else may enter.
func checkPrivate(dir string, uid int) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return fmt.Errorf("%s is no folder", dir)
	case !ok || int(stat.Uid) != uid:
		return fmt.Errorf("%s belongs to another user", dir)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s is open to others (mode %o, want 700)", dir, info.Mode().Perm())
	}
	return nil
}

// keptApart refuses a folder in which another user could put something in the place of what is ours.
func keptApart(dir string, uid int) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return fmt.Errorf("%s is no folder", dir)
	case !ok || stat.Uid != 0 && int(stat.Uid) != uid:
		return fmt.Errorf("%s belongs to another user", dir)
	case info.Mode().Perm()&0o022 != 0 && info.Mode()&os.ModeSticky == 0:
		return fmt.Errorf("in %s others can rename what is yours (mode %o without the sticky bit)", dir, info.Mode().Perm())
	}
	return nil
}

// prepareRunDir makes the folder of this boot's files if it is missing, and checks it.
func prepareRunDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the engine's folder: %w", err)
	}
	if err := checkPrivate(dir, os.Geteuid()); err != nil {
		return fmt.Errorf("the engine's folder: %w", err)
	}
	return nil
}
