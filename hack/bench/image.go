package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// imageRef is the image that everything here runs.
const imageRef = "localhost/moss-bench/busybox:latest"

// appletNames lists the applets that the image has.
func appletNames() []string {
	return []string{"sh", "true", "sleep", "cat", "dd", "head", "yes", "ls", "wc", "mkdir", "cp", "tar", "rm"}
}

// findBusybox returns a static busybox, which is all that the image holds.
func findBusybox() (string, error) {
	path, err := exec.LookPath("busybox")
	if err != nil {
		return "", fmt.Errorf("%w (hack/install-deps.sh --for bench installs it)", err)
	}
	file, err := elf.Open(path)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	libraries, err := file.ImportedLibraries()
	if err := errors.Join(err, file.Close()); err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	if len(libraries) > 0 {
		return "", fmt.Errorf("%s is not static: install busybox-static", path)
	}
	return path, nil
}

const passwd = "root:x:0:0:root:/root:/bin/sh\n"

// imageTar returns the root filesystem as a tar.
func imageTar(busybox string) ([]byte, error) {
	binary, err := os.ReadFile(busybox)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, dir := range []string{"bin", "data", "etc", "proc", "sys", "dev", "tmp", "root"} {
		err = errors.Join(err, w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}))
	}
	write := func(name string, mode int64, content []byte) error {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content))}); err != nil {
			return err
		}
		_, err := w.Write(content)
		return err
	}
	err = errors.Join(err, write("bin/busybox", 0o755, binary), write("etc/passwd", 0o644, []byte(passwd)))
	for _, name := range appletNames() {
		err = errors.Join(err, w.WriteHeader(&tar.Header{
			Typeflag: tar.TypeSymlink, Name: "bin/" + name, Linkname: "busybox", Mode: 0o777,
		}))
	}
	err = errors.Join(err, w.Close()) // before the bytes are taken: it writes the end
	return buf.Bytes(), err
}

// unpackRootfs makes the same as a plain folder, for the floor.
func unpackRootfs(busybox, dir string) error {
	for _, name := range []string{"bin", "etc", "proc", "sys", "dev", "tmp", "root"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			return err
		}
	}
	if err := copyProgram(busybox, filepath.Join(dir, "bin", "busybox")); err != nil {
		return err
	}
	for _, name := range appletNames() {
		if err := os.Symlink("busybox", filepath.Join(dir, "bin", name)); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, "etc", "passwd"), []byte(passwd), 0o644)
}
