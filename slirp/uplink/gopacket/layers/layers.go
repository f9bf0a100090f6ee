// Package layers stands in for the package of that name in github.com/google/gopacket; see there.
package layers

import "github.com/google/gopacket"

// LayerTypeEthernet is the layer that the packets of a tap device begin with.
const LayerTypeEthernet gopacket.Decoder = 17
