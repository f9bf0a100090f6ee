// Package archive copies files into and out of containers as tar streams (API document 2, 4.1: archive, copy, export).
//
// A container's files are hostile: a process in it may change every name while it is looked at. So nothing here is done by
// path: names are resolved by the kernel inside the container's root (openat2), and everything below by descriptor. What
// the package gets is such a root; it does not know how it came to be, what a layer is, or whether the container runs.
package archive
