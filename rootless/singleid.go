package rootless

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rootless-containers/rootlesskit/v3/pkg/parent"
	"github.com/rootless-containers/rootlesskit/v3/pkg/parent/dynidtools"
	"github.com/rootless-containers/rootlesskit/v3/pkg/parent/idtools"
)

// minSubIDs is the smallest number of sub-ids that are of use: those of the accounts that systems begin with, and the group of
// terminals. Common images want 65536.
const minSubIDs = 100

// singleIDReason says why this user gets a map of one id only; empty when sub-ids can be used. source is where
// RootlessKit finds them, or the stand-ins of putMapHelpers.
func singleIDReason() (reason string, source parent.SubidSource) {
	source = parent.SubidSourceAuto
	me, err := user.Current()
	if err != nil {
		return fmt.Sprintf("the user is unknown to this machine: %v", err), source
	}
	for _, tool := range []string{"newuidmap", "newgidmap"} {
		if _, err := exec.LookPath(tool); err != nil {
			return tool + " is not installed", source
		}
	}
	uids, gids, found, err := subIDs(me.Username, "/etc/nsswitch.conf")
	if err != nil {
		return err.Error(), source
	}
	if n := countIDs(uids); n < minSubIDs {
		return fmt.Sprintf("%s has %d subordinate uids, %d are needed", me.Username, n, minSubIDs), source
	}
	if n := countIDs(gids); n < minSubIDs {
		return fmt.Sprintf("%s has %d subordinate gids, %d are needed", me.Username, n, minSubIDs), source
	}
	return "", found
}

// subIDs returns the ranges of the user and where they were found. Where nsswitch.conf names no source of its own, the
// files hold all there is; reading them saves a start eight runs of getsubids, 2 to 4 ms each.
func subIDs(name, nsswitch string) (uids, gids []idtools.SubIDRange, source parent.SubidSource, err error) {
	if raw, err := os.ReadFile(nsswitch); err == nil && onlyFiles(string(raw)) {
		if uids, gids, err := idtools.GetSubIDRanges(os.Getuid(), name); err == nil {
			return uids, gids, parent.SubidSourceStatic, nil
		}
	}
	uids, gids, err = dynidtools.GetSubIDRanges(os.Getuid(), name)
	if err != nil || len(uids) == 0 || len(gids) == 0 {
		uids, gids, err = idtools.GetSubIDRanges(os.Getuid(), name)
	}
	return uids, gids, parent.SubidSourceAuto, err
}

// onlyFiles reports whether nsswitch.conf leaves sub-ids to /etc/subuid and /etc/subgid, as it does by saying nothing.
func onlyFiles(nsswitch string) bool {
	for line := range strings.Lines(nsswitch) {
		line, _, _ = strings.Cut(line, "#")
		if database, sources, found := strings.Cut(line, ":"); found && strings.TrimSpace(database) == "subid" {
			return strings.TrimSpace(sources) == "files"
		}
	}
	return true
}

func countIDs(ranges []idtools.SubIDRange) int {
	n := 0
	for _, r := range ranges {
		n += r.Length
	}
	return n
}

// putMapHelpers makes a folder of links to this binary under the names that RootlessKit calls to map ids. RootlessKit
// refuses a user without sub-ids; these helpers let it go on and write the one id that needs no privilege.
func putMapHelpers(dir string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find mossd's own binary: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, name := range []string{"getsubids", "newuidmap", "newgidmap"} {
		link := filepath.Join(dir, name)
		if err := os.Remove(link); err != nil && !os.IsNotExist(err) { //nolint:forbidigo // replaced below
			return err
		}
		if err := os.Symlink(self, link); err != nil {
			return err
		}
	}
	return nil
}

// mapHelper stands in for one of shadow's tools and returns its exit status. Arguments are those RootlessKit gives:
// `getsubids [-g] USER`, `newuidmap PID 0 UID 1 …`, `newgidmap PID 0 GID 1 …`; only the first triplet is mapped.
func mapHelper(tool string, args []string, stdout, stderr io.Writer) int {
	fail := func(err error) int {
		fmt.Fprintf(stderr, "%s: %v\n", tool, err) //nolint:errcheck // nowhere left to report it
		return 1
	}
	if tool == "getsubids" {
		// The range is never used: the map helpers below leave it out. RootlessKit only wants to see one.
		fmt.Fprintf(stdout, "0: %s %d %d\n", args[len(args)-1], 1, 1) //nolint:errcheck // the reader notices
		return 0
	}
	if len(args) < 4 || args[1] != "0" || args[3] != "1" {
		return fail(fmt.Errorf("unexpected arguments %q", args))
	}
	if _, err := strconv.ParseUint(args[0], 10, 31); err != nil {
		return fail(err)
	}
	line := []byte("0 " + args[2] + " 1\n")
	proc := filepath.Join("/proc", args[0])
	if tool == "newuidmap" {
		if err := os.WriteFile(filepath.Join(proc, "uid_map"), line, 0); err != nil {
			return fail(err)
		}
		return 0
	}
	// The kernel takes a gid map from an unprivileged writer only after setgroups has been given up.
	if err := os.WriteFile(filepath.Join(proc, "setgroups"), []byte("deny"), 0); err != nil {
		return fail(err)
	}
	if err := os.WriteFile(filepath.Join(proc, "gid_map"), line, 0); err != nil {
		return fail(err)
	}
	return 0
}
