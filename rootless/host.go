package rootless

import (
	"fmt"
	"os"
	"os/exec"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"moss/engine/fault"
)

// oldestMajor and oldestMinor are the first kernel that moss is made for: mounts and overlays of users work from there on.
const oldestMajor, oldestMinor = 5, 13

// RefuseRoot tells root what to do instead. fault.Forbidden for root, nil for all others.
func RefuseRoot(uid int, environ func(string) string) error {
	switch user := environ("SUDO_USER"); {
	case uid != 0:
		return nil
	case user != "" && user != "root":
		return fault.Forbidden("mossd runs as an ordinary user, not as root: start it as %s, without sudo", user)
	default:
		return fault.Forbidden("mossd runs as an ordinary user, not as root: start it as one. 'useradd --create-home NAME' makes " +
			"a user, " +
			"and 'su --login NAME' is a shell of theirs")
	}
}

// checkHost refuses root, and a machine without the programs that RootlessKit calls, which would name them late or not at
// all, and warns of a kernel that is too old.
func checkHost(log zerolog.Logger) error {
	if err := RefuseRoot(os.Geteuid(), os.Getenv); err != nil {
		return err
	}
	for _, program := range []string{"unshare", "mount"} {
		if _, err := exec.LookPath(program); err != nil {
			return fault.NotFound("%s is not installed: install the package util-linux, or mount", program)
		}
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return fmt.Errorf("ask for the kernel's version: %w", err)
	}
	if release := unix.ByteSliceToString(name.Release[:]); tooOld(release) {
		log.Warn().Str("kernel", release).Msg(fmt.Sprintf("the kernel is older than %d.%d: parts of moss may not work", oldestMajor,
			oldestMinor))
	}
	return nil
}

// tooOld reads a kernel's release, such as 5.10.0-28-amd64. One that it cannot read is not called old.
func tooOld(release string) bool {
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		return false
	}
	return major < oldestMajor || major == oldestMajor && minor < oldestMinor
}
