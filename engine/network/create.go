package network

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"moss/engine/fault"
	"moss/engine/id"
	"moss/engine/record"
)

// CreateOptions is what a client asks of a new network (API document 2, 4.5).
type CreateOptions struct {
	Name           string
	CheckDuplicate bool   // refuse a name that there is already
	Driver         string // empty: bridge
	Internal       bool
	Attachable     bool // only kept
	EnableIPv6     bool
	IPAM           IPAMRequest
	Options        map[string]string
	Labels         map[string]string
	ConfigOnly     bool   // keep the settings for others
	ConfigFrom     string // name or id of a network that does; empty: these settings count
}

// Create makes a network and returns it, with a warning for what will not be as the client may think. fault.Invalid for
// settings that cannot be, fault.Forbidden for a built-in network's name or driver and for settings that do not go with
// ConfigOnly or ConfigFrom, fault.NotFound for another driver or a ConfigFrom that is not there, fault.Conflict for a duplicate
// name where that was to be checked, for a subnet or a device that is taken, and fault.Unavailable if there is no free subnet.
// On error nothing is left.
func (s *Service) Create(ctx context.Context, opt CreateOptions) (_ *Network, warning string, err error) {
	n, warnings, err := opt.toNetwork(s.opt.MTU)
	if err != nil {
		return nil, "", err
	}
	if err := s.acquireToken(ctx); err != nil {
		return nil, "", err
	}
	defer s.releaseToken()
	if namesake := s.findByName(n.Name); namesake != nil {
		if opt.CheckDuplicate {
			return nil, "", NameTaken(n.Name)
		}
		warnings = append(warnings, fmt.Sprintf("Network with name %s (id : %s) already exists", n.Name, namesake.ID))
	}
	if opt.ConfigFrom != "" {
		if n, err = s.withSettings(n, opt.ConfigFrom); err != nil {
			return nil, "", err
		}
	}
	ctx = context.WithoutCancel(ctx) // from here on it is made, or taken back, even if the client hangs up
	made, err := s.buildNetwork(ctx, n)
	if err != nil {
		return nil, "", fmt.Errorf("create network %s: %w", n.Name, err)
	}
	if err := s.saveNetwork(made); err != nil {
		// The record may be in place although it could not be made durable.
		return nil, "", errors.Join(fmt.Errorf("create network %s: %w", n.Name, err),
			record.Remove(s.recordPath(made.ID)), s.opt.Driver.RemoveNetwork(ctx, made.ID))
	}
	s.publishEvent("create", made)
	return made, strings.Join(warnings, "; "), nil
}

// findByName returns a network of that name, nil if there is none.
func (s *Service) findByName(name string) *Network {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.networks {
		if n.Name == name {
			return n
		}
	}
	return nil
}

// toNetwork checks what the client asks for and returns the network that it describes, with pools that the driver has still
// to fill. mtu is that of the way out.
func (o *CreateOptions) toNetwork(mtu int) (n *Network, warnings []string, err error) {
	if Builtin(o.Name) || o.Name == "default" {
		return nil, nil, fault.Forbidden("operation is not permitted on predefined %s network", o.Name)
	}
	if err := checkName(o.Name); err != nil {
		return nil, nil, err
	}
	switch o.Driver {
	case "", DriverBridge:
	case DriverHost, DriverNull:
		return nil, nil, fault.Forbidden("only one instance of %q network is allowed", o.Driver)
	default:
		return nil, nil, noPlugin(o.Driver)
	}
	if err := o.checkConfig(); err != nil {
		return nil, nil, err
	}
	n = &Network{
		ID: id.New(), Name: o.Name, Driver: DriverBridge, Created: time.Now().UTC(), Internal: o.Internal, Attachable: o.Attachable,
		EnableIPv6: o.EnableIPv6, ConfigOnly: o.ConfigOnly,
		Options: maps.Clone(o.Options), Labels: maps.Clone(o.Labels),
	}
	if o.ConfigOnly {
		n.Driver = DriverNull
	}
	var unused []netip.Prefix
	if n.IPAM, unused, err = o.IPAM.toIPAM(o.EnableIPv6); err != nil {
		return nil, nil, err
	}
	for _, subnet := range unused {
		warnings = append(warnings, fmt.Sprintf("The subnet %s is not used: a network has IPv6 with EnableIPv6 only", subnet))
	}
	settings, err := parseOptions(o.Options)
	if err != nil {
		return nil, nil, err
	}
	if o.EnableIPv6 && settings.mtu != 0 && settings.mtu < LeastMTU6 {
		return nil, nil, fault.Invalid("invalid value for %s: %d: IPv6 needs at least %d", OptionMTU, settings.mtu, LeastMTU6)
	}
	if mtu > 0 && settings.mtu > mtu {
		warnings = append(warnings, fmt.Sprintf("%s: packets of more than %d bytes are cut into pieces on the way out of this host",
			OptionMTU, mtu))
	}
	for what, given := range map[string]map[string]string{"driver bridge": o.Options, "IPAM driver default": o.IPAM.Options} {
		if list := foreignKeys(given); len(list) > 0 {
			warnings = append(warnings, fmt.Sprintf("The %s has no option %s: kept and of no effect", what, strings.Join(list, ", ")))
		}
	}
	slices.Sort(warnings)
	return n, warnings, nil
}

// longestName is how many bytes a network's name may have: it is a part of names in DNS.
const longestName = 255

// checkName returns fault.Invalid for a name that no network can have: what may be part of a path, of NetworkMode and of a
// name in DNS.
func checkName(name string) error {
	if name == "" {
		return fault.Invalid("network name cannot be empty")
	}
	ok := len(name) <= longestName
	for i := 0; ok && i < len(name); i++ {
		c := name[i]
		alnum := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		ok = alnum || i > 0 && strings.IndexByte("_.-", c) >= 0 || i > 0 && i < len(name)-1 && c == ' '
	}
	if !ok {
		return fault.Invalid("Invalid network name (%s), only [a-zA-Z0-9][a-zA-Z0-9_.-] and spaces between them are allowed, up "+
			"to %d of them",
			name, longestName)
	}
	return nil
}

// noPlugin is what clients are told of a driver that is not there.
func noPlugin(name string) error { return fault.NotFound("plugin %q not found", name) }
