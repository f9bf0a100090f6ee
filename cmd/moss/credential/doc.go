// Package credential keeps what registries are shown: it reads the files and asks the helper programs that docker and
// podman use, and writes the first of the files. It speaks to no registry and prints nothing.
package credential
