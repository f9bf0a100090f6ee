package remote

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"time"

	"moss/engine/build/source"
	"moss/engine/fault"
	"moss/engine/tree"
)

// GitOptions say what ADD wants of a repository.
type GitOptions struct {
	Keep     bool   // .git stays
	Checksum string // the commit, or its beginning, that the reference must lead to; may be empty
}

// Repository fetches what a text names as a git repository: URL[?query][#ref[:subdir]]. Files have the time of the commit.
// Submodules come along. Only http, https and git are spoken, also with submodules, nothing of the user's own settings of git
// is used, and nothing that the repository holds is run. The caller closes the tree.
//
// Errors are fault.NotFound (repository, reference, folder), fault.Forbidden, fault.Invalid (what is asked for),
// fault.Unsupported (git is missing, or would have to use ssh), those of Room, or internal.
func Repository(ctx context.Context, text string, want GitOptions, opt Options) (*source.Tree, error) {
	r, err := parseReference(text)
	if err != nil {
		return nil, err
	}
	if want.Checksum != "" {
		if r.checksum = strings.ToLower(want.Checksum); !isCommit(r.checksum, leastChecksum) {
			return nil, fault.Invalid("the git checksum %.100q is not a commit", want.Checksum)
		}
	}
	r.keep = r.keep || want.Keep
	program := opt.GitPath
	if program == "" {
		program = "git"
	}
	if program, err = exec.LookPath(program); err != nil {
		return nil, fault.Unsupported("fetch %s: git is needed for it and not installed", r.remote)
	}
	dir, err := os.MkdirTemp(opt.Source.Dir, "git-*")
	if err != nil {
		return nil, err
	}
	g := &git{program: program, dir: dir, r: r, room: opt.Source.Room}
	files, err := g.fetchTree(ctx, opt.Source)
	if err = errors.Join(err, tree.RemovePath(dir)); err != nil {
		if files != nil {
			files.Close() //nolint:errcheck // nobody will read it
		}
		return nil, fmt.Errorf("git repository %s: %w", r.remote, err)
	}
	return files, nil
}

// git runs git for one repository.
type git struct {
	program string
	dir     string // the checkout
	r       *reference
	room    func(bytes, files int64) error
}

// fetchTree checks the reference out and returns its files as a tree.
func (g *git) fetchTree(ctx context.Context, opt source.Options) (*source.Tree, error) {
	for _, args := range [][]string{
		{"-c", "init.defaultBranch=master", "init", "--quiet", "--template="},
		{"config", "remote.origin.url", g.r.remote.String()},
	} {
		if _, err := g.runGit(ctx, args...); err != nil {
			return nil, err
		}
	}
	from, err := g.fetchCommit(ctx)
	if err != nil {
		return nil, err
	}
	hash, err := g.runGit(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", from+"^{commit}")
	if err != nil {
		return nil, fault.NotFound("no commit is called %s", g.r.ref)
	}
	if err := g.verifyChecksum(ctx, from, hash); err != nil {
		return nil, err
	}
	if _, err := g.runGit(ctx, "checkout", "--progress", "--detach", "--force", hash, "--"); err != nil {
		return nil, err
	}
	if g.r.submodules {
		// --progress, so that there is something to hear while something comes.
		if _, err := g.runGit(ctx, "submodule", "update", "--init", "--recursive", "--depth=1", "--progress"); err != nil {
			return nil, fmt.Errorf("submodules: %w", err)
		}
	}
	at, err := g.runGit(ctx, "show", "--no-patch", "--format=%ct", hash, "--")
	if err != nil {
		return nil, err
	}
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("the time of commit %s: %w", hash, err)
	}
	var skip []string
	if !g.r.keep {
		skip = []string{".git"}
	}
	tree, err := source.FromFolder(ctx, g.dir, skip, time.Unix(seconds, 0), opt)
	if err != nil || g.r.subdir == "." {
		return tree, err
	}
	return tree.Into(g.r.subdir)
}

// fetchCommit fetches the wanted commit, alone if the server lets it, and returns a name for it.
func (g *git) fetchCommit(ctx context.Context) (string, error) {
	ref := g.r.ref
	if ref == "" {
		ref = "HEAD"
	}
	_, err := g.runGit(ctx, "fetch", "--progress", "--depth=1", "--no-tags", "--no-recurse-submodules", "--", "origin", ref)
	if err == nil {
		return "FETCH_HEAD", nil
	}
	shallow := !strings.Contains(err.Error(), "does not support shallow")
	if !isCommit(ref, leastCommit) && shallow {
		return "", err
	}
	// A commit that the server gives to nobody by its name is found in all that it has; so is the beginning of one.
	if _, all := g.runGit(ctx, "fetch", "--progress", "--no-recurse-submodules", "--", "origin",
		"+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*", "+HEAD:refs/remotes/origin/HEAD"); all != nil {
		return "", errors.Join(err, all)
	}
	for _, name := range []string{"refs/tags/" + ref, "refs/remotes/origin/" + ref, ref} {
		if _, err := g.runGit(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", name); err == nil {
			return name, nil
		}
	}
	return "", err
}

// verifyChecksum compares the commit with the checksum that is asked for, which may be that of a tag.
func (g *git) verifyChecksum(ctx context.Context, from, hash string) error {
	if g.r.checksum == "" || strings.HasPrefix(hash, g.r.checksum) {
		return nil
	}
	tag, err := g.runGit(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", from)
	if err == nil && strings.HasPrefix(tag, g.r.checksum) {
		return nil
	}
	return fault.Invalid("expected checksum to match %s, got %s", g.r.checksum, hash)
}

// missingDir is the path of a folder that does not exist, in place of the home that git would read.
func (g *git) missingDir() string { return path.Join(g.dir, ".git", "nowhere") }
