package upload

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"io"
)

// usual is the name of a Dockerfile that came without one.
const usual = "Dockerfile"

// IsArchive reports whether what comes is a tar archive, plain or compressed, and no Dockerfile. It takes nothing off.
func IsArchive(in *bufio.Reader) (bool, error) {
	const block = 512
	head, err := in.Peek(block)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, withoutPath(err)
	}
	for _, magic := range []string{"\x1f\x8b", "BZh", "\xfd7zXZ\x00", "\x28\xb5\x2f\xfd"} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return true, nil
		}
	}
	if len(head) < block {
		return false, nil
	}
	if _, err := tar.NewReader(bytes.NewReader(head)).Next(); err == nil {
		return true, nil
	}
	return head[0] == 0, nil // an archive that holds nothing; or nothing that would be a Dockerfile
}

// Alone returns a context that is a Dockerfile and nothing else.
func Alone(text io.Reader) (*Single, error) {
	raw, err := readDockerfile(text, "stdin")
	return &Single{text: raw}, err
}

// Single is a context of one file.
type Single struct{ text []byte }

// Write writes the context as a tar stream.
func (s *Single) Write(w io.Writer) error {
	out := tar.NewWriter(w)
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: usual, Mode: 0o644, Size: int64(len(s.text))}); err != nil {
		return err
	}
	if _, err := out.Write(s.text); err != nil {
		return err
	}
	return out.Close()
}
