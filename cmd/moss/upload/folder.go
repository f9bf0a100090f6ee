package upload

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Bounds of what is read whole, in bytes: the engine takes no more of a Dockerfile.
const maxDockerfile = 1 << 20

// Names of files that mean something in a context.
const (
	ignoreFile   = ".dockerignore"
	ignoreSuffix = ".dockerignore" // behind a Dockerfile's name: the patterns for this one alone
)

// Folder is a context on this machine.
type Folder struct {
	Dockerfile string            // path in the context as the engine is told it
	Notice     func(text string) // told of what cannot be sent; may be nil

	dir    string
	keep   []string          // paths that are sent whatever the patterns say
	added  map[string][]byte // files that the folder does not have, by name
	ignore *matcher
}

// Open prepares a folder. dockerfile is a path from where the user is, empty for the usual names in the folder; text, if it
// is not nil, is the Dockerfile in its place. A Dockerfile from elsewhere is sent along under a name of its own, which COPY
// does not see.
func Open(dir, dockerfile string, text io.Reader) (*Folder, error) {
	resolved, err := filepath.EvalSymlinks(dir)
	if err == nil {
		resolved, err = filepath.Abs(resolved)
	}
	if err != nil {
		return nil, fmt.Errorf("context %s: %w", dir, withoutPath(err))
	}
	f := &Folder{dir: resolved, added: map[string][]byte{}}
	switch {
	case text != nil:
		raw, err := readDockerfile(text, "stdin")
		if err != nil {
			return nil, err
		}
		return f, f.addDockerfile(raw, "")
	case dockerfile == "":
		if f.Dockerfile, err = usualName(resolved); err != nil {
			return nil, err
		}
	default:
		name, target, err := locateFile(resolved, dockerfile)
		if err != nil {
			return nil, fmt.Errorf("dockerfile %s: %w", dockerfile, withoutPath(err))
		}
		if name == "" {
			return f, f.addFile(target)
		}
		f.Dockerfile, f.keep = name, []string{target}
	}
	f.keep = append(f.keep, f.Dockerfile, f.Dockerfile+ignoreSuffix, ignoreFile)
	return f, f.readIgnore(f.localPath(f.Dockerfile + ignoreSuffix))
}

// usualName finds the Dockerfile of a context.
func usualName(dir string) (string, error) {
	for _, name := range []string{"Dockerfile", "dockerfile", "Containerfile"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return name, nil
		}
	}
	return "", fmt.Errorf("%s has no Dockerfile and no Containerfile; name one with --file", dir)
}

// locateFile returns the name of a file in a folder and, if it is a link, that of the file behind it, as paths with slashes.
// Of a file that is elsewhere it returns no name, and the path.
func locateFile(dir, file string) (name, target string, err error) {
	at, err := filepath.Abs(file)
	if err != nil {
		return "", "", err
	}
	// The name itself may be a link: as long as that stays inside, the engine follows it.
	parent, err := filepath.EvalSymlinks(filepath.Dir(at))
	if err != nil {
		return "", "", err
	}
	resolved, err := filepath.EvalSymlinks(at)
	if err != nil {
		return "", "", err
	}
	if info, err := os.Stat(resolved); err == nil && info.IsDir() {
		return "", "", errors.New("it is a folder")
	}
	name, target = pathBelow(dir, filepath.Join(parent, filepath.Base(at))), pathBelow(dir, resolved)
	if name == "" || target == "" {
		return "", resolved, nil
	}
	return name, target, nil
}

// pathBelow returns the path of something in a folder, empty if it is elsewhere.
func pathBelow(dir, at string) string {
	rel, err := filepath.Rel(dir, at)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return ""
	}
	return filepath.ToSlash(rel)
}

func (f *Folder) localPath(name string) string { return filepath.Join(f.dir, filepath.FromSlash(name)) }

// addFile sends a Dockerfile along that is not in the folder.
func (f *Folder) addFile(at string) error {
	file, err := os.Open(at)
	if err != nil {
		return fmt.Errorf("dockerfile %s: %w", at, withoutPath(err))
	}
	defer func() { _ = file.Close() }()
	raw, err := readDockerfile(file, at)
	if err != nil {
		return err
	}
	return f.addDockerfile(raw, at+ignoreSuffix)
}

// addDockerfile sends a Dockerfile along, with patterns that hide it from COPY. These are those of the file at ignore, else
// those of the folder.
func (f *Folder) addDockerfile(text []byte, ignore string) error {
	if err := f.readIgnore(ignore); err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	f.Dockerfile = ".dockerfile." + hex.EncodeToString(sum[:10]) // the same text, the same archive
	hidden := f.Dockerfile + ignoreSuffix
	patterns := append(append([]byte{}, f.ignore.text...), ("\n" + f.Dockerfile + "\n" + hidden + "\n")...)
	f.added[f.Dockerfile], f.added[hidden] = text, patterns
	f.keep = []string{ignoreFile}
	return nil
}

// readIgnore reads the patterns at a path, else those of the folder.
func (f *Folder) readIgnore(own string) error {
	for _, at := range []string{own, f.localPath(ignoreFile)} {
		if at == "" {
			continue
		}
		raw, err := os.ReadFile(at)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", at, withoutPath(err))
		}
		if f.ignore, err = newMatcher(raw); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		return nil
	}
	f.ignore = &matcher{}
	return nil
}

func readDockerfile(in io.Reader, from string) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(in, maxDockerfile+1))
	if err != nil {
		return nil, fmt.Errorf("dockerfile from %s: %w", from, withoutPath(err))
	}
	if len(raw) > maxDockerfile {
		return nil, fmt.Errorf("dockerfile from %s: it is larger than %d bytes", from, maxDockerfile)
	}
	return raw, nil
}

// isKept reports whether a path is sent whatever the patterns say; below reports it of something in a folder of that name.
func (f *Folder) isKept(name string) (itself, below bool) {
	for _, k := range f.keep {
		itself = itself || k == name
		below = below || strings.HasPrefix(path.Clean(k), name+"/")
	}
	return itself, below
}

// withoutPath drops the path from an error: who wraps it names the file as the user wrote it.
func withoutPath(err error) error {
	if wrapped, ok := errors.AsType[*fs.PathError](err); ok {
		return wrapped.Err
	}
	return err
}
