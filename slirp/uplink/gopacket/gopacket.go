// Package gopacket stands in for github.com/google/gopacket, of which gvisor-tap-vsock uses one thing: to print packets
// when it is told to debug, which moss never does. The original fills tables for every number a protocol field can hold
// when a program starts: 3 ms and 6 MiB in each of the engine's processes, whichever network driver is in use.
package gopacket

import "encoding/hex"

// Decoder names the layer that a packet begins with. It is not looked at.
type Decoder int

// DecodeOptions are not looked at.
type DecodeOptions struct{}

// Default are the options of a caller that wants none.
var Default = DecodeOptions{} //nolint:gochecknoglobals // the original's name

// Packet is the bytes of one packet.
type Packet []byte

// NewPacket keeps data; it is not copied.
func NewPacket(data []byte, _ Decoder, _ DecodeOptions) Packet { return data }

// String returns the packet as a hex dump.
func (p Packet) String() string { return hex.Dump(p) }
