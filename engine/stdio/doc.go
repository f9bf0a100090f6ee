// Package stdio holds the forms in which a container's streams travel: the stream numbers, the 8-byte frames that carry
// two outputs on one connection (API document 2, attach), and the detach keys of an interactive client.
//
// It knows nothing about containers, sockets or HTTP, and starts no goroutine.
package stdio
